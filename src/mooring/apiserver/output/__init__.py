"""Representations of objects and of the API: tables, protobuf, OpenAPI, discovery, and response formats."""
