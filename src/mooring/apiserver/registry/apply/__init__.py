"""Server-side apply: ownership of fields, and merging of applied configurations.

field_set       sets of fields, in the form in which `managedFields` stores them
comparison      the fields in which two objects differ, and the fields of a configuration
merging         merge a configuration into an object, and remove fields it no longer has
field_managers  update `metadata.managedFields` on every write, and find conflicts (start here)
"""
