"""The objects of every kind over HTTP, at every served version, on any store.

- `handler.Resources` dispatches requests by verb; start there. `context` is what all handlers share.
- `verbs/` handle requests; writes draft what `verbs/executor.py` commits.
- `admission/` is what writes pass first, then `quota/` and `services/`; `patch/` and `apply/` change objects.
- `storage/` is how objects are stored, decoded, selected and followed.
- `cluster/` has the objects that the server writes itself.
"""

from mooring.apiserver.registry.cluster.bootstrap import bootstrap
from mooring.apiserver.registry.context import HandlerContext
from mooring.apiserver.registry.handler import Resources

__all__ = ["HandlerContext", "Resources", "bootstrap"]
