"""Compare kube-scheduler with Mooring's engine, attempt by attempt, on random clusters.

kube-scheduler runs against a real API server, looks at all nodes and logs every score (`-v=10`). Each attempt in its
log is repeated on Mooring's engine in the same state of the cluster. Compared are the feasible nodes, the score of
every plugin on every feasible node, the message of a pod that fits nowhere, the node and the victims of preemption,
and which pending pods an event brings back into the queue. Among equal scores kube-scheduler chooses at random, so
its choice has to be among our best ones, and our cluster follows that choice.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from differential.accepted import explanation
from differential.clusters import GROUPS, Operation, Scenario, Tree, shared_objects
from differential.connection import Connection
from differential.responses import shape
from mooring.api.base import copy_of
from mooring.api.codec import FieldValidation, from_tree
from mooring.api.core_v1 import Node, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.scheme import Scheme
from mooring.scheduler.facade import DEFAULT_SCHEDULER, NO_NODES, Engine, ProfileSpec, classify_node_change, fit_message
from mooring.scheduler.framework import Action, ClusterEvent, EnqueueExtensions, Kind, SchedulerFeatures
from mooring.scheduler.framework.events import QueueingHint

CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 100
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
leaderElection: {{leaderElect: false}}
clientConnection: {{kubeconfig: {kubeconfig}, qps: 1000, burst: 1000}}
"""
FLAGS = (
    "-v=10",
    "--logging-format=json",
    "--secure-port=0",
    # Batching reuses the scores of an earlier pod, without a line in the log.
    "--feature-gates=OpportunisticBatching=false,TaintTolerationComparisonOperators=true",
)
_QUIET_SECONDS = 0.06
_SETTLE_SECONDS = 5.0
_PATCH = "application/merge-patch+json"
_Key = tuple[str, str]
"""Kind and namespace/name."""
_TAINT = re.compile(r"node\(s\) had untolerated taint \{.*?\}")
_SCHEME = Scheme()
_VERSIONS = {
    "Node": "v1",
    "Pod": "v1",
    "Namespace": "v1",
    "Service": "v1",
    "PersistentVolume": "v1",
    "PersistentVolumeClaim": "v1",
    "PodDisruptionBudget": "policy/v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "StorageClass": "storage.k8s.io/v1",
    "CSINode": "storage.k8s.io/v1",
    "ResourceSlice": "resource.k8s.io/v1",
    "ResourceClaim": "resource.k8s.io/v1",
    "DeviceClass": "resource.k8s.io/v1",
}


@dataclass
class Attempt:
    """Hold one attempt of kube-scheduler, as its log has it."""

    pod: str
    scores: dict[str, dict[str, int]] = field(default_factory=dict)
    node: str = ""
    feasible: int | None = None
    message: str = ""
    plugins: frozenset[str] = frozenset()
    victims: set[str] = field(default_factory=set)
    target: str = ""


class Log:
    """The scheduler's log, read as it grows."""

    def __init__(self, file: Path) -> None:
        self._file = file.open()
        self._rest = ""

    def lines(self) -> Iterator[Tree]:
        """Yield the lines that were written since the last call."""
        text = self._rest + self._file.read()
        *complete, self._rest = text.split("\n")
        for line in complete:
            if line.startswith("{"):
                try:
                    yield json.loads(line)
                except ValueError:
                    continue


def _name(value: Any) -> str:
    return f"{value['namespace']}/{value['name']}" if isinstance(value, dict) and "namespace" in value else str(value)


