"""Server-side apply: ownership of fields, and merging of applied configurations.

field_set       sets of fields, in the form in which `managedFields` stores them
comparison      compare objects, merge a configuration into one, remove fields that it no longer has
field_managers  update `metadata.managedFields` on every write, and find conflicts (start here)
"""
