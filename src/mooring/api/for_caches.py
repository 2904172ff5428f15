"""A watch for a cache, which asks for less: `?watch=true&forCache=true`, Mooring's own, of which others take no notice.

A cache has the object already, and nobody reads there who owns which field. So it is not told of `managedFields`; of a
deletion it is told the name, uid and version alone, and nothing of changes that come together with the deletion; of a
pod whose metadata alone have changed, as when it is to be deleted, these, and since which version (`since`).
``client/watch.py`` asks, ``apiserver/registry/cache_view.py`` answers, ``client/cache.py`` puts it together.
"""

PARAMETER = "forCache"