class Attempts:
    """Attempts collected from log lines, in the order in which they began."""

    def __init__(self) -> None:
        self.all: list[Attempt] = []
        self.moved: dict[str, set[str]] = {}
        """The events that moved pods out of the unschedulable ones, by pod."""
        self._open: dict[str, Attempt] = {}

    def read(self, line: Tree) -> bool:
        """Take one line; return whether it belongs to an attempt."""
        message, pod = line.get("msg", ""), _name(line.get("pod"))
        if message == "Attempting to schedule pod":
            self._open[pod] = Attempt(pod)
            self.all.append(self._open[pod])
            return True
        if message == "Entity moved to an internal scheduling queue":
            self.moved.setdefault(_name(line.get("entity")), set()).add(line["event"])
            return True
        if message == "Preemptor Pod preempted victim Pod":
            preemptor = _name(line.get("preemptor"))
            if mine := [each for each in self.all if each.pod == preemptor and each.target]:
                mine[-1].victims.add(_name(line["victim"]))
            return True
        attempt = self._open.get(pod)
        if attempt is None:
            return False
        if message == "Plugin scored node for pod":
            attempt.scores.setdefault(line["node"], {})[line["plugin"]] = line["score"]
        elif message == "the target node for the preemption is determined":
            attempt.target = line["node"]
        elif message == "Successfully bound pod to node":
            attempt.node, attempt.feasible = line["node"], line["feasibleNodes"]
            del self._open[pod]
        elif message.startswith("Unable to schedule pod"):
            attempt.message = line.get("err", "no nodes available to schedule pods")
        elif message == "Pod moved to an internal scheduling queue" and line.get("event") == "ScheduleAttemptFailure":
            attempt.plugins = frozenset(line.get("unschedulable plugins") or {})
            del self._open[pod]
        else:
            return False
        return True

    @property
    def is_idle(self) -> bool:
        return not self._open


