"""How objects are stored: their JSON and keys, caches of decoded values, selectors, and copies kept by a watch."""
