"""Admission of custom resources by their schemas.

- `validation`: a schema compiled into checks, and the errors that an update may keep; `formats` has the string formats.
- `structure`: checks beyond the schema: embedded objects, lists that are sets or maps.
- `rules`: CEL validation rules.
- `strategy`: the strategy of one version of a kind. Start there.
"""
