"""The objects of every kind over HTTP, at every served version, on any store.

- `handler.Resources` dispatches requests by verb; start there. `context` is what all handlers share.
- `reading` and `watching` are the verbs that read, with `selection` and `views`; `stored` is how objects are stored.
- `executor` executes writes, which `changes`, `deleting` and `pods` draft; `templates` are for batches.
- `admission_lookups` serves admission; `admission_chain` calls policies and webhooks; then `quota/`, `services/`.
- `scaling` is the subresource scale; `patch/` and `apply/` change objects; `bootstrap` fills a new cluster.
"""

from mooring.apiserver.registry.bootstrap import bootstrap
from mooring.apiserver.registry.context import HandlerContext
from mooring.apiserver.registry.handler import Resources

__all__ = ["HandlerContext", "Resources", "bootstrap"]
