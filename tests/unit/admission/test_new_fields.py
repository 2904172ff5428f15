"""Fields newer than the minimum compatibility version, in kinds without pods: they may stay but not come."""

from typing import Any

import pytest

from admission_kinds import decoded, example, stored
from admission_pods import Tree, create_problems, created, pod_of, relabelled, update_problems
from mooring.admission.options import for_component
from mooring.admission.release_fields import DETAIL
from mooring.base import component
from mooring.base.version import Version

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
USES: dict[tuple[str, str, str], Tree] = {
    ("1.31", "Lease", "spec.strategy"): {"spec": {"strategy": "OldestEmulationVersion"}},
    ("1.31", "Lease", "spec.preferredHolder"): {
        "spec": {"preferredHolder": "me", "strategy": "OldestEmulationVersion"}
    },
    ("1.33", "CSIDriver", "spec.nodeAllocatableUpdatePeriodSeconds"): {
        "spec": {"nodeAllocatableUpdatePeriodSeconds": 60}
    },
    ("1.35", "CSIDriver", "spec.serviceAccountTokenInSecrets"): {
        "spec": {"serviceAccountTokenInSecrets": True, "tokenRequests": [{"audience": "a"}]}
    },
    ("1.36", "CSIDriver", "spec.preventPodSchedulingIfMissing"): {"spec": {"preventPodSchedulingIfMissing": True}},
    ("1.34", "DeviceClass", "spec.extendedResourceName"): {"spec": {"extendedResourceName": "example.com/gpu"}},
    ("1.33", "ResourceClaim", "spec.devices.requests[*].firstAvailable"): {"spec": ALTERNATIVES},
    ("1.33", "ResourceClaim", "spec.devices.requests[*].exactly.tolerations"): {"spec": TOLERANT},
    ("1.34", "ResourceClaim", "spec.devices.requests[*].exactly.capacity"): {"spec": ROOM},
    ("1.33", "ResourceClaimTemplate", "spec.spec.devices.requests[*].firstAvailable"): {"spec": {"spec": ALTERNATIVES}},
    ("1.33", "ResourceClaimTemplate", "spec.spec.devices.requests[*].exactly.tolerations"): {
        "spec": {"spec": TOLERANT}
    },
    ("1.34", "ResourceClaimTemplate", "spec.spec.devices.requests[*].exactly.capacity"): {"spec": {"spec": ROOM}},
    ("1.33", "ResourceSlice", "spec.perDeviceNodeSelection"): {
        "spec": {"nodeName": None, "perDeviceNodeSelection": True, "devices": [{"name": "d", "nodeName": "n"}]}
    },
    ("1.33", "ResourceSlice", "spec.sharedCounters"): {
        "spec": {"devices": None, "sharedCounters": [{"name": "s", "counters": {"memory": {"value": "1Gi"}}}]}
    },
    ("1.33", "ResourceSlice", "spec.devices[*].taints"): {
        "spec": {"devices": [{"name": "d", "taints": [{"key": "a", "effect": "NoExecute"}]}]}
    },
    ("1.34", "ResourceSlice", "spec.devices[*].bindingConditions"): {
        "spec": {"devices": [{"name": "d", "bindingConditions": ["Ready"], "bindingFailureConditions": ["Failed"]}]}
    },
    ("1.34", "ResourceSlice", "spec.devices[*].allowMultipleAllocations"): {
        "spec": {"devices": [{"name": "d", "allowMultipleAllocations": True}]}
    },
}


@pytest.mark.parametrize("place", USES, ids=" ".join)
def test_a_newer_field_may_stay_but_not_come(place: tuple[str, str, str]) -> None:
    since, kind, path = place
    before = for_component(component.resolve(min_compatibility=str(Version.parse(since).minus(1))))
    after = for_component(component.resolve(min_compatibility=since))
    refusal = f"{path.replace('[*]', '[0]')}: Forbidden: {DETAIL}"
    assert refusal in create_problems(example(kind, USES[place]), before)
    assert refusal not in create_problems(example(kind, USES[place]), after)
    old = stored(kind, USES[place])
    assert update_problems(relabelled(old), old, before) == []


SCOPES: dict[str, Tree] = {
    "a value of a list": {"scopes": ["VolumeAttributesClass"]},
    "a value alone": {
        "scopeSelector": {"matchExpressions": [{"scopeName": "VolumeAttributesClass", "operator": "Exists"}]}
    },
}


@pytest.mark.parametrize("uses", SCOPES.values(), ids=SCOPES)
def test_a_newer_value_of_a_closed_type_may_stay_but_not_come(uses: Tree) -> None:
    before = for_component(component.resolve(min_compatibility="1.32"))
    after = for_component(component.resolve(min_compatibility="1.33"))
    spec: Tree = {"hard": {"persistentvolumeclaims": "1"}, **uses}
    tree: Tree = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec}
    [problem] = create_problems(decoded(tree), before)
    assert 'Unsupported value: "VolumeAttributesClass": supported values: "BestEffort"' in problem
    assert create_problems(decoded(tree), after) == []
    old = created(decoded(tree))
    assert update_problems(relabelled(old), old, before) == []


def schema(**rule: Any) -> Tree:
    text = {"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self != ''", **rule}]}
    inner = {"type": "object", "properties": {"names": {"type": "array", "maxItems": 9, "items": text}}}
    version = {"name": "v1", "served": True, "storage": True}
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{**version, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": inner}}}}],
        },
    }


@pytest.mark.parametrize(("emulation", "kept"), [("1.29", None), ("1.30", True)])
def test_what_is_off_is_dropped_however_deep_a_schema_has_it(emulation: str, kept: bool | None) -> None:
    options = for_component(component.resolve(emulation=emulation, min_compatibility=emulation))
    definition = example("CustomResourceDefinition", schema(optionalOldSelf=True))
    assert options.release_fields is not None
    options.release_fields.reset_disabled(definition, None)
    [version] = definition.spec.versions
    names = version.schema.open_api_v3_schema.properties["spec"].properties["names"]
    assert names.items.validations[0].optional_old_self is kept


@pytest.mark.parametrize(
    ("emulation", "compatible", "gates", "refused"),
    [
        ("1.37", "1.32", "", False),
        ("1.37", "1.31", "", True),
        ("1.37", "1.30", "", True),
        ("1.34", "1.31", "", True),
        ("1.37", "1.31", "PodLevelResources=true", False),
    ],
)
def test_resources_of_a_pod_as_a_whole_wait_for_servers_that_read_them(
    emulation: str, compatible: str, gates: str, refused: bool
) -> None:
    running = component.resolve(emulation=emulation, min_compatibility=compatible, gates=gates)
    made = pod_of({"resources": {"requests": {"cpu": "1"}}})
    assert create_problems(made, for_component(running)) == (
        [f"spec.resources: Forbidden: {DETAIL}"] if refused else []
    )