class Comparison:
    """A real API server with kube-scheduler, and an engine of ours that follows it."""

    def __init__(self, connection: Connection, log: Path) -> None:
        self._real, self._log = connection, Log(log)
        self._engine = Engine((ProfileSpec(),))
        self._known: dict[_Key, Resource] = {}
        self._trees: dict[str, list[Tree]] = {}
        self._rejected: dict[str, frozenset[str]] = {}
        self._nominated: dict[str, str] = {}
        """The node that preemption chose, by pod."""
        self._placements: dict[str, str] = {}
        """The node on which a pod was placed, by pod."""
        for tree in shared_objects():
            self._real.request("POST", GROUPS[tree["kind"]], tree)
        self.attempts = 0

    def run(self, scenario: Scenario) -> list[str]:
        """Play a scenario; return the differences that were found, each with its attempt."""
        self._engine = Engine((ProfileSpec(),), features=SchedulerFeatures())
        self._known, self._trees, self._rejected, self._nominated, self._placements = {}, {}, {}, {}, {}
        self._read(*GROUPS)
        self._follow()
        found: list[str] = []
        for number, operation in enumerate(scenario.operations):
            self._send(operation)
            if number < scenario.first_pod - 1:
                self._read(operation.tree["kind"])
                continue  # nothing is pending yet
            seen = self._settle()
            attempts = seen.all
            self._read(*{operation.tree["kind"], "Pod", *(("ResourceClaim",) if attempts else ())})
            found += [f"operation {number}: {text}" for text in self._compare_retries(operation, seen)]
            for place, attempt in enumerate(attempts):
                self._follow(attempts[place:])
                if any(earlier.victims and earlier.pod != attempt.pod for earlier in attempts[:place]):
                    continue  # whether the victims were gone already is not in the log
                self.attempts += 1
                found += [f"operation {number}, pod {attempt.pod}: {text}" for text in self._compare(attempt)]
                self._rejected[attempt.pod], self._nominated[attempt.pod] = attempt.plugins, attempt.target
                self._placements[attempt.pod] = attempt.node
            self._follow()
            if any(explanation(key_of(text)) is None for text in found):
                break
        self._clean_up()
        return found

    def shrink(self, scenario: Scenario, key: tuple[str, str]) -> Scenario:
        """Remove operations as long as the difference keeps its shape."""
        place = len(scenario.operations) - 1
        while place >= 0:
            fewer = scenario.operations[:place] + scenario.operations[place + 1 :]
            smaller = scenario._replace(operations=fewer)
            if key in {key_of(text) for text in self.run(smaller)}:
                scenario = smaller
            place -= 1
        return scenario

    # -- the real side

    def _send(self, operation: Operation) -> None:
        match operation.verb:
            case "create":
                answer = self._real.request("POST", operation.path, operation.tree)
                status = operation.tree.get("status")
                if status and operation.tree["kind"] == "Node" and answer.code == 201:
                    path = f"{operation.path}/{operation.tree['metadata']['name']}/status"
                    self._real.request("PATCH", path, {"status": status}, _PATCH)
            case "delete":
                self._real.request("DELETE", f"{operation.path}?gracePeriodSeconds=0")
            case "patch":
                self._real.request("PATCH", operation.path, operation.tree, _PATCH)
            case _:
                self._real.request("PATCH", f"{operation.path}/status", {"status": operation.tree["status"]}, _PATCH)

    def _settle(self) -> Attempts:
        """Wait until the scheduler is quiet; return the attempts in its log."""
        attempts, last = Attempts(), time.monotonic()
        deadline = last + _SETTLE_SECONDS
        while (now := time.monotonic()) < deadline and (now - last < _QUIET_SECONDS or not attempts.is_idle):
            for line in self._log.lines():
                if attempts.read(line):
                    last = time.monotonic()
            time.sleep(0.005)
        return attempts

    def _clean_up(self) -> None:
        for kind in ("Pod", "PodDisruptionBudget", "ResourceClaim", "Service", "PersistentVolumeClaim"):
            for namespace in ("ns1", "ns2"):
                path = GROUPS[kind].format(namespace)
                if kind in ("ResourceClaim", "PersistentVolumeClaim", "Service"):
                    self._delete_each(path)
                else:
                    self._real.request("DELETE", f"{path}?gracePeriodSeconds=0")
        for kind in ("ResourceSlice", "PersistentVolume", "Node"):
            self._delete_each(GROUPS[kind])
        self._settle()

    def _delete_each(self, collection: str) -> None:
        for tree in self._real.request("GET", collection).body.get("items") or ():
            path = f"{collection}/{tree['metadata']['name']}"
            if tree["metadata"].get("finalizers"):
                self._real.request("PATCH", path, {"metadata": {"finalizers": None}}, _PATCH)
            self._real.request("DELETE", path)

    # -- our side

    def _read(self, *kinds: str) -> None:
        """Read the objects of kinds that changed from the real server."""
        for kind in kinds:
            path = GROUPS[kind].replace("/namespaces/{}", "")
            self._trees[kind] = self._real.request("GET", path).body.get("items") or []

    def _follow(self, coming: Sequence[Attempt] = ()) -> None:
        """Bring the engine to what the real server stores now, without the effects of attempts that are to come."""
        current: dict[_Key, Resource] = {}
        for kind, trees in self._trees.items():
            for tree in trees:
                thing = _decode({"apiVersion": _VERSIONS[kind], "kind": kind, **tree})
                current[kind, f"{thing.metadata.namespace}/{thing.metadata.name}"] = thing
        self._hold_back(current, coming)
        for key, thing in self._known.items():
            if key not in current or current[key].metadata.uid != thing.metadata.uid:
                self._engine.remove(thing)
        for key, thing in current.items():
            before = self._known.get(key)
            if before != thing:
                self._engine.put(thing)
        self._known = current

    def _hold_back(self, current: dict[_Key, Resource], coming: Sequence[Attempt]) -> None:
        for attempt in coming:
            for key in (("Pod", attempt.pod), *(("Pod", name) for name in attempt.victims)):
                before, now = self._known.get(key), current.get(key)
                if now is None and before is not None:
                    current[key] = self._where_placed(before)
                elif isinstance(now, Pod) and key[1] == attempt.pod:
                    now.spec.node_name = before.spec.node_name if isinstance(before, Pod) else ""
                    now.status.nominated_node_name = self._nominated.get(attempt.pod, "")
            pod = current.get(("Pod", attempt.pod))
            for name in _device_claims(pod) if isinstance(pod, Pod) and attempt.node else ():
                if before := self._known.get(("ResourceClaim", name)):
                    current["ResourceClaim", name] = before

    def _where_placed(self, thing: Resource) -> Resource:
        """Return a pod that is gone by now, as it was after its own attempt."""
        node = self._placements.get(f"{thing.metadata.namespace}/{thing.metadata.name}")
        if not node or not isinstance(thing, Pod) or thing.spec.node_name:
            return thing
        pod = copy_of(thing)
        pod.spec.node_name = node
        return pod

    def _compare_retries(self, operation: Operation, seen: Attempts) -> Iterator[str]:
        """Compare which pending pods an event about a node or a pod brings back into the queue."""
        kind, metadata = operation.tree["kind"], operation.tree["metadata"]
        name = f"{metadata.get('namespace', '')}/{metadata['name']}"
        pending = {key[1]: pod for key, pod in self._known.items() if isinstance(pod, Pod) and not pod.spec.node_name}
        old = self._known.get((kind, name))
        self._follow(seen.all)
        event = _event(old, self._known.get((kind, name)))
        if event is None or any(attempt.victims for attempt in seen.all):
            return
        for key, pod in pending.items():
            rejecting = self._rejected.get(key)
            if not rejecting or key == name:
                continue
            ours = self._would_retry(event, pod, rejecting, (old, self._known.get((kind, name))))
            real = any(label.startswith(event.kind.value) for label in seen.moved.get(key, ()))
            if ours == real:
                continue
            does = "retries" if real else "does not retry"
            fits = any(each.status.is_success for each in self._engine.explain(pod).values())
            result = "and now fits" if fits else "and still fits nowhere"
            where = f"{event.kind.value} {event.action}"
            yield f"{where} {does} a pod that {sorted(rejecting)} rejected, {result}: {key}"

    def _would_retry(self, event: ClusterEvent, pod: Pod, rejecting: frozenset[str], change: tuple[Any, Any]) -> bool:
        for plugin in self._engine.profiles[DEFAULT_SCHEDULER].plugins:
            if plugin.name not in rejecting or not isinstance(plugin, EnqueueExtensions):
                continue
            for registered in plugin.events_to_register():
                if registered.event.covers(event) and (
                    registered.hint is None or registered.hint(pod, *change) is QueueingHint.QUEUE
                ):
                    return True
        return False

    def _compare(self, attempt: Attempt) -> Iterator[str]:
        pod = self._known.get(("Pod", attempt.pod))
        if not isinstance(pod, Pod):
            return  # it was deleted while it was being scheduled
        explained = self._engine.explain(pod)
        feasible = {name for name, each in explained.items() if each.status.is_success}
        if attempt.node:
            yield from self._placed(attempt, pod, explained, feasible)
            return
        if feasible:
            yield f"pending ({attempt.message}), ours feasible on {sorted(feasible)}"
            return
        outcome = self._engine.schedule(pod)
        after = self._engine.post_filter(outcome)
        message = fit_message(outcome, after) if explained else NO_NODES
        real, ours = _comparable(attempt.message), _comparable(message)
        if real != ours:
            yield f"message {real!r}, ours {ours!r}"
        theirs = [self._known.get(("Pod", name)) for name in attempt.victims]
        if (bool(attempt.target), _priorities(theirs)) != (bool(after.nominated), _priorities(after.victims)):
            names = sorted(each.metadata.name for each in after.victims)
            yield f"preempts {sorted(attempt.victims)} on {attempt.target!r}, ours {names} on {after.nominated!r}"

    def _placed(self, attempt: Attempt, pod: Pod, explained: Any, feasible: set[str]) -> Iterator[str]:
        if attempt.node not in feasible:
            reasons = explained[attempt.node].status.reasons if attempt.node in explained else "no such node"
            yield f"on {attempt.node}, ours infeasible there: {reasons}"
        elif attempt.feasible == 1 and attempt.node == pod.status.nominated_node_name:
            return  # other nodes are not looked at
        elif attempt.feasible != len(feasible):
            yield f"{attempt.feasible} feasible nodes {sorted(attempt.scores)}, ours {sorted(feasible)}"
        elif attempt.scores and set(attempt.scores) != feasible:
            yield f"feasible nodes {sorted(attempt.scores)}, ours {sorted(feasible)}"
        elif attempt.scores:
            for node, scores in sorted(attempt.scores.items()):
                ours = {plugin: explained[node].scores.get(plugin, 0) for plugin in scores}
                if ours != scores:
                    differing = {
                        plugin: (scores[plugin], ours[plugin]) for plugin in scores if scores[plugin] != ours[plugin]
                    }
                    yield f"scores on {node} (real, ours) {differing}"
                    return
            best = max(each.total for name, each in explained.items() if name in feasible)
            if explained[attempt.node].total != best:
                yield f"on {attempt.node} with {explained[attempt.node].total}, our best has {best}"


