"""Pods that all differ: decisions as by a naive scheduler, declared inputs, the cost of one more pod, and memory."""

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counted_work import count
from mooring.api.core_v1 import Node, NodeSpec, Pod, Service
from mooring.api.meta_v1 import Resource
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.framework import Declaration, Factory, Input, Part
from mooring.scheduler.plugins import IN_TREE
from mooring.testing.builders import HOSTNAME, ZONE, made, node, pod
from naive_scheduler import Random, Twins, check

APPS = 200
Json = dict[str, Any]


class VariedRandom(Random):
    """Makes pods of hundreds of apps, whose selectors overlap and often require no value of a label."""

    def pod(self, node_name: str = "") -> Pod:
        found, pick = super().pod(node_name), self.lot.choice
        app = self.lot.randrange(APPS)
        labels = {"app": f"app-{app}", "part-of": f"suite-{app % 7}", "rev": str(app % 3)}
        kept = {key: value for key, value in labels.items() if self.lot.random() < 0.9}
        metadata = msgspec.structs.replace(
            found.metadata, labels=kept, namespace=pick(["default", "prod", "dev", "qa"])
        )
        return msgspec.structs.replace(found, metadata=metadata)

    def container(self) -> Json:
        requests = {"cpu": f"{self.lot.randint(1, 400)}m", "memory": f"{self.lot.randint(1, 900)}Mi"}
        return {**super().container(), "image": f"app-{self.lot.randrange(APPS)}", "resources": {"requests": requests}}

    def selector(self) -> Json:
        pick, app = self.lot.choice, self.lot.randrange(APPS)
        return pick(
            [
                {"matchLabels": {"app": f"app-{app}"}},
                {"matchLabels": {"part-of": f"suite-{app % 7}"}},
                {"matchLabels": {"part-of": f"suite-{app % 7}", "rev": str(app % 3)}},
                {"matchExpressions": [_where("app", "In", *(f"app-{app + more}" for more in range(20)))]},
                {"matchExpressions": [_where("part-of", "In", "suite-1", "suite-2"), _where("rev", "NotIn", "1")]},
                {"matchExpressions": [_where("app", "Exists"), _where("rev", "DoesNotExist")]},
                {"matchExpressions": [_where("part-of", "NotIn", "suite-3")]},
            ]
        )


def _where(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator, "values": list(values)}


class VariedTwins(Twins):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.random = VariedRandom(seed)


@pytest.mark.req("S.3", "V.1")
@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32))
def test_pods_of_hundreds_of_templates_are_placed_as_by_a_naive_scheduler(seed: int) -> None:
    twins = VariedTwins(seed)
    for _ in range(40):
        twins.change()
    for number in range(60):
        wanted = twins.random.pod()
        if number % 3 == 0:
            check(twins, wanted)
        twins.place(wanted, twins.engine.schedule(wanted).node)
        if twins.random.lot.random() < 0.3:
            twins.change()


# -- every declared input is needed

SEEDS = (12, 19, 15, 0, 89, 39, 26, 8, 9, *range(100))
"""The first ones need the fewest attempts for all inputs; some are found by one seed in fifty."""
DECLARED = [
    (name, point, field, single)
    for name, plugin in IN_TREE.items()
    for point in ("filters", "scores")
    if isinstance(declared := getattr(plugin, point, None), Declaration) and Part.POD not in declared.pod
    for field in ("pod", "rows", "cluster")
    for single in getattr(declared, field)
    if (name, point, single) != ("PodTopologySpread", "scores", Input.NODE_TAINTS)  # has a test of its own
]


@pytest.mark.req("V.3")
@pytest.mark.parametrize(("name", "point", "field", "single"), DECLARED)
def test_without_a_declared_input_decisions_are_wrong(name: str, point: str, field: str, single: Part | Input) -> None:
    plugin: Any = IN_TREE[name]
    declared = getattr(plugin, point)
    less = msgspec.structs.replace(declared, **{field: getattr(declared, field) & ~single})
    registry: dict[str, Factory] = {**IN_TREE, name: type(name, (plugin,), {point: less})}
    assert any(_differs(seed, registry) for seed in SEEDS)


