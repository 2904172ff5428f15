"""Preemption against an oracle that shares nothing with it: pods are taken out of a naive world and given back."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.core_v1 import Node, Pod
from mooring.api.policy_v1 import PodDisruptionBudget
from mooring.scheduler.deciding.engine import Engine
from naive_scheduler import NO, OK, Naive, Twins, made

pytestmark = pytest.mark.req("S.3")

Cost = tuple[Any, ...]


@dataclass
class Oracle:
    """Apply kube-scheduler's rules for preemption pod by pod."""

    world: Naive
    budgets: list[PodDisruptionBudget]

    def candidates(self, pod: Pod) -> Iterator[tuple[Cost, str, list[str]]]:
        """Yield the nodes where displacing others helps: the harm (the less the better), the node and its victims."""
        for name, node in self.world.nodes.items():
            if self.world.verdict(pod, node)[0] == NO:
                victims = self.victims(pod, node)
                if victims:
                    yield self.harm(victims), name, sorted(each.metadata.name for each in victims)

    def victims(self, pod: Pod, node: Node) -> list[Pod]:
        lower = [each for each in self.world.on(node) if prio(each) < prio(pod)]
        lower.sort(key=lambda each: (-prio(each), begun(each)))
        gone = {each.metadata.uid for each in lower}
        if not lower or not self.fits(pod, node, gone):
            return []
        violating = self.violating(lower)
        for each in [*(p for p in lower if p in violating), *(p for p in lower if p not in violating)]:
            if self.fits(pod, node, gone - {each.metadata.uid}):
                gone -= {each.metadata.uid}
        return [each for each in lower if each.metadata.uid in gone]

    def fits(self, pod: Pod, node: Node, gone: set[str]) -> bool:
        left = {uid: each for uid, each in self.world.pods.items() if uid not in gone}
        return replace(self.world, pods=left).verdict(pod, node) == OK

    def violating(self, pods: list[Pod]) -> list[Pod]:
        """Those whose disruption a budget no longer allows, when all go in this order."""
        found, left = [], {id(budget): budget.status.disruptions_allowed for budget in self.budgets}
        for pod in pods:
            guards = [budget for budget in self.budgets if guarded(pod, budget)]
            for budget in guards:
                left[id(budget)] -= 1
            if any(left[id(budget)] < 0 for budget in guards):
                found.append(pod)
        return found

    def harm(self, victims: list[Pod]) -> Cost:
        broken = len([pod for pod in victims if pod in self.violating(self.lower_of(victims))])
        highest = max(map(prio, victims))
        first = min(begun(pod) for pod in victims if prio(pod) == highest)
        sums = sum(prio(pod) + 2**31 for pod in victims)
        return broken, highest, sums, len(victims), tuple(-ord(letter) for letter in first)

    def lower_of(self, victims: list[Pod]) -> list[Pod]:
        """All that were to go from the victims' node."""
        node = self.world.nodes[victims[0].spec.node_name]
        lower = [each for each in self.world.on(node) if prio(each) < self.limit]
        return sorted(lower, key=lambda each: (-prio(each), begun(each)))

    limit: int = 0


def prio(pod: Pod) -> int:
    return pod.spec.priority or 0


def begun(pod: Pod) -> str:
    return pod.status.start_time or "9999"


def guarded(pod: Pod, budget: PodDisruptionBudget) -> bool:
    wanted = (budget.spec.selector and budget.spec.selector.match_labels) or {}
    labels = pod.metadata.labels
    return budget.metadata.namespace == pod.metadata.namespace and bool(wanted) and wanted.items() <= labels.items()


def world(seed: int) -> tuple[Twins, list[PodDisruptionBudget]]:
    """Return a random cluster with many pods of all priorities and start times, and some budgets."""
    twins = Twins(seed)
    lot = twins.random.lot
    twins.put_namespace()
    for _ in range(10):
        twins.put_node()
    for hour in range(24):
        pod = twins.random.pod(f"node-{lot.randint(0, 7)}")
        spec = msgspec.structs.replace(pod.spec, priority=lot.choice([0, 0, 1, 2, 50]))
        status = msgspec.structs.replace(pod.status, start_time=f"2026-01-01T{hour:02}:00:00Z")
        pod = msgspec.structs.replace(pod, spec=spec, status=status)
        twins.naive.pods[pod.metadata.uid] = pod
        twins.engine.put(pod)
    budgets = []
    for app in ("web", "db"):
        tree = {
            "metadata": {"name": app, "namespace": lot.choice(["default", "prod"])},
            "spec": {"selector": {"matchLabels": {"app": app}}},
            "status": {"disruptionsAllowed": lot.randint(0, 2)},
        }
        budgets.append(made(tree, PodDisruptionBudget))
        twins.engine.put(budgets[-1])
    return twins, budgets


def important(pod: Pod, priority: int) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=priority))


def chosen(engine: Engine, pod: Pod) -> tuple[str | None, list[str]] | None:
    outcome = engine.schedule(pod)
    if outcome.node is not None:
        return None
    found = engine.post_filter(outcome)
    return found.nominated, sorted(each.metadata.name for each in found.victims)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_the_node_and_the_victims_are_those_of_the_rules(seed: int) -> None:
    twins, budgets = world(seed)
    for priority in (1, 2, 100):
        pod = important(twins.random.pod(), priority)
        oracle = Oracle(twins.naive, budgets, limit=priority)
        ours = chosen(twins.engine, pod)
        if ours is None:
            continue
        found = sorted(oracle.candidates(pod))
        best = [(node, victims) for harm, node, victims in found if harm == found[0][0]]
        assert ours in best if best else ours == (None, []), found


def test_the_oracle_sees_cases_of_every_kind() -> None:
    """So that agreement means something: pods that displace one, several, guarded ones and none."""
    kinds: set[tuple[bool, bool, bool]] = set()
    for seed in range(60):
        twins, budgets = world(seed)
        pod = important(twins.random.pod(), 100)
        found = sorted(Oracle(twins.naive, budgets, limit=100).candidates(pod))
        kinds.add((bool(found), bool(found) and len(found[0][2]) > 1, bool(found) and found[0][0][0] > 0))
    assert {(False, False, False), (True, False, False), (True, True, False)} <= kinds
    assert any(broken for _, _, broken in kinds)
