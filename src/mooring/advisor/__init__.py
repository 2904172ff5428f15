"""Questions about a cluster, answered without changing it.

    from mooring.advisor import explain, simulate, audit
    from mooring.advisor.snapshot import dump

    print(explain(dump([Path("cluster.yaml")]), pod))

Each function is in the package of its name and is loaded when it is first used. Results are frozen structs, the same in
Python, in `-o json` and over HTTP. Read next: ``snapshot/`` for what the questions are about.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mooring.advisor.explain import explain

__all__ = ["explain"]
_HOMES = {"explain": "mooring.advisor.explain"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
