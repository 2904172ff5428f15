"""The views, one module each, and where they are found."""

from collections.abc import Mapping

from mooring.dashboard.asking import View
from mooring.dashboard.views import overview, pending

ROUTES: Mapping[tuple[str, tuple[str, ...]], View] = {
    ("GET", ("",)): overview.page,
    ("GET", ("map",)): overview.squares,
    ("GET", ("pending",)): pending.page,
    ("GET", ("pending", "help", "*", "*")): pending.helps,
}
"""By method and path; a `*` stands for a name."""
