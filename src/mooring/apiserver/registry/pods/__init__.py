"""What only pods have: bindings, evictions, and the caches for pods from the same template."""
