"""Fields newer than the minimum compatibility version, in kinds without pods: they may stay but not come."""

from typing import Any

import pytest

from admission_kinds import example, stored
from admission_pods import Tree, create_problems, relabelled, update_problems
from mooring.admission import new_fields, options
from mooring.admission.options import for_component
from mooring.base import component

pytestmark = pytest.mark.req("4330.7")


def request(**exactly: Any) -> Tree:
    return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", **exactly}}]}}


ALTERNATIVES: Tree = {
    "devices": {
        "requests": [
            {
                "name": "r",
                "firstAvailable": [{"name": "a", "deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}],
                "exactly": None,
            }
        ]
    }
}
TOLERANT = request(tolerations=[{"key": "a", "operator": "Exists"}])
ROOM = request(capacity={"requests": {"memory": "1Gi"}})
USES: dict[tuple[str, str], Tree] = {
    ("Lease", "spec.strategy"): {"spec": {"strategy": "OldestEmulationVersion"}},
    ("Lease", "spec.preferredHolder"): {"spec": {"preferredHolder": "me", "strategy": "OldestEmulationVersion"}},
    ("CSIDriver", "spec.nodeAllocatableUpdatePeriodSeconds"): {"spec": {"nodeAllocatableUpdatePeriodSeconds": 60}},
    ("CSIDriver", "spec.serviceAccountTokenInSecrets"): {
        "spec": {"serviceAccountTokenInSecrets": True, "tokenRequests": [{"audience": "a"}]}
    },
    ("DeviceClass", "spec.extendedResourceName"): {"spec": {"extendedResourceName": "example.com/gpu"}},
    ("ResourceClaim", "spec.devices.requests[*].firstAvailable"): {"spec": ALTERNATIVES},
    ("ResourceClaim", "spec.devices.requests[*].exactly.tolerations"): {"spec": TOLERANT},
    ("ResourceClaim", "spec.devices.requests[*].exactly.capacity"): {"spec": ROOM},
    ("ResourceClaimTemplate", "spec.spec.devices.requests[*].firstAvailable"): {"spec": {"spec": ALTERNATIVES}},
    ("ResourceClaimTemplate", "spec.spec.devices.requests[*].exactly.tolerations"): {"spec": {"spec": TOLERANT}},
    ("ResourceClaimTemplate", "spec.spec.devices.requests[*].exactly.capacity"): {"spec": {"spec": ROOM}},
    ("ResourceSlice", "spec.perDeviceNodeSelection"): {
        "spec": {"nodeName": None, "perDeviceNodeSelection": True, "devices": [{"name": "d", "nodeName": "n"}]}
    },
    ("ResourceSlice", "spec.sharedCounters"): {
        "spec": {"devices": None, "sharedCounters": [{"name": "s", "counters": {"memory": {"value": "1Gi"}}}]}
    },
    ("ResourceSlice", "spec.devices[*].taints"): {
        "spec": {"devices": [{"name": "d", "taints": [{"key": "a", "effect": "NoExecute"}]}]}
    },
    ("ResourceSlice", "spec.devices[*].bindingConditions"): {
        "spec": {"devices": [{"name": "d", "bindingConditions": ["Ready"], "bindingFailureConditions": ["Failed"]}]}
    },
    ("ResourceSlice", "spec.devices[*].allowMultipleAllocations"): {
        "spec": {"devices": [{"name": "d", "allowMultipleAllocations": True}]}
    },
}


def test_every_field_has_a_use_here() -> None:
    assert USES.keys() == options.OTHER_FIELDS.keys()


@pytest.mark.parametrize("place", USES, ids=" ".join)
def test_a_newer_field_may_stay_but_not_come(place: tuple[str, str]) -> None:
    kind, path = place
    since = options.OTHER_FIELDS[place]
    before = for_component(component.resolve(min_compatibility=str(since.minus(1))))
    after = for_component(component.resolve(min_compatibility=str(since)))
    refusal = f"{path.replace('[*]', '[0]')}: Forbidden: {new_fields.DETAIL}"
    assert refusal in create_problems(example(kind, USES[place]), before)
    assert refusal not in create_problems(example(kind, USES[place]), after)
    old = stored(kind, USES[place])
    assert update_problems(relabelled(old), old, before) == []
