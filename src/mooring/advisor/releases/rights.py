"""RBAC rules that name groups, resources or verbs which the other release does not have.

What no release has is somebody's mistake or a custom kind, and not our question; neither are the roles that the server
keeps itself. Called by ``auditor.py``.
"""

from collections.abc import Iterator
from typing import Any

from mooring.advisor.releases.options import Crossing
from mooring.advisor.releases.results import Effect, Finding
from mooring.advisor.releases.subjects import Subject, items, mapping

_KINDS = frozenset({"Role", "ClusterRole"})
_BOOTSTRAPPED = "kubernetes.io/bootstrapping"


def findings(subject: Subject, crossing: Crossing) -> Iterator[Finding]:
    """Rules of a role that give rights to nothing on the other side."""
    if subject.reference.kind not in _KINDS or subject.group != "rbac.authorization.k8s.io":
        return
    if _BOOTSTRAPPED in mapping(subject.metadata.get("labels")):
        return
    for index, rule in enumerate(items(subject.tree.get("rules"))):
        for group, resource in _named(mapping(rule)):
            where = _there(group, resource, crossing, end=True)
            if where is False and _there(group, resource, crossing, end=False):
                text = f"{crossing.end} has no {resource} in {group or 'the core group'}: the rule gives no right there"
                yield Finding(
                    object=subject.reference,
                    field=f"rules[{index}].resources",
                    value=f"{resource}.{group}" if group else resource,
                    effect=Effect.RIGHTS_TO_NOTHING,
                    message=text,
                )


def _named(rule: Any) -> Iterator[tuple[str, str]]:
    for group in items(rule.get("apiGroups")):
        for resource in items(rule.get("resources")):
            if isinstance(group, str) and isinstance(resource, str) and "*" not in (group, resource):
                yield group, resource


def _there(group: str, resource: str, crossing: Crossing, *, end: bool) -> bool | None:
    """Whether a release has the resource; None for groups that are no part of Kubernetes."""
    if group not in crossing.history.groups:
        return None
    plural, _, sub = resource.partition("/")
    versions = crossing.history.versions(group, plural)
    if plural == "*" or sub == "*":
        return True
    if not sub:
        return any(crossing.knows(each, end=end) for each in versions)
    return any(crossing.subresource(each, sub, end=end) for each in versions)
