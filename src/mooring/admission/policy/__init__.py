"""Admission policies in CEL: matching, validation and mutation, as pure functions.

`attributes` is the request as policies see it, `matching` decides which requests a policy or webhook matches,
`evaluation` evaluates expressions and match conditions. Read next: ``attributes.py``.
"""
