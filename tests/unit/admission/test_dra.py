"""Claims, slices, classes and taint rules of devices."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from admission_kinds import ABSENT, Create, Update, decoded, example, merged, shortened, stored
from admission_pods import NOW, Tree, create_problems, only, request, without
from mooring.admission.pipeline import admit_update
from mooring.api import codec
from mooring.api.resource_v1 import DeviceToleration

EXACTLY = "spec.devices.requests[0].exactly"
DNS_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
NOT_A_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
RESULT: Tree = {"request": "gpu", "driver": "gpu.example.com", "pool": "p", "device": "d0"}


def requests(*given: Tree, **more: Any) -> Tree:
    return {"spec": {"devices": {"requests": list(given), **more}}}


def exactly(**fields: Any) -> Tree:
    return requests({"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", **fields}})


def tolerating(**fields: Any) -> Tree:
    return exactly(tolerations=[fields])


def sub(name: str, **fields: Any) -> Tree:
    return {"name": name, "deviceClassName": "gpu.example.com", **fields}


CLAIMS = [
    Create("several ways", "ResourceClaim", requests({"name": "gpu", "firstAvailable": [sub("a"), sub("b", count=2)]})),
    Create(
        "no way",
        "ResourceClaim",
        requests({"name": "gpu"}),
        ["spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required"],
    ),
    Create(
        "both ways",
        "ResourceClaim",
        requests({"name": "gpu", "exactly": {"deviceClassName": "c"}, "firstAvailable": [sub("a")]}),
        [
            (
                "spec.devices.requests[0]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is "
                "required, but "
                "multiple fields are set"
            )
        ],
    ),
    Create(
        "the same way twice",
        "ResourceClaim",
        requests({"name": "gpu", "firstAvailable": [sub("a"), sub("a")]}),
        ['spec.devices.requests[0].firstAvailable[1]: Duplicate value: "a"'],
    ),
    Create(
        "too many ways",
        "ResourceClaim",
        requests({"name": "gpu", "firstAvailable": [sub(f"w{i}") for i in range(9)]}),
        ["spec.devices.requests[0].firstAvailable: Too many: 9: must have at most 8 items"],
    ),
    Create(
        "a name that is none",
        "ResourceClaim",
        requests({"name": "GPU", "exactly": {"deviceClassName": "c"}}),
        [f'spec.devices.requests[0].name: Invalid value: "GPU": {DNS_LABEL}'],
    ),
    Create(
        "the same request twice",
        "ResourceClaim",
        requests(
            {"name": "gpu", "exactly": {"deviceClassName": "c"}}, {"name": "gpu", "exactly": {"deviceClassName": "c"}}
        ),
        ['spec.devices.requests[1]: Duplicate value: "gpu"'],
    ),
    Create(
        "too many requests",
        "ResourceClaim",
        requests(*({"name": f"r{i}", "exactly": {"deviceClassName": "c"}} for i in range(33))),
        ["spec.devices.requests: Too many: 33: must have at most 32 items"],
    ),
    Create(
        "no class",
        "ResourceClaim",
        requests({"name": "gpu", "exactly": {}}),
        [f"{EXACTLY}.deviceClassName: Required value"],
    ),
    Create(
        "all of them, counted",
        "ResourceClaim",
        exactly(allocationMode="All", count=2),
        [f"{EXACTLY}.count: Invalid value: 2: must not be specified when allocationMode is 'All'"],
    ),
    Create(
        "less than none",
        "ResourceClaim",
        exactly(count=-1),
        [f"{EXACTLY}.count: Invalid value: -1: must be greater than zero"],
    ),
    Create(
        "an unknown mode",
        "ResourceClaim",
        exactly(allocationMode="Some"),
        [f'{EXACTLY}.allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"'],
    ),
    Create(
        "a selector without a language",
        "ResourceClaim",
        exactly(selectors=[{}]),
        [f"{EXACTLY}.selectors[0].cel: Required value"],
    ),
    Create(
        "a selector that is too long",
        "ResourceClaim",
        exactly(selectors=[{"cel": {"expression": " " * 10241}}]),
        [f"{EXACTLY}.selectors[0].cel.expression: Too long: may not be more than 10240 bytes"],
    ),
    Create(
        "a selector that is a number",
        "ResourceClaim",
        exactly(selectors=[{"cel": {"expression": "1"}}]),
        [
            (
                f'{EXACTLY}.selectors[0].cel.expression: Invalid value: "1": must evaluate to bool or the unknown '
                "type, not int"
            )
        ],
    ),
    Create(
        "a selector with a name for a domain",
        "ResourceClaim",
        exactly(
            selectors=[
                {"cel": {"expression": "cel.bind(gpu, device.attributes['gpu.example.com'], gpu.big && gpu.fast)"}}
            ]
        ),
    ),
    Create(
        "a constraint on nothing",
        "ResourceClaim",
        requests(
            {"name": "gpu", "exactly": {"deviceClassName": "c"}},
            constraints=[{"requests": ["other"], "matchAttribute": "numa"}],
        ),
        [
            f'spec.devices.constraints[0].requests[0]: Invalid value: "other": {NOT_A_REQUEST}',
            (
                'spec.devices.constraints[0].matchAttribute: Invalid value: "numa": a fully qualified name must '
                "be a domain and "
                "a name separated by a slash"
            ),
        ],
    ),
    Create(
        "a constraint on one of the ways",
        "ResourceClaim",
        requests(
            {"name": "gpu", "firstAvailable": [sub("a")]},
            constraints=[{"requests": ["gpu/a"], "matchAttribute": "example.com/numa"}],
        ),
    ),
    Create(
        "configuration for nobody",
        "ResourceClaim",
        requests({"name": "gpu", "exactly": {"deviceClassName": "c"}}, config=[{"requests": ["gpu"]}]),
        ["spec.devices.config[0].opaque: Required value"],
    ),
    Create(
        "the same in a template",
        "ResourceClaimTemplate",
        {
            "spec": {
                "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "c", "count": -1}}]}}
            }
        },
        ["spec.spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero"],
    ),
]


@pytest.mark.parametrize("case", CLAIMS, ids=lambda case: case.id)
def test_a_claim_is_validated(case: Create) -> None:
    assert case.validate() == case.problems


TOLERATIONS = [
    Create("Gt with a number", "ResourceClaim", tolerating(key="a", operator="Gt", value="24")),
    Create("Lt with a number", "ResourceClaim", tolerating(key="a", operator="Lt", value="-5")),
    Create(
        "Gt with text",
        "ResourceClaim",
        tolerating(key="a", operator="Gt", value="x"),
        [
            f'{EXACTLY}.tolerations[0].value: Invalid value: "x": must be a valid decimal integer in canonical form',
            f'{EXACTLY}.tolerations[0].value: Invalid value: "x": strconv.ParseInt: parsing "x": invalid syntax',
        ],
    ),
    Create(
        "Gt with a leading zero",
        "ResourceClaim",
        tolerating(key="a", operator="Gt", value="024"),
        [f'{EXACTLY}.tolerations[0].value: Invalid value: "024": must be a valid decimal integer in canonical form'],
    ),
    Create(
        "Exists with a value",
        "ResourceClaim",
        tolerating(key="a", operator="Exists", value="x"),
        [f'{EXACTLY}.tolerations[0].value: Invalid value: "x": must be empty for operator `Exists`'],
    ),
    Create(
        "a version",
        "ResourceClaim",
        tolerating(key="a", operator="SemverGt", value="1.2"),
        [
            (
                f'{EXACTLY}.tolerations[0].operator: Unsupported value: "SemverGt": supported values: "Equal", '
                '"Exists", "Lt", '
                '"Gt"'
            )
        ],
    ),
    Create(
        "an effect of nodes",
        "ResourceClaim",
        tolerating(key="a", operator="Exists", effect="PreferNoSchedule"),
        [
            (
                f'{EXACTLY}.tolerations[0].effect: Unsupported value: "PreferNoSchedule": supported values: '
                '"NoExecute", '
                '"NoSchedule", "None"'
            )
        ],
    ),
    Create(
        "seventeen of them",
        "ResourceClaim",
        exactly(tolerations=[{"operator": "Exists"}] * 17),
        [f"{EXACTLY}.tolerations: Too many: 17: must have at most 16 items"],
    ),
]


@pytest.mark.req("5471.8")
@pytest.mark.parametrize("case", TOLERATIONS, ids=lambda case: case.id)
def test_tolerations_of_devices(case: Create) -> None:
    assert case.validate() == case.problems


@pytest.mark.req("5471.8")
def test_numbers_need_their_gate_here_too() -> None:
    change = tolerating(key="a", operator="Gt", value="24")
    assert create_problems(example("ResourceClaim", change), only("comparison_operators")) == []
    assert create_problems(example("ResourceClaim", change), without("comparison_operators")) == [
        f'{EXACTLY}.tolerations[0].operator: Unsupported value: "Gt": supported values: "Equal", "Exists"'
    ]


NUMERIC: Tree = {"key": "a", "operator": "Gt", "value": "24"}
UNSUPPORTED = 'operator: Unsupported value: "Gt": supported values: "Equal", "Exists"'


def allocated(*tolerations: Tree, request: str = "gpu") -> Tree:
    result = {**RESULT, "request": request, "tolerations": list(tolerations)}
    return {"status": {"allocation": {"devices": {"results": [result]}}}}


GATE_OFF = [
    Update("labels", "ResourceClaim", tolerating(**NUMERIC), {"metadata": {"labels": {"a": "b"}}}),
    Update(
        "allocated with its own toleration",
        "ResourceClaim",
        tolerating(**NUMERIC),
        allocated(NUMERIC),
        subresource="status",
    ),
    Update(
        "allocated in one of several ways with that one's toleration",
        "ResourceClaim",
        requests({"name": "gpu", "firstAvailable": [sub("a"), sub("b", tolerations=[NUMERIC])]}),
        {
            "status": {
                "allocation": {"devices": {"results": [{**RESULT, "request": "gpu/b", "tolerations": [NUMERIC]}]}}
            }
        },
        subresource="status",
    ),
    Update(
        "allocated with a number that the claim does not have",
        "ResourceClaim",
        tolerating(**NUMERIC),
        allocated(NUMERIC, {**NUMERIC, "value": "25"}),
        [f"status.allocation.devices.results[0].tolerations[1].{UNSUPPORTED}"],
        subresource="status",
    ),
    Update(
        "allocated with a number where the claim has none",
        "ResourceClaim",
        tolerating(key="a", operator="Exists"),
        allocated(NUMERIC),
        [f"status.allocation.devices.results[0].tolerations[0].{UNSUPPORTED}"],
        subresource="status",
    ),
]


@pytest.mark.req("5471.8")
@pytest.mark.req("5471.3b")
@pytest.mark.parametrize("case", GATE_OFF, ids=lambda case: case.id)
def test_a_stored_claim_is_updated_and_allocated_with_the_gate_off(case: Update) -> None:
    assert case.validate(without("comparison_operators")) == case.problems


def test_a_claim_has_no_expressions_for_tolerations() -> None:
    assert "expression" not in DeviceToleration.__struct_fields__


def test_what_a_request_gets() -> None:
    made = stored("ResourceClaim", tolerating(key="a", value="b")).spec.devices.requests[0].exactly
    assert (made.allocation_mode, made.count, made.tolerations[0].operator) == ("ExactCount", 1, "Equal")


def test_an_older_version_is_validated_by_the_same_rules() -> None:
    tree = {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaim",
        "metadata": {"name": "x"},
        "spec": {"devices": {"requests": [{"name": "gpu", "deviceClassName": "c", "count": -1}]}},
    }
    assert create_problems(decoded(tree)) == [f"{EXACTLY}.count: Invalid value: -1: must be greater than zero"]


ALLOCATED: Tree = {"allocation": {"devices": {"results": [RESULT]}}}
POD: Tree = {"resource": "pods", "name": "p", "uid": "u"}
CLAIM_UPDATES = [
    Update("another request", "ResourceClaim", {}, exactly(count=2), ["spec: Invalid value: …: field is immutable"]),
    Update("allocated", "ResourceClaim", {}, {"status": ALLOCATED}, subresource="status"),
    Update(
        "allocated for another request",
        "ResourceClaim",
        {},
        {"status": {"allocation": {"devices": {"results": [{**RESULT, "request": "other"}]}}}},
        [f'status.allocation.devices.results[0].request: Invalid value: "other": {NOT_A_REQUEST}'],
        subresource="status",
    ),
    Update(
        "allocated anew",
        "ResourceClaim",
        {},
        {"status": {"allocation": {"devices": {"results": [{**RESULT, "device": "d1"}]}}}},
        ["status.allocation: Invalid value: …: field is immutable"],
        status=ALLOCATED,
        subresource="status",
    ),
    Update(
        "given back", "ResourceClaim", {}, {"status": {"allocation": ABSENT}}, status=ALLOCATED, subresource="status"
    ),
    Update("reserved", "ResourceClaim", {}, {"status": {"reservedFor": [POD]}}, status=ALLOCATED, subresource="status"),
    Update(
        "reserved twice by one",
        "ResourceClaim",
        {},
        {"status": {"reservedFor": [POD, POD]}},
        ['status.reservedFor[1]: Duplicate value: "u"'],
        status=ALLOCATED,
        subresource="status",
    ),
    Update(
        "reserved too early",
        "ResourceClaim",
        {},
        {"status": {"reservedFor": [POD]}},
        ["status.reservedFor: Forbidden: may not be specified when `allocated` is not set"],
        subresource="status",
    ),
    Update(
        "reported by a driver that has nothing",
        "ResourceClaim",
        {},
        {"status": {"devices": [{"driver": "gpu.example.com", "pool": "p", "device": "d9"}]}},
        ['status.devices[0]: Invalid value: "gpu.example.com/p/d9": must be an allocated device in the claim'],
        status=ALLOCATED,
        subresource="status",
    ),
    Update(
        "another template",
        "ResourceClaimTemplate",
        {},
        {"spec": {"spec": {"devices": {"requests": []}}}},
        ["spec: Invalid value: …: field is immutable"],
    ),
]


@pytest.mark.parametrize("case", CLAIM_UPDATES, ids=lambda case: case.id)
def test_an_update_of_a_claim_is_validated(case: Update) -> None:
    assert shortened(case.validate(), case.problems) == case.problems


# -- slices


def device(**fields: Any) -> Tree:
    return {"spec": {"devices": [{"name": "d0", **fields}]}}


SLICES = [
    Create("a capacity", "ResourceSlice", device(capacity={"memory": {"value": "40Gi"}})),
    Create(
        "no pool",
        "ResourceSlice",
        {"spec": {"pool": {"name": "", "resourceSliceCount": 0, "generation": -1}}},
        [
            "spec.pool.name: Required value",
            "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
            "spec.pool.generation: Invalid value: -1: must be greater than or equal to zero",
        ],
    ),
    Create(
        "on no node",
        "ResourceSlice",
        {"spec": {"nodeName": ABSENT}},
        [
            (
                "spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, "
                "`perDeviceNodeSelection` is required"
            )
        ],
    ),
    Create(
        "on one and on all",
        "ResourceSlice",
        {"spec": {"allNodes": True}},
        [
            (
                'spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, '
                "`allNodes`, "
                "`perDeviceNodeSelection` is required, but multiple fields are set"
            )
        ],
    ),
    Create(
        "not on all",
        "ResourceSlice",
        {"spec": {"allNodes": False}},
        ["spec.allNodes: Invalid value: false: must be either unset or set to true"],
    ),
    Create(
        "a device on its own node",
        "ResourceSlice",
        {"spec": {"nodeName": ABSENT, "perDeviceNodeSelection": True, "devices": [{"name": "d0", "nodeName": "n"}]}},
    ),
    Create(
        "a device on its own node without leave",
        "ResourceSlice",
        device(nodeName="n"),
        [
            (
                "spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if "
                "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
            )
        ],
    ),
    Create(
        "an attribute of two sorts",
        "ResourceSlice",
        device(attributes={"a": {"string": "x", "int": 1}}),
        [
            (
                "spec.devices[0].attributes[a]: Invalid value: "
                '{"Int":1,"Bool":null,"String":"x","Version":null,"Ints":null,'
                '"Bools":null,"Strings":null,"Versions":null}: exactly one value must be specified'
            )
        ],
    ),
    Create(
        "an attribute of no sort",
        "ResourceSlice",
        device(attributes={"a": {}}),
        ['spec.devices[0].attributes[a]: Invalid value: "": exactly one value must be specified'],
    ),
    Create(
        "a version that is none",
        "ResourceSlice",
        device(attributes={"a": {"version": "1.2"}}),
        [
            (
                'spec.devices[0].attributes[a].version: Invalid value: "1.2": must be a string compatible with '
                "semver.org spec "
                "2.0.0"
            )
        ],
    ),
    Create(
        "a name with two slashes",
        "ResourceSlice",
        device(attributes={"a/b/c": {"int": 1}}),
        ['spec.devices[0].attributes: Invalid value: "a/b/c": must not contain more than one slash'],
    ),
    Create(
        "too many devices with taints",
        "ResourceSlice",
        {"spec": {"devices": [{"name": f"d{i}", "taints": [{"key": "a", "effect": "None"}]} for i in range(65)]}},
        ["spec.devices: Too many: 65: must have at most 64 items"],
    ),
    Create(
        "the same device twice",
        "ResourceSlice",
        {"spec": {"devices": [{"name": "d"}, {"name": "d"}]}},
        ['spec.devices[1]: Duplicate value: "d"'],
    ),
    Create(
        "counters and devices",
        "ResourceSlice",
        {"spec": {"sharedCounters": [{"name": "c", "counters": {"memory": {"value": "1"}}}]}},
        ['spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed'],
    ),
    Create(
        "counters alone",
        "ResourceSlice",
        {"spec": {"devices": ABSENT, "sharedCounters": [{"name": "c", "counters": {"memory": {"value": "1"}}}]}},
    ),
    Create(
        "a set of no counters",
        "ResourceSlice",
        {"spec": {"devices": ABSENT, "sharedCounters": [{"name": "c"}]}},
        ["spec.sharedCounters[0].counters: Required value"],
    ),
    Create(
        "a policy for one at a time",
        "ResourceSlice",
        device(capacity={"m": {"value": "4", "requestPolicy": {"default": "1", "validValues": ["1"]}}}),
        ["spec.devices[0].capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true"],
    ),
    Create(
        "a policy with steps",
        "ResourceSlice",
        device(
            allowMultipleAllocations=True,
            capacity={
                "m": {
                    "value": "8",
                    "requestPolicy": {"default": "3", "validRange": {"min": "1", "max": "8", "step": "2"}},
                }
            },
        ),
        [
            (
                'spec.devices[0].capacity[m].requestPolicy.validRange.step: Invalid value: "8": value is not a '
                "multiple of a "
                "given step (2) from (1)"
            )
        ],
    ),
    Create(
        "conditions of one side",
        "ResourceSlice",
        device(bindingConditions=["example.com/ready"]),
        [
            (
                "spec.devices[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions are "
                "required to use "
                "bindingConditions"
            )
        ],
    ),
]


@pytest.mark.parametrize("case", SLICES, ids=lambda case: case.id)
def test_a_slice_is_validated(case: Create) -> None:
    assert case.validate() == case.problems


def selecting(**term: Any) -> Tree:
    return {"nodeSelector": {"nodeSelectorTerms": [term]}}


VERSION: Tree = {"matchExpressions": [{"key": "k", "operator": "SemverGt", "values": ["1"]}]}
CEL: Tree = {"matchCELExpressions": ["true"]}
CEL_REFUSED = "Forbidden: CEL expressions are not supported in the node selectors of devices"
OPERATOR_REFUSED = 'Invalid value: "SemverGt": not a valid selector operator'


@pytest.mark.req("5500.10")
@pytest.mark.parametrize(
    ("term", "expected"),
    [(VERSION, f"matchExpressions[0].operator: {OPERATOR_REFUSED}"), (CEL, f"matchCELExpressions[0]: {CEL_REFUSED}")],
    ids=["versions", "CEL"],
)
def test_node_selectors_of_devices_know_neither_versions_nor_cel(term: Tree, expected: str) -> None:
    of_slice: Tree = {"spec": {"nodeName": ABSENT, **selecting(**term)}}
    assert Create("", "ResourceSlice", of_slice).validate() == [f"spec.nodeSelector.nodeSelectorTerms[0].{expected}"]
    of_device: Tree = {
        "spec": {
            "nodeName": ABSENT,
            "perDeviceNodeSelection": True,
            "devices": [{"name": "d0", **selecting(**term)}],
        }
    }
    assert Create("", "ResourceSlice", of_device).validate() == [
        f"spec.devices[0].nodeSelector.nodeSelectorTerms[0].{expected}"
    ]
    allocated = merged(ALLOCATED, {"allocation": selecting(**term)})
    assert Update("", "ResourceClaim", {}, {"status": allocated}, subresource="status").validate() == [
        f"status.allocation.nodeSelector.nodeSelectorTerms[0].{expected}"
    ]


def test_slices_keep_their_driver_and_pool() -> None:
    change: Tree = {"spec": {"driver": "other.example.com", "pool": {"name": "q"}}}
    assert Update("", "ResourceSlice", {}, change).validate() == [
        'spec.pool.name: Invalid value: "q": field is immutable',
        'spec.driver: Invalid value: "other.example.com": field is immutable',
    ]


# -- taints


@pytest.mark.req("5471.8")
@pytest.mark.parametrize(
    ("taint", "problems"),
    [
        ({"key": "a", "value": "980", "effect": "NoSchedule"}, []),
        ({"key": "a", "effect": "None"}, []),
        ({"key": "a"}, ["effect: Required value"]),
        (
            {"key": "a", "effect": "PreferNoSchedule"},
            [
                'effect: Unsupported value: "PreferNoSchedule": supported values: "NoExecute", "NoSchedule", "None"',
            ],
        ),
    ],
    ids=["a number", "an effect that does nothing", "no effect", "an effect of nodes"],
)
def test_taints_of_devices(taint: Tree, problems: list[str]) -> None:
    in_slice = Create("", "ResourceSlice", device(taints=[taint])).validate()
    assert in_slice == [f"spec.devices[0].taints[0].{problem}" for problem in problems]
    rule: Tree = {"spec": {"taint": {"effect": ABSENT, **taint}}}
    assert Create("", "DeviceTaintRule", rule).validate() == [f"spec.taint.{problem}" for problem in problems]


def test_a_taint_of_a_device_is_timed() -> None:
    made = stored("ResourceSlice", device(taints=[{"key": "a", "effect": "NoExecute"}]))
    assert made.spec.devices[0].taints[0].time_added == "2026-01-02T03:04:05Z"


def test_a_rule_starts_again_with_another_effect() -> None:
    old = stored("DeviceTaintRule")
    later = structs.replace(request(), now=NOW + timedelta(hours=1))
    same_effect = decoded(merged(codec.to_tree(old), {"spec": {"taint": {"value": "v"}}}))
    assert admit_update(same_effect, old, later).object.spec.taint.time_added == "2026-01-02T03:04:05Z"
    another = decoded(merged(codec.to_tree(old), {"spec": {"taint": {"effect": "NoSchedule"}}}))
    assert admit_update(another, old, later).object.spec.taint.time_added == "2026-01-02T04:04:05Z"


CLASSES = [
    Create(
        "a wrong selector",
        "DeviceClass",
        {"spec": {"selectors": [{"cel": {"expression": "device."}}]}},
        ['spec.selectors[0].cel.expression: Invalid value: "device.": compilation failed: …'],
    ),
    Create(
        "a resource of Kubernetes",
        "DeviceClass",
        {"spec": {"extendedResourceName": "cpu"}},
        ['spec.extendedResourceName: Invalid value: "cpu": a name must be a domain-prefixed path, …'],
    ),
    Create("a resource of one's own", "DeviceClass", {"spec": {"extendedResourceName": "example.com/gpu"}}),
]


@pytest.mark.parametrize("case", CLASSES, ids=lambda case: case.id)
def test_a_class_is_validated(case: Create) -> None:
    assert shortened(case.validate(), case.problems) == case.problems
