"""Tables that need a running control plane: taint eviction in virtual time, and scheduling through the API.

All cases share one control plane with a mock clock. Each eviction case has a node of its own; integration cases run one
after the other, each with its own nodes and pods, which are deleted before the next.
"""

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import NamedTuple

from mooring.api import errors
from mooring.api.codec import encode
from mooring.api.core_v1 import Namespace, Node, Pod, ServiceAccount
from mooring.testing.clock import MockClock
from mooring.testing.control_plane import RunningControlPlane
from mooring.testing.fluent import SIMULATED
from upstream_tables import plugins
from upstream_tables.case import NotPlayableError, Play, Tree, decode

_STEP_SECONDS = 0.1
_SETTLE_SECONDS = 0.3
_ATTEMPTS = 400


class LivePlane(NamedTuple):
    """The control plane, and the tables that can be played on it."""

    plane: RunningControlPlane
    tables: Mapping[str, Play]


@contextmanager
def shared_plane() -> Iterator[LivePlane]:
    """Start the control plane that all live cases share."""
    clock = MockClock(datetime.now(UTC))
    with RunningControlPlane(clock=clock) as plane:
        yield LivePlane(plane, {"eviction": _Eviction(plane, clock).play, "integration": _Integration(plane).play})


class _Eviction:
    def __init__(self, plane: RunningControlPlane, clock: MockClock) -> None:
        self._plane, self._clock = plane, clock
        self._numbers = count(1)

    def play(self, case: Tree) -> str | None:
        number, plane = next(self._numbers), self._plane
        node = f"evict-{number}"
        plane.create(_node({"metadata": {"name": node}}))
        problem = None
        for step, *arguments in case["steps"]:
            if step == "expect":
                problem = problem or self._expect(node, *arguments)
            else:
                self._do(step, node, case, arguments)
        for pod in plane.list(Pod):
            if pod.spec.node_name == node:
                delete_pod(plane, pod.metadata.namespace, pod.metadata.name)
        plane.delete(Node, node, "")
        return problem

    def _do(self, step: str, node: str, case: Tree, arguments: list[object]) -> None:
        plane = self._plane
        match step, arguments:
            case "taints", [list(numbers)]:
                plane.patch(Node, node, {"spec": {"taints": [_taint(each) for each in numbers]}}, "")
            case "taintsAt", [list(numbers), int(seconds)]:
                added = (self._clock.now() + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
                taints = [_taint(each) | {"timeAdded": added} for each in numbers]
                plane.patch(Node, node, {"spec": {"taints": taints}}, "")
            case "align", [float(fraction)]:
                now = self._clock.now().microsecond / 1e6
                plane.advance((fraction - now) % 1)
            case "create", [str(name)]:
                spec = {"nodeName": node, "terminationGracePeriodSeconds": 0, "tolerations": case["pods"][name]}
                plane.create(_pod(f"{node}-{name}", spec))
                plane.advance(_SETTLE_SECONDS)
            case "tolerations", [str(name), list(added)]:
                kept = plane.get(Pod, f"{node}-{name}").spec.tolerations
                body = {
                    "spec": {"tolerations": added + [_plain(each) for each in kept if each.key.startswith("node.")]}
                }
                plane.patch(Pod, f"{node}-{name}", body)
            case _:
                raise NotPlayableError(f"the step {step} is not known")

    def _expect(self, node: str, seconds: float, wanted: Mapping[str, bool]) -> str | None:
        """Let time pass until the pods are gone that should go; none that should stay may go in that time."""
        gone: dict[str, bool] = {}
        for _ in range(round(seconds / _STEP_SECONDS)):
            self._plane.advance(_STEP_SECONDS)
            gone = {name: _is_gone(self._plane, f"{node}-{name}") for name in wanted}
            if any(gone[name] and not wanted[name] for name in wanted) or (gone == wanted and all(gone.values())):
                break
        return None if gone == wanted else f"within {seconds} s deleted: {gone}, upstream {dict(wanted)}"


class _Integration:
    """Cases of the default profile at the newest version. The others run on the engine, in ``plugins.py``."""

    def __init__(self, plane: RunningControlPlane) -> None:
        self._plane = plane

    def play(self, case: Tree) -> str | None:
        if case["flags"] or case["scheduler"] != "default-scheduler":
            return plugins.TABLES["integration"](case)
        made: list[tuple[str, str]] = []
        try:
            return self._play(case, made)
        finally:
            for namespace, name in made:
                delete_pod(self._plane, namespace, name)
            for tree in case["nodes"]:
                self._plane.delete(Node, tree["metadata"]["name"], "")

    def _play(self, case: Tree, made: list[tuple[str, str]]) -> str | None:
        plane = self._plane
        for name, labels in case["namespaces"].items():
            self._ensure_namespace(name, labels)
        for tree in case["nodes"]:
            plane.create(_node(tree))
        _advance_until(plane, lambda: all(_is_ready(node) for node in plane.list(Node)))
        namespace = "ns1" if case["namespaces"] else "default"
        for tree in case["pods"]:
            created = self._create(tree, namespace, made)
            if not created.spec.node_name:
                outcome(plane, created)
        try:
            pod = self._create(case["pod"], namespace, made)
        except errors.Invalid as error:
            return None if case["invalid"] else f"rejected: {error}"
        found = outcome(plane, pod, until_placed="preempt" in case["name"])
        fits = not found.startswith("pending")
        if fits != case["fits"]:
            return f"{found}, upstream {'fits' if case['fits'] else 'does not fit'}"
        if fits and case["candidates"] and found not in case["candidates"]:
            return f"on {found}, upstream on {case['candidates']}"
        return None

    def _ensure_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        plane = self._plane
        try:
            plane.get(Namespace, name, "")
        except errors.NotFound:
            plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels)}})
        _advance_until(plane, lambda: any(each.metadata.name == "default" for each in plane.list(ServiceAccount, name)))

    def _create(self, tree: Tree, namespace: str, made: list[tuple[str, str]]) -> Pod:
        tree = copy.deepcopy(tree)
        metadata, spec = tree["metadata"], tree["spec"]
        metadata["namespace"] = metadata.get("namespace") or namespace
        metadata.pop("uid", None)
        priority = spec.pop("priority", None)
        if priority:
            spec["priorityClassName"] = self._priority_class(priority)
        wanted = _pod(metadata.get("name", ""), {"terminationGracePeriodSeconds": 0, **spec}) | {"metadata": metadata}
        created = self._plane.run(self._plane.client.create(decode(wanted, Pod)))
        made.append((created.metadata.namespace, created.metadata.name))
        return created

    def _priority_class(self, value: int) -> str:
        tree = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": f"p{value}"}}
        with suppress(errors.AlreadyExists):
            self._plane.create(tree | {"value": value})
        return f"p{value}"


