"""What clients are shown besides stored objects: tables, protobuf, OpenAPI and discovery; and formats of responses."""
