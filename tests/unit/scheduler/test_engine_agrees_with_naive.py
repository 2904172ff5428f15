"""The engine against a naive evaluation, node by node, of the same rules; and incremental state against a fresh one."""

import dataclasses

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.core_v1 import Node, Pod, TopologySpreadConstraint
from mooring.api.meta_v1 import LabelSelector
from naive_scheduler import HOST, OK, ZONE, Twins, check, explained

pytestmark = pytest.mark.req("S.3", "5471.6", "5721.2", "5500.5", "3633.5")


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_engine_and_naive_evaluation_agree_on_random_clusters(seed: int) -> None:
    twins = Twins(seed)
    twins.put_namespace()
    for _ in range(30):
        twins.change()
    for _ in range(3):
        check(twins, twins.random.pod())


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32))
def test_they_agree_on_the_room_that_is_left_to_promised_pods(seed: int) -> None:
    """A node will do if the pod fits there as it is, and also once the pods have come that were promised room there."""
    twins = Twins(seed)
    lot = twins.random.lot
    promised: dict[str, Pod] = {}
    for _ in range(25):
        twins.change()
        pod = _placeable(twins.random.pod(f"node-{lot.randint(0, 7)}"), priority=lot.randint(0, 2))
        if lot.random() < 0.7:
            promised[pod.metadata.uid] = pod
            twins.engine.nominations.put(pod, pod.spec.node_name)
        elif promised:
            twins.engine.nominations.remove(promised.pop(lot.choice(list(promised))))
        wanted = _placeable(twins.random.pod(), priority=1)
        found = {name for name, (verdict, _) in explained(twins.engine, wanted).items() if verdict == OK}
        assert found == {
            node.metadata.name for node in twins.naive.nodes.values() if _leaves_room(twins, promised, wanted, node)
        }


def _placeable(pod: Pod, priority: int) -> Pod:
    status = msgspec.structs.replace(pod.status, phase="Pending")
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=priority), status=status)


def _leaves_room(twins: Twins, promised: dict[str, Pod], wanted: Pod, node: Node) -> bool:
    expected = {
        uid: pod
        for uid, pod in promised.items()
        if pod.spec.node_name == node.metadata.name and (pod.spec.priority or 0) >= (wanted.spec.priority or 0)
    }
    full = dataclasses.replace(twins.naive, pods={**twins.naive.pods, **expected})
    return twins.naive.verdict(wanted, node) == OK and full.verdict(wanted, node) == OK


def test_they_agree_on_pods_of_one_template_that_are_placed_one_after_another() -> None:
    @settings(max_examples=30, deadline=None)
    @given(st.integers(0, 2**32))
    def agree(seed: int) -> None:
        twins = Twins(seed)
        for _ in range(25):
            twins.change()
        templates = [twins.random.pod() for _ in range(2)]
        for number in range(12):
            pod = twins.random.sibling(templates[number % 5 == 4], number)
            check(twins, pod)
            twins.place(pod, twins.engine.schedule(pod).node)
            if twins.random.lot.random() < 0.2:
                twins.change()

    agree()


def test_the_best_nodes_are_those_with_the_highest_sum_of_scores() -> None:
    """The engine is asked for nothing but the best, as in scheduling, so that it updates its sums by row."""

    @settings(max_examples=20, deadline=None)
    @given(st.integers(0, 2**32))
    def agree(seed: int) -> None:
        twins = Twins(seed)
        for _ in range(25):
            twins.change()
        keys = twins.random.lot.choice([[ZONE], [HOST], [ZONE, HOST]])
        template = _spread(twins.random.pod(), keys, max_skew=twins.random.lot.randint(1, 3))
        for number in range(15):
            meta = msgspec.structs.replace(template.metadata, uid=f"like-{number}", name=f"like-{number}")
            pod = msgspec.structs.replace(template, metadata=meta)
            outcome = twins.engine.schedule(pod)
            totals = {name: sum(s.values()) for name, (verdict, s) in twins.naive.explain(pod).items() if verdict == OK}
            best = outcome.evaluation.best
            if best is not None:
                names = {info.name for row in best.rows() if (info := twins.engine.cluster.nodes[row])}
                assert names == {name for name, total in totals.items() if total == max(totals.values())}
            assert (outcome.node in totals) if totals else outcome.node is None
            twins.place(pod, outcome.node)
            if twins.random.lot.random() < 0.2:
                twins.change()

    agree()


def _spread(pod: Pod, keys: list[str], max_skew: int) -> Pod:
    constraints = [
        TopologySpreadConstraint(
            max_skew=max_skew,
            topology_key=key,
            when_unsatisfiable="ScheduleAnyway",
            label_selector=LabelSelector(match_labels=pod.metadata.labels),
        )
        for key in keys
    ]
    spec = msgspec.structs.replace(pod.spec, topology_spread_constraints=constraints)
    return msgspec.structs.replace(pod, spec=spec)


@pytest.mark.parametrize("seed", range(3))
def test_they_still_agree_after_hundreds_of_changes_and_so_does_an_engine_built_from_nothing(seed: int) -> None:
    twins = Twins(seed)
    pods = [twins.random.pod() for _ in range(6)]  # asked about again and again, so that verdicts are kept
    for step in range(400):
        twins.change()
        if step % 10 == 0:
            check(twins, pods[step // 10 % len(pods)])
    fresh = twins.fresh()
    for pod in pods:
        assert explained(fresh, pod) == explained(twins.engine, pod)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10, 30))
def test_they_still_agree_after_thousands_of_changes(seed: int) -> None:
    twins = Twins(seed)
    pods = [twins.random.pod() for _ in range(10)]
    for step in range(3000):
        twins.change()
        if step % 7 == 0:
            check(twins, pods[step // 7 % len(pods)])
