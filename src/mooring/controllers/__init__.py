"""Reconcile loops, one file each."""
