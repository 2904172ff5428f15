"""The views, one module each, and where they are found."""

from collections.abc import Mapping

from mooring.dashboard.asking import View
from mooring.dashboard.views import changes, expressions, nodes, overview, pending, pods, versions, what_if

ROUTES: Mapping[tuple[str, tuple[str, ...]], View] = {
    ("GET", ("",)): overview.page,
    ("GET", ("map",)): overview.squares,
    ("GET", ("pending",)): pending.page,
    ("GET", ("pending", "help", "*", "*", "*")): pending.show_remedies,
    ("GET", ("pods",)): pods.search,
    ("GET", ("pods", "*", "*")): pods.page,
    ("GET", ("nodes",)): nodes.search,
    ("GET", ("nodes", "*")): nodes.page,
    ("GET", ("nodes", "*", "eviction")): nodes.show_evictions,
    ("GET", ("what-if",)): what_if.page,
    ("POST", ("what-if", "step")): what_if.step,
    ("POST", ("what-if", "run")): what_if.run,
    ("POST", ("what-if", "scenario")): what_if.scenario,
    ("GET", ("what-if", "report", "*")): what_if.report,
    ("GET", ("upgrade",)): versions.upgrade_page,
    ("GET", ("upgrade", "check")): versions.check_upgrade,
    ("GET", ("versions",)): versions.page,
    ("GET", ("versions", "audit")): versions.audit_versions,
    ("GET", ("expressions",)): expressions.page,
    ("GET", ("expressions", "try")): expressions.try_expression,
}
"""By method and path; a `*` stands for a name."""

CHANGES: Mapping[tuple[str, tuple[str, ...]], View] = {
    ("POST", ("changes",)): changes.propose,
    ("POST", ("changes", "*")): changes.carry_out,
}
"""Pages that exist only with `--allow-changes`."""
