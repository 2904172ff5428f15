"""The query parameter of a reduced watch for caches: `?watch=true&forCache=true`. Mooring's own; other servers ignore
it.

A cache holds the object already and needs no `managedFields`. So the server leaves them out; of a deletion it sends
name, uid and version only, without changes made in the same write. ``client/watch.py`` requests it,
``apiserver/registry/verbs/views.py`` serves it.
"""

PARAMETER = "forCache"
