"""The scheduler: a queue, a cycle and plugins over columns."""
