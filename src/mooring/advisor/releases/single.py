"""Find fields of an object that one release of Kubernetes lacks, for `mooring lint --kubernetes`.

Called by ``mooring.advisor.lint``. The release is compared with itself.
"""

from typing import Any

from mooring.advisor.audit.results import ObjectReference
from mooring.advisor.lint import rules
from mooring.advisor.lint.rules import Problem
from mooring.advisor.releases import checks, fields
from mooring.advisor.releases.options import Crossing, FieldChange
from mooring.advisor.releases.subjects import ReleaseObject
from mooring.advisor.snapshot import RawObject
from mooring.api.kinds import GroupVersion


class Release:
    """One Kubernetes release against which `mooring lint` checks objects."""

    def __init__(self, version: str) -> None:
        self._crossing = Crossing.between(version, version)

    def problems(self, tree: Any) -> list[Problem]:
        """Return a problem for each field and value of an object that the release lacks or has disabled."""
        if not isinstance(tree, dict) or not isinstance(tree.get("kind"), str):
            return []
        api_version, kind = str(tree.get("apiVersion") or ""), tree["kind"]
        served = self._crossing.history.kind(*GroupVersion.parse(api_version), kind)
        raw = RawObject(api_version, kind, "", "", _tree=tree)
        subject = ReleaseObject(raw, ObjectReference(api_version=api_version, kind=kind, stored=False), served)
        found = [
            Problem(rules.NOT_IN_RELEASE, each.field, each.message)
            for each in checks.check_versions(subject, self._crossing)
            if each.rule.id == "R001"
        ]
        return found or [self._build_problem(use) for use in fields.find_uses(subject, self._crossing)]

    def _build_problem(self, use: fields.FieldUse) -> Problem:
        release = self._crossing.end
        what = f"the value {use.value}" if use.is_value else "the field"
        if use.notice is None:
            return Problem(
                rules.NEEDS_MOORING, use.path, f"no release of Kubernetes has {what}: Mooring has, or the bridge"
            )
        if use.notice.change is FieldChange.LOST:
            since = f"; it came with {use.notice.release}" if use.notice.release else ""
            return Problem(rules.NOT_IN_RELEASE, use.path, f"{release} does not have {what}{since}")
        text = f"{release} has {what} behind {use.notice.gate}, which is off by default: it is dropped or refused"
        return Problem(rules.GATE_OFF, use.path, text)
