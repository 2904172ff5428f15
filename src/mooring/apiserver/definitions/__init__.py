"""Kinds that users add: what a CustomResourceDefinition makes of a running server.

- `following`: watches definitions, and teaches scheme, admission and resources what they say. Start there.
- `names`: the status of a definition: which names it gets, and its conditions.
"""
