"""The API server: HTTP in front of admission and the store."""
