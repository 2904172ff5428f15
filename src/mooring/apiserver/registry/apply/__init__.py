"""Server-side apply: who owns which field, and what an applied configuration makes of an object.

- `field_set`: sets of fields, in the form in which `managedFields` stores them.
- `comparison`: which fields two objects differ in, and which fields a configuration names.
- `merging`: putting a configuration over an object, and taking away what it no longer names.
- `field_managers`: keeps `metadata.managedFields` on every write, and finds conflicts. Start there.
"""
