"""Ways to use each of the three new gates, with nodes that match them now and later, for the walks through gates."""

from dataclasses import dataclass
from typing import Any

from mooring.base.known_gates import CEL, COMPARISON_OPERATORS, SEMVER_OPERATORS

UNTOLERATED = "had untolerated taint"
MISMATCH = "didn't match Pod's node affinity/selector"


@dataclass(frozen=True)
class Use:
    """A way to use a feature: for a node that is there, and for one that comes later."""

    id: str
    gate: str
    now: dict[str, Any]
    later: dict[str, Any]
    """What the spec of a pod says, to match the node `now` and the node `later`."""
    values: tuple[str, str]
    """Of the taint or the label `walk` on these nodes."""
    refused: str
    """How the API server refuses a new use when the gate is off."""
    unmatched: str
    """What the scheduler says when nothing matches."""

    def node(self, name: str) -> dict[str, Any]:
        """Return the node `now` or `later`."""
        value = self.values[name == "later"]
        metadata: dict[str, Any] = {"name": name, "annotations": {"simulation.mooring.dev/node": "true"}}
        spec: dict[str, Any] = {}
        if self.unmatched == UNTOLERATED:
            spec["taints"] = [{"key": "walk", "value": value, "effect": "NoSchedule"}]
        else:
            metadata["labels"] = {"walk": value}
        return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec}

    def pod(self, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": _with_container(spec)}

    def deployment(self, name: str) -> dict[str, Any]:
        """One replica with the use in its template, for the node `now`."""
        labels = {"app": name}
        template = {"metadata": {"labels": labels}, "spec": _with_container(self.now)}
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
        }


def _with_container(spec: dict[str, Any]) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "img"}], **spec}


def _tolerated(operator: str, value: str) -> dict[str, Any]:
    return {"tolerations": [{"key": "walk", "operator": operator, "value": value}]}


def _required(**term: Any) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def _version(operator: str, value: str) -> dict[str, Any]:
    return _required(matchExpressions=[{"key": "walk", "operator": operator, "values": [value]}])


NUMBERS = Use(
    "numeric tolerations",
    COMPARISON_OPERATORS,
    _tolerated("Lt", "50"),
    _tolerated("Gt", "50"),
    ("10", "60"),
    'tolerations[0].operator: Unsupported value: "Lt"',
    UNTOLERATED,
)
VERSIONS_IN_TOLERATIONS = Use(
    "version tolerations",
    SEMVER_OPERATORS,
    _tolerated("SemverLt", "v2"),
    _tolerated("SemverGt", "v2"),
    ("v1.10.0", "v2.1.0"),
    'tolerations[0].operator: Unsupported value: "SemverLt"',
    UNTOLERATED,
)
VERSIONS_IN_AFFINITY = Use(
    "versions in node affinity",
    SEMVER_OPERATORS,
    _version("SemverLt", "2.0.0"),
    _version("SemverGt", "2.0.0"),
    ("1.10.0", "2.1.0"),
    'matchExpressions[0].operator: Invalid value: "SemverLt": not a valid selector operator',
    MISMATCH,
)
EXPRESSIONS_IN_TOLERATIONS = Use(
    "expressions in tolerations",
    CEL,
    {"tolerations": [{"expression": "taint.key == 'walk' && taint.value == 'now'"}]},
    {"tolerations": [{"expression": "taint.key == 'walk' && taint.value == 'later'"}]},
    ("now", "later"),
    "tolerations[0].expression: Forbidden",
    UNTOLERATED,
)
EXPRESSIONS_IN_AFFINITY = Use(
    "expressions in node affinity",
    CEL,
    _required(matchCELExpressions=["node.labels['walk'] == 'now'"]),
    _required(matchCELExpressions=["node.labels['walk'] == 'later'"]),
    ("now", "later"),
    "matchCELExpressions[0]: Forbidden",
    MISMATCH,
)
USES = (
    NUMBERS,
    VERSIONS_IN_TOLERATIONS,
    VERSIONS_IN_AFFINITY,
    EXPRESSIONS_IN_TOLERATIONS,
    EXPRESSIONS_IN_AFFINITY,
)
