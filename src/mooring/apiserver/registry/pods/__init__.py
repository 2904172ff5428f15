"""Subresources of pods: bindings and evictions."""