@pytest.mark.req("V.3")
def test_without_taints_the_scores_of_spread_constraints_are_wrong() -> None:
    """Taints of nodes that are not cordoned change the feasible nodes as well, on which scores depend."""
    plugin: Any = IN_TREE["PodTopologySpread"]
    less = msgspec.structs.replace(plugin.scores, cluster=plugin.scores.cluster & ~Input.NODE_TAINTS)
    registry: dict[str, Factory] = {**IN_TREE, "PodTopologySpread": type("Less", (plugin,), {"scores": less})}
    both = Both(registry)
    for name, zone in (("a", "x"), ("b", "y")):
        both.put(node(name, zone=zone))
    both.put(node("c", zone="x", unschedulable=True))
    both.put(node("d", unschedulable=True, taints=["sla=1:NoSchedule"]))
    both.put(pod("web-1", on="c", labels={"app": "web"}))
    rule = {**_spread("web"), "whenUnsatisfiable": "ScheduleAnyway", "nodeTaintsPolicy": "Honor"}
    wanted = pod("web-2", labels={"app": "web"}, spec={"topologySpreadConstraints": [rule]})
    assert both.engines[0].explain(wanted) == both.engines[1].explain(wanted)
    both.put(node("c", zone="x", unschedulable=True, taints=["sla=1:NoSchedule"]))
    assert both.engines[0].explain(wanted) != both.engines[1].explain(wanted)


class Both:
    """An engine with a plugin that declares less, and one as it is."""

    def __init__(self, registry: dict[str, Factory]) -> None:
        self.engines = Engine(registry=registry), Engine()

    def put(self, thing: Resource) -> None:
        for engine in self.engines:
            engine.put(thing)

    def remove(self, thing: Resource) -> None:
        for engine in self.engines:
            engine.remove(thing)

    def assume(self, pod: Pod, node_name: str) -> None:
        for engine in self.engines:
            engine.assume(pod, node_name)


class SmallChanges(Twins):
    """Changes one input of the cluster at a time."""

    def __init__(self, seed: int, both: Both) -> None:
        super().__init__(seed)
        self.engine: Any = both
        for number in range(5):
            self.put(msgspec.structs.replace(self.random.node(f"node-{number}"), spec=NodeSpec()))
            both.put(pod(f"web-{number}", on=f"node-{number // 2}", labels={"app": "web"}))

    def put(self, changed: Node) -> None:
        self.naive.nodes[changed.metadata.name] = changed
        self.engine.put(changed)

    def change(self) -> None:
        replace, pick = msgspec.structs.replace, self.random.lot.choice
        node, other = pick(list(self.naive.nodes.values())), self.random.node("other")
        changes: dict[str, Callable[[], None]] = {
            "labels": lambda: self.put(replace(node, metadata=replace(node.metadata, labels=other.metadata.labels))),
            "taints": lambda: self.put(replace(node, spec=replace(node.spec, taints=other.spec.taints))),
            "cordon": lambda: self.put(replace(node, spec=replace(node.spec, unschedulable=pick([True, False])))),
            "room": lambda: self.put(replace(node, status=replace(node.status, allocatable=other.status.allocatable))),
            "images": lambda: self.put(replace(node, status=replace(node.status, images=other.status.images))),
            "one more": lambda: self.put(self.random.node(f"node-{pick(range(5, 8))}")),
        }
        pods = [self.put_pod, self.put_pod, self.remove_pod, self.move_pod, self.put_namespace, self.put_service]
        pick([*changes.values(), *pods])()


def _sensitive() -> Iterator[Pod]:
    """Make pods with one rule each, so that no other rule hides what changes."""
    hard, gold = {**_spread("web"), "nodeTaintsPolicy": "Honor"}, {"nodeSelector": {"tier": "gold"}}
    term = {**_term("web", ZONE), "namespaceSelector": {"matchLabels": {"env": "prod"}}}
    weighted = [{"weight": 5, "podAffinityTerm": term}]
    soft = {"whenUnsatisfiable": "ScheduleAnyway", "nodeAffinityPolicy": "Ignore"}  # infeasible nodes count as well
    specs: dict[str, Json] = {
        "plain": {},
        "spread": {"topologySpreadConstraints": [hard]},
        "spread-over-gold": {"topologySpreadConstraints": [_spread("web")], **gold},
        "spread-softly": {"topologySpreadConstraints": [{**hard, **soft}], **gold},
        "rather-near": {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": weighted}}},
        "near": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}},
    }
    for name, spec in specs.items():
        key = {"key": "sla"} if name.startswith("spread") else {}
        tolerations = [] if name in ("plain", "spread-softly") else [{**key, "operator": "Exists"}]
        yield pod(name, cpu="1", labels={"app": "web"}, spec={"tolerations": tolerations, **spec})


def _differs(seed: int, registry: dict[str, Factory]) -> bool:
    """Whether the two engines disagree on some pods after one of many small changes."""
    both = Both(registry)
    twins = SmallChanges(seed, both)
    wanted = [*(twins.random.pod() for _ in range(4)), *_sensitive()]
    less, whole = both.engines
    try:
        for _ in range(30):
            if any(less.explain(each) != whole.explain(each) for each in wanted):
                return True
            twins.change()
    except AttributeError:
        return True  # the plugin reads a part that it does not declare
    return False


# -- the cost of one more pod

