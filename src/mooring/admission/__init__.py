"""Defaulting, mutation, validation and ratcheting of objects, as pure functions."""