def _event(old: Resource | None, new: Resource | None) -> ClusterEvent | None:
    """Return the scheduler's event for a change of a node or of an assigned pod; None for other changes."""
    if isinstance(old, Node) and isinstance(new, Node):
        action = classify_node_change(old, new)
        return ClusterEvent(Kind.NODE, action) if action else None
    if isinstance(old or new, Node):
        return ClusterEvent(Kind.NODE, Action.ADD if old is None else Action.DELETE)
    if isinstance(old, Pod) and old.spec.node_name:
        if new is None:
            return ClusterEvent(Kind.ASSIGNED_POD, Action.DELETE)
        if old.metadata.labels != new.metadata.labels:
            return ClusterEvent(Kind.ASSIGNED_POD, Action.UPDATE_POD_LABEL)
    return None


def _device_claims(pod: Pod) -> Iterator[str]:
    for each in pod.spec.resource_claims:
        if each.resource_claim_name:
            yield f"{pod.metadata.namespace}/{each.resource_claim_name}"


def _decode(tree: Tree) -> Resource:
    kind = _SCHEME.kind(tree["apiVersion"], tree["kind"])
    if kind is None:
        raise LookupError(f"{tree['apiVersion']} {tree['kind']} is not a kind of Mooring's")
    thing, _ = from_tree(tree, kind.type, FieldValidation.IGNORE)
    return _SCHEME.convert(thing, _SCHEME.hub(kind))