def outcome(plane: RunningControlPlane, pod: Pod, *, until_placed: bool = False) -> str:
    """Return the pod's node, or `pending` with the scheduler's message; a node alone ends the wait `until_placed`."""
    found = ""

    def is_decided() -> bool:
        nonlocal found
        now = plane.get(Pod, pod.metadata.name, pod.metadata.namespace)
        reasons = [each.message for each in now.status.conditions if each.type == "PodScheduled"]
        found = now.spec.node_name or (f"pending: {reasons[0]}" if reasons else "")
        return bool(now.spec.node_name) or (bool(found) and not until_placed)

    _advance_until(plane, is_decided)
    return found or "pending: no attempt yet"


def _advance_until(plane: RunningControlPlane, condition: Callable[[], bool]) -> None:
    """Advance the clock until a condition holds; give up after a fixed number of steps."""
    for _ in range(_ATTEMPTS):
        if condition():
            return
        plane.advance(_STEP_SECONDS)


def create_node(plane: RunningControlPlane, tree: Tree) -> None:
    """Create a simulated node and wait until it is ready."""
    plane.create(_node(tree))
    _advance_until(plane, lambda: _is_ready(plane.get(Node, tree["metadata"]["name"], "")))


def create_pod(plane: RunningControlPlane, name: str, spec: Tree, labels: Mapping[str, str]) -> Pod:
    tree = _pod(name, {"terminationGracePeriodSeconds": 0, **spec})
    tree["metadata"] |= {"labels": dict(labels)}
    return plane.run(plane.client.create(decode(tree, Pod)))


def _node(tree: Tree) -> Tree:
    metadata = tree["metadata"] | {"annotations": {SIMULATED: "true"}}
    return {"apiVersion": "v1", "kind": "Node"} | tree | {"metadata": metadata}


def _pod(name: str, spec: Tree) -> Tree:
    spec = {"containers": [{"name": "c", "image": "i"}], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _taint(number: object) -> Tree:
    return {"key": f"testTaint{number}", "value": f"test{number}", "effect": "NoExecute"}


def _plain(toleration: object) -> Tree:
    tree: Tree = json.loads(encode(toleration))
    return tree


def _is_ready(node: Node) -> bool:
    return not any(taint.key.startswith("node.kubernetes.io/not-ready") for taint in node.spec.taints) and any(
        each.type == "Ready" and each.status == "True" for each in node.status.conditions
    )


def _is_gone(plane: RunningControlPlane, name: str) -> bool:
    try:
        return plane.get(Pod, name).metadata.deletion_timestamp is not None
    except errors.NotFound:
        return True


def delete_pod(plane: RunningControlPlane, namespace: str, name: str) -> None:
    try:
        plane.delete(Pod, name, namespace)
    except errors.NotFound:
        return
    for _ in range(_ATTEMPTS):
        try:
            plane.get(Pod, name, namespace)
        except errors.NotFound:
            return
        plane.advance(_STEP_SECONDS)
