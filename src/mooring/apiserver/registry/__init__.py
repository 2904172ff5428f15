"""Objects over HTTP: every kind of the scheme at every served version, on any store.

- `handler.Resources` sorts requests by verb; start there.
- `context` is what all handlers share, `stored` how objects lie in the store, `facts` what admission may look up.
- `reading`, `watching`, `writing`, `deleting` are the verbs; `selection` and `options` read their parameters.
- `pods`, `disruption` and `scaling` are the special subresources; `output` is Table, metadata and YAML.
- `bootstrap` is what a new cluster has.
"""

from mooring.apiserver.registry.bootstrap import bootstrap
from mooring.apiserver.registry.handler import Resources

__all__ = ["Resources", "bootstrap"]
