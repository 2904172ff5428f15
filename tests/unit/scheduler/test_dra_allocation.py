"""DynamicResources: which nodes have the devices that a pod's claims ask for, and which devices it gets."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from mooring.api.meta_v1 import Resource
from mooring.api.resource_v1 import AllocationResult, DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from mooring.constraints.options import ConstraintOptions
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.framework import SchedulerFeatures
from mooring.scheduler.framework.profiles import ProfileSpec
from mooring.scheduler.framework.registry import PluginError
from mooring.scheduler.plugins.dynamic_resources import DynamicResources
from mooring.testing.builders import made, node, pod

pytestmark = pytest.mark.req("S.3")

DRIVER = "gpu.example.com"
CANNOT = "cannot allocate all claims"


def device(name: str, model: str = "a100", **more: Any) -> dict[str, Any]:
    return {"name": name, "attributes": {"model": {"string": model}}, **more}


def devices_on(where: str | None, *devices: dict[str, Any], pool: str = "", **spec: Any) -> ResourceSlice:
    """Return a slice that is a pool of its own, on one node, or as `spec` says."""
    name = pool or where or "shared"
    body = {
        "driver": DRIVER,
        "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        "devices": list(devices),
    }
    place = {"nodeName": where} if where else {}
    return made(ResourceSlice, {"metadata": {"name": f"slice-{name}"}, "spec": {**body, **place, **spec}})


def device_class(name: str = "gpu", *expressions: str, **spec: Any) -> DeviceClass:
    chosen = expressions or (f"device.driver == '{DRIVER}'",)
    selectors = [{"cel": {"expression": text}} for text in chosen]
    return made(DeviceClass, {"metadata": {"name": name}, "spec": {"selectors": selectors, **spec}})


def exactly(name: str = "r", count: int = 1, *expressions: str, cls: str = "gpu", **more: Any) -> dict[str, Any]:
    return {"name": name, "exactly": way(count, *expressions, cls=cls, **more)}


def way(count: int = 1, *expressions: str, cls: str = "gpu", **more: Any) -> dict[str, Any]:
    selectors = [{"cel": {"expression": text}} for text in expressions]
    amount = {"allocationMode": "ExactCount", "count": count} if count else {"allocationMode": "All"}
    return {"deviceClassName": cls, "selectors": selectors, **amount, **more}


def claim(name: str, *requests: dict[str, Any], status: dict[str, Any] | None = None, **devices: Any) -> ResourceClaim:
    return made(
        ResourceClaim,
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "3"},
            "spec": {"devices": {"requests": list(requests), **devices}},
            "status": status or {},
        },
    )


def using(*claims: str, name: str = "p") -> Any:
    return pod(name, spec={"resourceClaims": [{"name": entry, "resourceClaimName": entry} for entry in claims]})


def engine_with(*things: Resource, **options: Any) -> Engine:
    engine = Engine(**options)
    for thing in (node("a", zone="z1"), node("b", zone="z2"), device_class(), *things):
        engine.put(thing)
    return engine


def plugin_of(engine: Engine) -> DynamicResources:
    plugins = engine.profiles["default-scheduler"].plugins
    return next(plugin for plugin in plugins if isinstance(plugin, DynamicResources))


def reasons(engine: Engine, wanted: Any) -> dict[str, str]:
    return {name: ", ".join(entry.status.reasons) for name, entry in engine.explain(wanted).items()}


def reserve(engine: Engine, *claims: str, on: str, name: str = "p") -> dict[str, AllocationResult]:
    """Return what the claims get when a pod that uses them goes to a node, which is assumed."""
    wanted = using(*claims, name=name)
    outcome = engine.schedule(wanted)
    assert outcome.node is not None, outcome.message
    status = plugin_of(engine).reserve(outcome.cycle, wanted, on)
    assert status.is_success, status
    by_uid = outcome.cycle.pre_filter["DynamicResources"].allocations
    return {entry: by_uid[f"uid-{entry}"] for entry in claims}


def names(allocation: AllocationResult) -> list[str]:
    return [result.device for result in allocation.devices.results]


@dataclass(frozen=True)
class Case:
    """Which devices of node a the claims `c`, or `claims`, get there; None when it cannot be."""

    name: str
    slices: Sequence[ResourceSlice]
    claims: Sequence[ResourceClaim]
    gets: list[str] | None
    more: Sequence[Resource] = field(default=())


def partial_pool() -> ResourceSlice:
    found = devices_on("a", device("g0"))
    found.spec.pool.resource_slice_count = 2
    return found


TWO = devices_on("a", device("g0"), device("g1"))
MIXED = devices_on("a", device("g0", "t4"), device("g1"), device("g2", "t4"), device("g3"))
IS_A100 = f"device.attributes['{DRIVER}'].model == 'a100'"
IS_T4 = f"device.attributes['{DRIVER}'].model == 't4'"
SAME_MODEL: dict[str, Any] = {"constraints": [{"matchAttribute": f"{DRIVER}/model"}]}
OTHER_MODEL: dict[str, Any] = {"constraints": [{"distinctAttribute": f"{DRIVER}/model"}]}
BIG: dict[str, Any] = {"capacity": {"memory": {"value": "80Gi"}}}
SMALL: dict[str, Any] = {"capacity": {"memory": {"value": "40Gi"}}}

CASES = (
    Case("one device, the first", [TWO], [claim("c", exactly())], ["g0"]),
    Case("two devices", [TWO], [claim("c", exactly(count=2))], ["g0", "g1"]),
    Case("not more devices than there are", [TWO], [claim("c", exactly(count=3))], None),
    Case("devices that an expression selects", [MIXED], [claim("c", exactly("r", 1, IS_A100))], ["g1"]),
    Case(
        "devices that all expressions select",
        [devices_on("a", device("g0", **SMALL), device("g1", **BIG))],
        [claim("c", exactly("r", 1, IS_A100, f"device.capacity['{DRIVER}'].memory.isGreaterThan(quantity('50Gi'))"))],
        ["g1"],
    ),
    Case(
        "devices for two requests",
        [MIXED],
        [claim("c", exactly("x", 1, IS_T4), exactly("y", 2, IS_A100))],
        ["g0", "g1", "g3"],
    ),
    Case("each device once for two claims", [TWO], [claim("c", exactly()), claim("d", exactly())], ["g0", "g1"]),
    Case(
        "nothing when one of two claims is too much", [TWO], [claim("c", exactly(count=2)), claim("d", exactly())], None
    ),
    Case("all devices that are selected", [MIXED], [claim("c", exactly("r", 0, IS_T4))], ["g0", "g2"]),
    Case("nothing when all of none are asked for", [MIXED], [claim("c", exactly("r", 0, "false"))], None),
    Case(
        "devices with an attribute in common",
        [MIXED],
        [claim("c", exactly("x"), exactly("y"), **SAME_MODEL)],
        ["g0", "g2"],
    ),
    Case("devices that differ in an attribute", [MIXED], [claim("c", exactly(count=2), **OTHER_MODEL)], ["g0", "g1"]),
    Case("nothing when too few differ", [MIXED], [claim("c", exactly(count=3), **OTHER_MODEL)], None),
    Case("nothing when too few are alike", [MIXED], [claim("c", exactly(count=3), **SAME_MODEL)], None),
    Case(
        "a constraint on some requests only",
        [MIXED],
        [
            claim(
                "c",
                exactly("x"),
                exactly("y", 1, IS_A100),
                exactly("z", 1, IS_A100),
                constraints=[{"matchAttribute": f"{DRIVER}/model", "requests": ["y", "z"]}],
            )
        ],
        ["g0", "g1", "g3"],
    ),
    Case(
        "the first way that is possible",
        [MIXED],
        [
            claim(
                "c", {"name": "r", "firstAvailable": [{"name": "x", **way(3, IS_A100)}, {"name": "y", **way(1, IS_T4)}]}
            )
        ],
        ["g0"],
    ),
    Case(
        "devices of several pools",
        [devices_on("a", device("g0"), pool="p1"), devices_on("a", device("g0"), pool="p0")],
        [claim("c", exactly(count=2))],
        ["g0", "g0"],
    ),
    Case(
        "devices that all nodes can use",
        [devices_on(None, device("net"), allNodes=True)],
        [claim("c", exactly())],
        ["net"],
    ),
    Case(
        "devices that some nodes can use",
        [
            devices_on(
                None,
                device("net"),
                nodeSelector={
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]}
                            ]
                        }
                    ]
                },
            )
        ],
        [claim("c", exactly())],
        ["net"],
    ),
    Case(
        "devices that say themselves who can use them",
        [devices_on(None, device("x", nodeName="b"), device("y", nodeName="a"), perDeviceNodeSelection=True)],
        [claim("c", exactly())],
        ["y"],
    ),
    pytest.param(
        Case(
            "nothing from slices that choose nodes by an expression",
            [devices_on(None, device("net"), nodeSelector={"nodeSelectorTerms": [{"matchCELExpressions": ["true"]}]})],
            [claim("c", exactly())],
            None,
        ),
        marks=pytest.mark.req("5500.10"),
    ),
    Case("nothing from a pool of which a part is missing", [partial_pool()], [claim("c", exactly())], None),
    Case(
        "enough of a capacity",
        [devices_on("a", device("g0", **SMALL), device("g1", **BIG))],
        [claim("c", exactly(capacity={"requests": {"memory": "60Gi"}}))],
        ["g1"],
    ),
    Case(
        "no device that does not know a capacity",
        [TWO],
        [claim("c", exactly(capacity={"requests": {"memory": "1Gi"}}))],
        None,
    ),
    Case(
        "devices that are ready before those that must be waited for",
        [
            devices_on("a", device("later", bindingConditions=["Ready"], bindingFailureConditions=["No"]), pool="p0"),
            devices_on("a", device("now"), pool="p1"),
        ],
        [claim("c", exactly(count=2))],
        ["now", "later"],
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_pod_gets(case: Case) -> None:
    engine = engine_with(*case.slices, *case.claims, *case.more)
    wanted = [entry.metadata.name for entry in case.claims]
    found = reasons(engine, using(*wanted))
    assert found["a"] == ("" if case.gets is not None else CANNOT)
    if case.gets is not None:
        given = reserve(engine, *wanted, on="a")
        assert [device for entry in wanted for device in names(given[entry])] == case.gets


def test_nodes_without_devices_are_refused() -> None:
    engine = engine_with(TWO, claim("c", exactly()))
    assert reasons(engine, using("c")) == {"a": "", "b": CANNOT}
    assert engine.schedule(using("c")).node == "a"


# -- taints


GT_90: dict[str, Any] = {"key": "health", "operator": "Gt", "value": "90", "effect": "NoSchedule"}


def tainted(name: str, *taints: tuple[str, str, str]) -> dict[str, Any]:
    return device(name, taints=[dict(zip(("key", "value", "effect"), taint, strict=True)) for taint in taints])


def tolerating(*tolerations: dict[str, Any]) -> ResourceClaim:
    return claim("c", exactly(tolerations=list(tolerations)))


@dataclass(frozen=True)
class Tainted:
    name: str
    taint: tuple[str, str, str]
    toleration: dict[str, Any]
    allowed: bool
    options: ConstraintOptions = field(default_factory=ConstraintOptions)


HEALTH_95, HEALTH_80 = ("health", "95", "NoSchedule"), ("health", "80", "NoSchedule")
TAINTED = (
    Tainted("a taint that nothing tolerates", HEALTH_95, {"key": "other", "operator": "Exists"}, False),
    Tainted("a taint for information only", ("health", "95", "None"), {"key": "other", "operator": "Exists"}, True),
    Tainted("Exists", HEALTH_95, {"key": "health", "operator": "Exists"}, True),
    Tainted("Exists for every key", HEALTH_95, {"operator": "Exists"}, True),
    Tainted("Equal", HEALTH_95, {"key": "health", "operator": "Equal", "value": "95"}, True),
    Tainted("Equal to something else", HEALTH_95, {"key": "health", "operator": "Equal", "value": "96"}, False),
    Tainted("Gt where the taint is greater", HEALTH_95, GT_90, True),
    Tainted("Gt where the taint is less", HEALTH_80, GT_90, False),
    Tainted("Lt where the taint is less", HEALTH_80, {**GT_90, "operator": "Lt"}, True),
    Tainted("Lt where the taint is greater", HEALTH_95, {**GT_90, "operator": "Lt"}, False),
    Tainted("Gt where the taint is no number", ("health", "good", "NoSchedule"), GT_90, False),
    Tainted("Gt with another effect", ("health", "95", "NoExecute"), GT_90, False),
    Tainted("Gt with the gate off", HEALTH_95, GT_90, False, ConstraintOptions(numeric_tolerations=False)),
    Tainted("an operator that devices do not have", HEALTH_95, {**GT_90, "operator": "SemverGt"}, False),
)


@pytest.mark.req("5471.8")
@pytest.mark.parametrize("case", TAINTED, ids=lambda case: case.name)
def test_a_tainted_device_and(case: Tainted) -> None:
    features = SchedulerFeatures(constraints=case.options)
    things = (devices_on("a", tainted("g0", case.taint)), tolerating(case.toleration))
    assert reasons(engine_with(*things, features=features), using("c"))["a"] == ("" if case.allowed else CANNOT)
    rule = made(
        DeviceTaintRule,
        {
            "metadata": {"name": "rule"},
            "spec": {
                "deviceSelector": {"driver": DRIVER, "device": "g0"},
                "taint": dict(zip(("key", "value", "effect"), case.taint, strict=True)),
            },
        },
    )
    by_rule = engine_with(devices_on("a", device("g0")), rule, tolerating(case.toleration), features=features)
    assert reasons(by_rule, using("c"))["a"] == ("" if case.allowed else CANNOT)


@pytest.mark.req("5471.8")
def test_untolerated_devices_are_avoided_and_tolerations_are_kept_in_the_result() -> None:
    engine = engine_with(devices_on("a", tainted("g0", HEALTH_80), tainted("g1", HEALTH_95)), tolerating(GT_90))
    [result] = reserve(engine, "c", on="a")["c"].devices.results
    assert result.device == "g1"
    assert [(entry.operator, entry.value) for entry in result.tolerations] == [("Gt", "90")]


@pytest.mark.req("5471.8")
def test_a_taint_rule_that_comes_and_goes_is_noticed() -> None:
    spec = {"deviceSelector": {"pool": "a"}, "taint": {"key": "x", "effect": "NoExecute"}}
    rule = made(DeviceTaintRule, {"metadata": {"name": "r"}, "spec": spec})
    engine = engine_with(TWO, claim("c", exactly()))
    assert reasons(engine, using("c"))["a"] == ""
    engine.put(rule)
    assert reasons(engine, using("c"))["a"] == CANNOT
    engine.remove(rule)
    assert reasons(engine, using("c"))["a"] == ""


# -- what is in use


def allocated_to(name: str, *devices: str, pool: str = "a", **more: Any) -> ResourceClaim:
    results = [{"request": "r", "driver": DRIVER, "pool": pool, "device": entry, **more} for entry in devices]
    return claim(name, exactly(), status={"allocation": {"devices": {"results": results}}})


def test_devices_of_allocated_claims_are_in_use_until_they_are_freed() -> None:
    engine = engine_with(TWO, allocated_to("other", "g0"), claim("c", exactly()), claim("d", exactly(count=2)))
    assert names(reserve(engine, "c", on="a")["c"]) == ["g1"]
    assert reasons(engine, using("d", name="q"))["a"] == CANNOT
    engine.put(claim("other", exactly()))
    engine.remove(claim("c", exactly()))
    plugin_of(engine)._allocated.end_allocation(claim("c"))  # as if it had been taken back
    assert reasons(engine, using("d", name="q"))["a"] == ""


def test_devices_that_were_set_aside_are_free_again_when_the_pod_is_not_bound() -> None:
    engine = engine_with(devices_on("a", device("g0")), claim("c", exactly()), claim("d", exactly()))
    outcome = engine.schedule(using("c"))
    plugin = plugin_of(engine)
    assert plugin.reserve(outcome.cycle, outcome.pod, "a").is_success
    assert reasons(engine, using("d", name="q"))["a"] == CANNOT
    assert reasons(engine, using("c", name="q"))["a"] == "resource claim default/c is in the process of being allocated"
    plugin.unreserve(outcome.cycle, outcome.pod, "a")
    assert reasons(engine, using("d", name="q"))["a"] == ""


def test_administrators_get_devices_that_are_in_use_and_use_none() -> None:
    engine = engine_with(
        devices_on("a", device("g0")),
        allocated_to("other", "g0"),
        claim("admin", exactly(adminAccess=True)),
        claim("c", exactly()),
    )
    [result] = reserve(engine, "admin", on="a")["admin"].devices.results
    assert (result.device, result.admin_access) == ("g0", True)
    engine.put(claim("other", exactly()))
    assert reasons(engine, using("c", name="q"))["a"] == ""


def partition(name: str, memory: str) -> dict[str, Any]:
    return device(name, consumesCounters=[{"counterSet": "gpu0", "counters": {"memory": {"value": memory}}}])


def partitions(*devices: dict[str, Any]) -> list[ResourceSlice]:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 2}
    body = {"driver": DRIVER, "pool": pool, "nodeName": "a"}
    counters = [{"name": "gpu0", "counters": {"memory": {"value": "80Gi"}}}]
    return [
        made(ResourceSlice, {"metadata": {"name": "s1"}, "spec": {**body, "sharedCounters": counters}}),
        made(ResourceSlice, {"metadata": {"name": "s2"}, "spec": {**body, "devices": list(devices)}}),
    ]


def test_partitions_draw_from_the_counters_that_they_share() -> None:
    slices = partitions(partition("whole", "80Gi"), partition("half-0", "40Gi"), partition("half-1", "40Gi"))
    engine = engine_with(*slices, claim("one", exactly()), claim("two", exactly(count=2)))
    assert names(reserve(engine, "two", on="a")["two"]) == ["half-0", "half-1"]
    assert reasons(engine, using("one", name="q"))["a"] == CANNOT
    busy = engine_with(*slices, allocated_to("other", "half-1", pool="p"), claim("one", exactly()))
    assert names(reserve(busy, "one", on="a")["one"]) == ["half-0"]


def test_several_claims_share_a_device_that_allows_it_until_its_capacity_is_used() -> None:
    policy = {"default": "10Gi", "validRange": {"min": "10Gi", "step": "10Gi"}}
    nic = device(
        "nic", allowMultipleAllocations=True, capacity={"bandwidth": {"value": "40Gi", "requestPolicy": policy}}
    )
    wanted = [claim(name, exactly(capacity={"requests": {"bandwidth": "15Gi"}})) for name in ("x", "y", "z")]
    engine = engine_with(devices_on("a", nic), *wanted)
    first = reserve(engine, "x", on="a")["x"].devices.results[0]
    second = reserve(engine, "y", on="a", name="q")["y"].devices.results[0]
    assert {str(first.consumed_capacity["bandwidth"]), str(second.consumed_capacity["bandwidth"])} == {"20Gi"}
    assert first.share_id
    assert second.share_id not in (None, first.share_id)
    assert reasons(engine, using("z", name="o"))["a"] == CANNOT


# -- the result


def test_the_result_has_configuration_and_nodes() -> None:
    opaque = {"opaque": {"driver": DRIVER, "parameters": {"mode": "fast"}}}
    wanted = claim("c", exactly("x"), exactly("y"), config=[{"requests": ["x"], **opaque}, {"requests": [], **opaque}])
    engine = engine_with(TWO, device_class(config=[opaque]), wanted)
    allocation = reserve(engine, "c", on="a")["c"]
    assert [(entry.source, entry.requests) for entry in allocation.devices.config] == [
        ("FromClass", []),
        ("FromClaim", ["x"]),
        ("FromClaim", []),
    ]
    assert allocation.node_selector is not None
    [term] = allocation.node_selector.node_selector_terms
    assert [(entry.key, entry.values) for entry in term.match_fields] == [("metadata.name", ["a"])]


def test_devices_for_all_nodes_leave_the_claim_free_to_go_anywhere() -> None:
    engine = engine_with(devices_on(None, device("net"), allNodes=True), claim("c", exactly()))
    assert reserve(engine, "c", on="b")["c"].node_selector is None


def test_an_allocated_claim_keeps_the_pod_where_its_devices_are() -> None:
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}]
    allocation = {"devices": {"results": []}, "nodeSelector": {"nodeSelectorTerms": terms}}
    taken = claim("c", exactly(), status={"allocation": allocation})
    assert reasons(engine_with(TWO, taken), using("c")) == {"a": "resourceclaim not available on the node", "b": ""}


def test_the_first_of_several_ways_is_worth_more_points() -> None:
    two_ways = {"name": "r", "firstAvailable": [{"name": "big", **way(2)}, {"name": "small", **way(1)}]}
    engine = engine_with(TWO, devices_on("b", device("g0")), claim("c", two_ways))
    scores = {name: entry.scores["DynamicResources"] for name, entry in engine.explain(using("c")).items()}
    assert scores == {"a": 200, "b": 174}  # 8 and 7, normalised to 100 and 87, with a weight of 2
    assert [result.request for result in reserve(engine, "c", on="a")["c"].devices.results] == ["r/big", "r/big"]


@pytest.mark.parametrize("arguments", [{"bindingTimeout": "soon"}, {"filterTimeout": "x"}, {"nope": 1}])
def test_wrong_arguments_are_reported(arguments: dict[str, Any]) -> None:
    with pytest.raises(PluginError, match="arguments of the scheduler plugin DynamicResources"):
        Engine((ProfileSpec(arguments={"DynamicResources": arguments}),))


# -- what is wrong with a pod or its claims


def with_template(**status: Any) -> Any:
    spec = {"resourceClaims": [{"name": "t", "resourceClaimTemplateName": "tmpl"}]}
    return pod("p", spec=spec, status=status)


MADE: dict[str, Any] = {"resourceClaimStatuses": [{"name": "t", "resourceClaimName": "made"}]}
IN_USE = [{"resource": "pods", "name": f"p{number}", "uid": f"u{number}"} for number in range(256)]


@dataclass(frozen=True)
class Refused:
    name: str
    things: tuple[Resource, ...]
    pod: Any
    reason: str


REFUSED = (
    Refused("a claim that does not exist", (), using("c"), 'resourceclaim.resource.k8s.io "c" not found'),
    Refused("a claim that is to be made", (), with_template(), 'pod "default/p": ResourceClaim not created yet'),
    Refused(
        "a claim that was made for somebody else",
        (claim("made", exactly()),),
        with_template(**MADE),
        "ResourceClaim default/made was not created for Pod default/p (Pod is not owner)",
    ),
    Refused(
        "a class that does not exist",
        (claim("c", exactly(cls="nope")),),
        using("c"),
        "request r: device class nope does not exist",
    ),
    Refused(
        "a class of an alternative that does not exist",
        (claim("c", {"name": "r", "firstAvailable": [{"name": "s", **way(1, cls="nope")}]}),),
        using("c"),
        "request r/s: device class nope does not exist",
    ),
    Refused(
        "a claim that too many use",
        (claim("c", exactly(), status={"allocation": {"devices": {}}, "reservedFor": IN_USE}),),
        using("c"),
        "resourceclaim in use",
    ),
)


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_all_nodes_are_refused_for(case: Refused) -> None:
    engine = engine_with(TWO, *case.things)
    assert set(reasons(engine, case.pod).values()) == {case.reason}


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("device.nope", "claim default/c: selector #0 on device gpu.example.com/a/g0: CEL compile error"),
        (
            "device.attributes['x'].y == 1",
            "claim default/c: selector #0 on device gpu.example.com/a/g0: CEL runtime error",
        ),
    ],
)
def test_expressions_that_fail_end_the_attempt(expression: str, message: str) -> None:
    outcome = engine_with(TWO, claim("c", exactly("r", 1, expression))).schedule(using("c"))
    assert outcome.error is not None
    assert outcome.message.startswith(message)


def test_all_devices_of_a_pool_that_is_being_updated_cannot_be_had() -> None:
    pool = {"name": "a", "generation": 2, "resourceSliceCount": 2}
    body = {"driver": DRIVER, "pool": pool, "nodeName": "a", "devices": [device("g0")]}
    newer = made(ResourceSlice, {"metadata": {"name": "newer"}, "spec": body})
    outcome = engine_with(TWO, newer, claim("c", exactly(count=0))).schedule(using("c"))
    what = "asks for all devices, but resource pool gpu.example.com/a is currently being updated"
    assert outcome.message == f"claim default/c, request r: {what}"


def test_a_pool_with_a_name_twice_is_reported() -> None:
    engine = engine_with(devices_on("a", device("g0"), device("g0")), claim("c", exactly()))
    assert reasons(engine, using("c"))["a"] == "invalid resource pools were encountered"


def test_a_hopeless_search_ends() -> None:
    # Every device differs, so nothing can be left out, and no two fit together.
    many = [device(f"g{number}", model=f"m{number}") for number in range(64)]
    wanted = claim("c", *(exactly(f"r{number}") for number in range(8)), **SAME_MODEL)
    found = reasons(engine_with(devices_on("a", *many), wanted), using("c"))
    assert found["a"] in (CANNOT, "timed out trying to allocate devices")