WORK: dict[str, Callable[[str], Json]] = {
    "anti-affinity": lambda app: {"affinity": {"podAntiAffinity": _required(app, HOSTNAME)}},
    "affinity to each other": lambda app: {"affinity": {"podAffinity": _required(app, ZONE)}},
    "preferred affinity": lambda app: {"affinity": {"podAffinity": _preferred(app)}},
    "spread": lambda app: {"topologySpreadConstraints": [_spread(app)]},
    "nothing but labels": lambda _: {},
}


def _required(app: str, key: str) -> Json:
    return {"requiredDuringSchedulingIgnoredDuringExecution": [_term(app, key)]}


def _preferred(app: str) -> Json:
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "podAffinityTerm": _term(app, ZONE)}]}


def _term(app: str, key: str) -> Json:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def _spread(app: str) -> Json:
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    return {**rule, "labelSelector": {"matchLabels": {"app": app}}}


def _apps(first: int, number: int, spec: Callable[[str], Json]) -> Iterator[Pod]:
    for app in range(first, first + number):
        name = f"app-{app}"
        yield pod(name, cpu=f"{app % 50 + 1}m", labels={"app": name, "part-of": "shop"}, spec=spec(name))


@pytest.mark.req("V.1", "V.2")
@pytest.mark.parametrize("rule", WORK)
def test_one_more_pod_is_not_more_work_among_1000_apps_than_among_100(rule: str) -> None:
    engine = Engine()
    for number in range(40):
        engine.put(node(f"n{number}", zone=f"z{number % 3}", cpu="1000", pods="1000"))

    def place(pods: Iterator[Pod]) -> None:
        for each in pods:
            name = each.metadata.labels["app"]
            selector = {"metadata": {"name": name, "namespace": "default"}, "spec": {"selector": {"app": name}}}
            engine.put(made(Service, selector))
            engine.assume(each, engine.schedule(each).node or "")

    def work_after(apps: int, first: int) -> int:
        place(_apps(first, apps, WORK[rule]))
        found = count(lambda: place(_apps(first + apps, 20, WORK[rule])))
        return found.calls + found.comparisons

    few, many = work_after(100, 0), work_after(900, 150)
    assert many <= 1.1 * few, f"{few / 20} and {many / 20} operations for a pod"


# -- memory

KEPT: dict[str, Callable[[int], Json]] = {
    "spread over keys of its own": lambda number: {
        "topologySpreadConstraints": [{**_spread("x"), "topologyKey": f"key-{number}-{each}"} for each in range(10)]
    },
    "terms about keys and apps of its own": lambda number: {
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    _term(f"other-{number}-{each}", f"key-{number}-{each}") for each in range(10)
                ]
            }
        }
    },
    "preferences of its own": lambda number: {"affinity": {"podAffinity": _preferred(f"other-{number}")}},
    "node affinity of its own": lambda number: {"nodeSelector": {f"key-{number}": "x"}},
    "tolerations of its own": lambda number: {"tolerations": [{"key": f"key-{number}", "operator": "Exists"}]},
    "ports of its own": lambda number: {
        "containers": [{"name": "c", "image": f"i{number}", "ports": [{"containerPort": 1, "hostPort": 1 + number}]}]
    },
    "resources that no node has": lambda number: {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {f"example.com/r{number}": "1"}}}]
    },
}


@pytest.mark.req("S.3")
@pytest.mark.parametrize("kind", KEPT)
def test_the_memory_of_deleted_pods_is_free_again_without_a_collection(kind: str) -> None:
    tracemalloc.start()
    gc.disable()
    try:
        engine = Engine()
        for number in range(1000):
            engine.put(node(f"n{number}", zone=f"z{number % 3}"))
        resident = pod("resident", labels={"app": "resident"})
        engine.assume(resident, engine.schedule(resident).node or "")
        before = tracemalloc.get_traced_memory()[0]
        pods = [pod(f"p{each}", labels={"app": f"app-{each}"}, spec=KEPT[kind](each)) for each in range(100)]
        for each in pods:
            engine.schedule(each)
        for each in pods[::2]:  # the others are still pending
            engine.assume(each, "n1")
        for each in pods:
            engine.remove(each)
        del pods, each
        engine.schedule(resident)
        assert tracemalloc.get_traced_memory()[0] < 1.2 * before
    finally:
        tracemalloc.stop()
        gc.enable()


@pytest.mark.req("S.3")
@pytest.mark.parametrize("release", [Engine.remove, Engine.release], ids=["deleted", "changed"])
def test_nothing_is_cached_of_a_pending_pod_that_is_gone(release: Callable[[Engine, Pod], None]) -> None:
    engine = Engine()
    engine.put(node("a"))
    waits = pod("waits", spec=KEPT["spread over keys of its own"](1))
    assert engine.schedule(waits).node is None
    release(engine, waits)
    assert [len(each) for each in engine._evaluators.values()] == [0]
