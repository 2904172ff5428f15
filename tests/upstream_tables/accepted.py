"""Differences from upstream's tables that are meant, each with its reason.

`tests/conformance/test_upstream.py` fails for an entry that no case needs, so the list cannot outlive its reasons.
"""

import re
from typing import NamedTuple


class Accepted(NamedTuple):
    """A difference: the table, patterns for the case's name and for the difference, and why it is right."""

    table: str
    case: str
    problem: str
    reason: str


ACCEPTED: tuple[Accepted, ...] = (
    Accepted(
        "validate_pod",
        r"negative terminationGracePeriodSeconds",
        r"",
        "defaulting replaces a negative period by 1 before validation, as in Kubernetes 1.37",
    ),
    Accepted(
        "spread_validation",
        r"invalid MatchLabelKeys when (OldPodViolatesMatchLabelKeysValidation is true|.*TopologySpread is false and)",
        r"",
        "rejected by both, at another path: for a stored pod that neither validation accepts, or with the gate off, "
        "when the field is dropped before validation",
    ),
    Accepted(
        "scheduling",
        r"",
        r"no error, upstream an error",
        "validation rejects such an affinity; upstream fails the attempt, here the term matches nothing",
    ),
    Accepted(
        "hints",
        r"modify pod label but it still matches one of target pod's anti-affinity terms",
        r"'Queue'",
        "another term, for another domain, became satisfiable: a retry can succeed",
    ),
    Accepted(
        "hints",
        r"update node to have the anti-affinity topology label",
        r"'Queue'",
        "the node's domain changed: a retry can succeed",
    ),
    Accepted(
        "hints",
        r"update node with different taints that match all topologySpreadConstraints",
        r"'QueueSkip'",
        "no constraint honours taints, so spreading does not depend on them",
    ),
    Accepted(
        "gates.gates",
        r"",
        r"^stage ",
        "below a minimum compatibility version Mooring keeps the newest entry with its default off; the value is equal",
    ),
    Accepted(
        "cel.costs",
        r"[\[{]",
        r"^cheaper at run time",
        "Kubernetes folds constant lists and maps (OptOptimize); upstream's test environment does not",
    ),
    Accepted(
        "cel.costs",
        r"[\[{]",
        r"^unbounded estimate",
        "upstream's test declares how long the strings are; nothing declares it in the environments here",
    ),
    Accepted("cel.values", r"", r"^worded ", "an error in both, worded differently"),
    Accepted(
        "eviction",
        r"lengthening toleration",
        r"",
        "settled question 16: the deadline follows the pod's current tolerations",
    ),
    Accepted(
        "eviction",
        r"tolerationSeconds 1, timeAdded 30 s ahead",
        r"",
        "settled question 16: the countdown of a tolerated taint starts at the later of timeAdded and the binding",
    ),
)

FROM_CHECKOUT: tuple[Accepted, ...] = (
    Accepted(
        "checkout",
        r"resource with zero weight",
        r"accepted",
        "defaulting makes the weight 1, as in kube-scheduler's configuration; the table calls the plugin without it",
    ),
    Accepted(
        "checkout",
        r"requeued when a NodeTaint of a Node with a topology label has been updated",
        r"",
        "no constraint honours taints, so spreading does not depend on them",
    ),
    Accepted(
        "checkout",
        r"CSI NodeVolumeLimits plugin is requeued .*when the VolumeAttachment is deleted",
        r"fits at once",
        "a volume that is attached to the node already is not counted again for a pod that uses it",
    ),
)
"""Differences from tables that are read from a checkout."""


def find(table: str, case: str, problem: str) -> Accepted | None:
    """Return the entry that accepts a difference."""
    for entry in (*ACCEPTED, *FROM_CHECKOUT):
        if entry.table == table and re.search(entry.case, case) and re.search(entry.problem, problem):
            return entry
    return None