def _priorities(victims: Iterable[Resource | None]) -> list[int]:
    """Return what preemption costs, where victims differ: kube-scheduler chooses at random among equal costs."""
    return sorted(each.spec.priority or 0 for each in victims if isinstance(each, Pod))


def _comparable(message: str) -> str:
    """Return a message with the taints summed up, as kube-scheduler words them, and its parts sorted."""
    head, _, tail = message.partition(" nodes are available: ")
    main, _, preemption = tail.partition(". preemption: ")
    if not main[:1].isdigit():
        return message
    counts: Counter[str] = Counter()
    for part in re.split(r", (?=\d+ )", main.rstrip(". ")):
        number, _, reason = part.partition(" ")
        counts[_TAINT.sub("node(s) had untolerated taint(s)", reason)] += int(number)
    parts = sorted(f"{number} {reason}" for reason, number in counts.items())
    placement = re.sub(r"on node \S+, preempting", "on node …, preempting", preemption.rstrip(". "))
    return f"{head} nodes are available: {', '.join(parts)}. preemption: {placement}"


def key_of(text: str) -> tuple[str, str]:
    """Return where a difference belongs, and its shape without names of this scenario."""
    return "scheduling", re.sub(r"'?[npv]+N'?", "X", shape(text.split(": ", 1)[-1]))
