"""Typed Kubernetes objects, one module per group-version, and the rules that hold for all of them."""
