"""The views, one module each, and where they are found."""

from collections.abc import Mapping

from mooring.dashboard.asking import View
from mooring.dashboard.views import nodes, overview, pending, pods

ROUTES: Mapping[tuple[str, tuple[str, ...]], View] = {
    ("GET", ("",)): overview.page,
    ("GET", ("map",)): overview.squares,
    ("GET", ("pending",)): pending.page,
    ("GET", ("pending", "help", "*", "*")): pending.helps,
    ("GET", ("pods",)): pods.search,
    ("GET", ("pods", "*", "*")): pods.page,
    ("GET", ("nodes",)): nodes.search,
    ("GET", ("nodes", "*")): nodes.page,
    ("GET", ("nodes", "*", "eviction")): nodes.evicted,
}
"""By method and path; a `*` stands for a name."""
