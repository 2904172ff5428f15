"""The bridge on a stock server: what it does when users, other writers, restarts and missing rights get in its way."""

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from bridged_cluster import StockCluster, gated, newer_than, stock_cluster, tolerated
from mooring.api import codec, errors
from mooring.api.authentication_v1 import UserInfo
from mooring.api.core_v1 import Node, Pod
from mooring.api.rbac_v1 import ClusterRoleBinding
from mooring.bridge import cluster as cluster_module
from mooring.bridge import plan
from mooring.bridge.checking import check
from mooring.bridge.run import Bridge
from mooring.client import LeaseTimes, PatchType
from mooring.client.transport import Request
from mooring.constraints import annotations
from mooring.testing.builders import made

SLA = {"key": "sla", "operator": "Gt", "value": "950", "effect": "NoExecute"}
BAD = '[{"key": "sla", "operator": "Gt", "value": "0950"}]'


def required_of(pod: Pod) -> Any:
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


@pytest.mark.req("B.2", "B.3", "B.4")
@pytest.mark.parametrize(("emulation", "gates"), [("1.31", ""), ("1.34", ""), (None, None)])
async def test_a_pod_is_released_in_words_that_the_release_knows(emulation: str | None, gates: str | None) -> None:
    async with stock_cluster(emulation, **({} if gates is None else {"gates": gates})) as cluster:
        await cluster.node("new", {"kernel": "6.1.0"}, ["sla=960:NoExecute"])
        await cluster.node("old", {"kernel": "5.4.0"}, ["sla=900:NoExecute"])
        async with cluster.bridged():
            await cluster.create(gated("web", [SLA], [newer_than("6.0")]))
            pod = await cluster.until_released("web")
            assert tolerated(pod, "sla") == {"960"}
            assert len(required_of(pod).node_selector_terms) == 2
            assert len(await cluster.bridge_labels("new")) == 1
            assert await cluster.bridge_labels("old") == set()
            await cluster.taint("old", "sla=970:NoExecute")
            await cluster.until(lambda: _tolerates(cluster, "web", "970"))


async def _tolerates(cluster: StockCluster, name: str, value: str) -> bool:
    return value in tolerated(await cluster.find(name), "sla")


@pytest.mark.req("B.6")
@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ({annotations.TOLERATIONS: BAD}, "metadata.annotations[constraints.mooring.dev/tolerations][0].value"),
        ({annotations.NODE_AFFINITY: "{"}, "metadata.annotations[constraints.mooring.dev/node-affinity]"),
        ({annotations.TOLERATIONS: None}, "add one, or take the gate away"),
    ],
    ids=["a value that is not valid", "no YAML", "a gate without constraints"],
)
async def test_what_is_wrong_keeps_the_gate_until_it_is_mended(given: Mapping[str, str | None], reported: str) -> None:
    async with stock_cluster() as cluster, cluster.bridged():
        pod = gated("web", [SLA])
        pod.metadata.annotations = {key: text for key, text in given.items() if text is not None}
        await cluster.create(pod)
        assert reported in await cluster.until_reported("InvalidConstraints")
        assert plan.is_gated(await cluster.find("web"))
        await cluster.annotate("web", dict.fromkeys(given) | {annotations.TOLERATIONS: json.dumps([SLA])})
        await cluster.until_released("web")


@pytest.mark.req("B.7")
async def test_a_bridge_that_starts_late_or_was_killed_goes_on_where_it_was() -> None:
    async with stock_cluster() as cluster:
        await cluster.node("a", {"kernel": "6.1.0"}, ["sla=960:NoExecute"])
        await cluster.create(gated("web", [SLA], [newer_than("6.0")]))
        for kill_after in range(6):  # requests that change something
            left = kill_after

            async def stop_working(request: Request) -> None:
                nonlocal left
                if request.method == "PATCH":
                    left -= 1
                    if left < 0:
                        await asyncio.Event().wait()  # the process is as good as dead

            async with cluster.bridged(before=stop_working):
                await asyncio.sleep(0.25)
            pod = await cluster.find("web")
            assert plan.is_gated(pod) == (required_of(pod) is None) == (not tolerated(pod, "sla"))
        async with cluster.bridged():
            pod = await cluster.until_released("web")
        assert tolerated(pod, "sla") == {"960"}
        assert len(await cluster.bridge_labels("a")) == 1


@pytest.mark.req("B.7")
async def test_of_two_copies_one_writes_and_the_other_takes_over() -> None:
    times = LeaseTimes(2.0, 1.0, 0.1)
    async with stock_cluster() as cluster:
        await cluster.node("a", {}, ["sla=960:NoExecute"])
        bridges = [Bridge(cluster.client_of(ADMIN_LIKE), namespace="default", lease_times=times) for _ in range(2)]
        work = [asyncio.create_task(each.run_elected()) for each in bridges]
        try:
            await cluster.create(gated("one", [SLA]))
            await cluster.until_released("one")
            assert sorted(each.is_ready for each in bridges) == [False, True]
            first = next(number for number, each in enumerate(bridges) if each.is_ready)
            work[first].cancel()
            await asyncio.gather(work[first], return_exceptions=True)
            await cluster.create(gated("two", [SLA]))
            assert tolerated(await cluster.until_released("two"), "sla") == {"960"}
            assert bridges[1 - first].is_ready
        finally:
            for task in work:
                task.cancel()
            await asyncio.gather(*work, return_exceptions=True)


ADMIN_LIKE = UserInfo(username="bridge", groups=["system:masters", "system:authenticated"])


@pytest.mark.req("B.7")
async def test_a_copy_whose_lease_another_took_writes_nothing_more() -> None:
    times = LeaseTimes(1.0, 0.5, 0.1)
    async with stock_cluster() as cluster:
        stolen = asyncio.Event()

        async def hang(request: Request) -> None:
            if request.method == "PATCH" and "/pods/" in request.path and not stolen.is_set():
                stolen.set()
                await asyncio.sleep(0.3)
            if stolen.is_set() and "/leases" in request.path:
                await asyncio.Event().wait()  # it cannot renew any more

        await cluster.node("a", {}, ["sla=960:NoExecute"])
        bridge = Bridge(cluster.client_of(ADMIN_LIKE, hang), namespace="default", lease_times=times)
        work = asyncio.create_task(bridge.run_elected())
        await cluster.create(gated("one", [SLA]))
        await stolen.wait()
        async with asyncio.timeout(20):
            assert await work is False
        await cluster.create(gated("two", [SLA]))
        await asyncio.sleep(0.3)
        assert plan.is_gated(await cluster.find("two"))
        async with cluster.bridged():
            await cluster.until_released("one")
            await cluster.until_released("two")


@pytest.mark.req("B.7")
async def test_a_pod_that_others_change_meanwhile_is_released_with_what_it_says_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A failed `test` of a patch is answered with 422, like what is not valid; it is no error and is tried again."""
    async with stock_cluster() as cluster:
        changes = [json.dumps([{**SLA, "value": value}]) for value in ("952", "954", "990")]

        async def interfere(request: Request) -> None:
            if request.method == "PATCH" and "/pods/" in request.path and changes:
                await cluster.annotate("web", {annotations.TOLERATIONS: changes.pop(0)})

        await cluster.node("a", {}, ["sla=960:NoExecute"])
        await cluster.node("b", {}, ["sla=995:NoExecute"])
        with caplog.at_level(logging.INFO):
            async with cluster.bridged(before=interfere):
                await cluster.create(gated("web", [SLA]))
                assert tolerated(await cluster.until_released("web"), "sla") == {"995"}
        assert not changes
        assert not [record for record in caplog.records if "bridge-pods" in record.getMessage()]


@pytest.mark.req("B.7")
async def test_annotations_changed_after_the_release_have_no_effect() -> None:
    async with stock_cluster() as cluster:
        await cluster.node("a", {"kernel": "6.1.0"}, ["sla=960:NoExecute"])
        async with cluster.bridged():
            await cluster.create(gated("web", [SLA], [newer_than("6.0")]))
            await cluster.until_released("web")
            wide = json.dumps([{"key": "sla", "operator": "Exists"}])
            await cluster.annotate("web", {annotations.TOLERATIONS: wide, annotations.NODE_AFFINITY: None})
            assert "make a new pod instead" in await cluster.until_reported("ConstraintsChanged")
            await cluster.taint("a", "sla=940:NoExecute")
            await cluster.node("b", {"kernel": "6.2.0"})
            await cluster.until_labelled("b", 1)  # what it was released with still counts
            assert tolerated(await cluster.find("web"), "sla") == {"960"}
            assert len(await cluster.bridge_labels("a")) == 1


@pytest.mark.req("B.7")
async def test_labels_that_users_edit_are_mended_and_tolerations_cannot_be_taken_away() -> None:
    async with stock_cluster() as cluster:
        await cluster.node("new", {"kernel": "6.1.0"}, ["sla=960:NoExecute"])
        await cluster.node("old", {"kernel": "5.4.0"})
        async with cluster.bridged():
            await cluster.create(gated("web", [SLA], [newer_than("6.0")]))
            await cluster.until_released("web")
            (label,) = await cluster.bridge_labels("new")
            await cluster.label("new", **{label: None})
            await cluster.until_labelled("new", 1)
            await cluster.label("old", **{label: "true"})
            await cluster.until_labelled("old", 0)
            await cluster.label("new", **{label: "false"})

            async def is_mended() -> bool:
                return (await cluster.client.get(Node, "new")).metadata.labels[label] == "true"

            await cluster.until(is_mended)
            body: Any = {"spec": {"tolerations": []}}
            with pytest.raises(errors.StatusError, match="existing toleration"):
                await cluster.client.patch(Pod, "web", body, "default", type=PatchType.MERGE)


@pytest.mark.req("B.7")
async def test_a_node_that_flaps_between_values_makes_no_pod_grow() -> None:
    async with stock_cluster() as cluster:
        await cluster.node("a", {"kernel": "6.1.0"}, ["sla=960:NoExecute"])
        async with cluster.bridged():
            await cluster.create(gated("web", [SLA], [newer_than("6.0")]))
            await cluster.until_released("web")
            for number in range(12):
                await cluster.taint("a", f"sla={970 if number % 2 else 960}:NoExecute")
                await cluster.label("a", kernel="5.4.0" if number % 2 else "6.1.0")
                await asyncio.sleep(0.02)
            await cluster.until(lambda: _tolerates(cluster, "web", "970"))
            await cluster.until_labelled("a", 0)
            assert sorted(each.value for each in (await cluster.find("web")).spec.tolerations if each.key == "sla") == [
                "960",
                "970",
            ]


@pytest.mark.req("B.8")
@pytest.mark.parametrize("restarted", [False, True], ids=["at once", "after a restart"])
@pytest.mark.parametrize("how", ["deleted", "ended"])
async def test_labels_that_no_pod_needs_are_removed(how: str, *, restarted: bool) -> None:
    async def end() -> None:
        if how == "deleted":
            await cluster.client.delete(Pod, "one", "default")
        else:
            body = {"status": {"phase": "Succeeded"}}
            await cluster.client.patch(Pod, "one", body, "default", type=PatchType.MERGE, subresource="status")

    async with stock_cluster() as cluster:
        await cluster.node("a", {"kernel": "6.1.0"})
        async with cluster.bridged():
            for name, version in (("one", "6.0"), ("two", "5.0"), ("three", "5.0")):
                await cluster.create(gated(name, (), [newer_than(version)]))
                await cluster.until_released(name)
            assert len(await cluster.bridge_labels("a")) == 2
            if not restarted:
                await end()
                await cluster.until_labelled("a", 1)
        if restarted:
            await end()
            async with cluster.bridged():
                await cluster.until_labelled("a", 1)


@pytest.mark.req("B.3", "B.7")
async def test_a_node_that_is_being_deleted_delays_no_pod() -> None:
    async with stock_cluster() as cluster:
        await cluster.node("a", {"kernel": "6.1.0"})
        await cluster.client.patch(Node, "a", {"metadata": {"finalizers": ["example.org/wait"]}}, type=PatchType.MERGE)
        await cluster.client.delete(Node, "a")
        async with cluster.bridged():
            await cluster.create(gated("web", (), [newer_than("6.0")]))
            await cluster.until_released("web")


@pytest.mark.req("B.9")
async def test_what_a_cluster_forbids_is_reported_and_the_bridge_continues_once_it_is_allowed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    user = UserInfo(username="bridge", groups=["system:authenticated"])
    async with stock_cluster() as cluster:
        bridge = Bridge(cluster.client_of(user), namespace="default")
        work = asyncio.create_task(bridge.run())
        said = "this cluster lacks the right to patch pods: without it no pod is released"

        async def is_said() -> bool:
            return said in caplog.text

        await cluster.until(is_said)
        assert "this cluster lacks the right to list nodes" in caplog.text
        assert not bridge.is_ready
        async with asyncio.timeout(20):
            await cluster.client.create(ALLOWED)
            await bridge.wait_until_ready()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


ALLOWED = made(
    ClusterRoleBinding,
    {
        "metadata": {"name": "bridge"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "User", "name": "bridge", "apiGroup": "rbac.authorization.k8s.io"}],
    },
)


@pytest.mark.req("B.9", "B.10")
async def test_what_a_cluster_lacks_is_listed() -> None:
    async with stock_cluster() as cluster:
        user = UserInfo(username="bridge", groups=["system:authenticated"])
        lacking = [each async for each in check(cluster.client_of(user), "default") if each.is_needed]
        assert {each.what for each in lacking if each.is_there} == {lacking[0].what}  # the version
        allowed = [each async for each in check(cluster.client, "default") if each.is_needed]
        assert all(each.is_there for each in allowed)


@pytest.mark.req("B.3", "B.11")
async def test_a_thousand_constraints_cost_a_node_few_writes_and_the_idle_bridge_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_module, "MAX_LABELS_PER_NAMESPACE", 1000)
    async with stock_cluster() as cluster:
        await cluster.node("a", {"kernel": "6.1.0"})
        await cluster.node("b", {"kernel": "5.4.0"})
        for number in range(1000):
            await cluster.create(gated(f"p{number}", (), [newer_than(f"5.{number}")]))
        async with cluster.bridged():
            await cluster.until_labelled("a", 1000)
            await cluster.until_labelled("b", 4)

            async def are_written() -> bool:
                return (
                    len([path for method, path in cluster.requests if method == "PATCH" and "/pods/" in path]) >= 1000
                )

            await cluster.until(are_written)
            for number in range(1000):
                await cluster.until_released(f"p{number}")
            writes = [path for method, path in cluster.requests if method == "PATCH"]
            assert len([path for path in writes if "/nodes/" in path]) <= 6
            assert len([path for path in writes if "/pods/" in path]) <= 1010
            cluster.requests.clear()
            await cluster.client.patch(Node, "a", {"metadata": {"annotations": {"beat": "1"}}}, type=PatchType.MERGE)
            await asyncio.sleep(0.4)
            assert [each for each in cluster.requests if each[0] != "GET"] == []
            await cluster.label("b", kernel="5.500.0")
            await cluster.until_labelled("b", 500)
            assert [each for each in cluster.requests if each[0] == "PATCH"] == [("PATCH", "/api/v1/nodes/b")]


@pytest.mark.req("B.6")
async def test_a_namespace_may_put_few_labels_on_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "MAX_LABELS_PER_NAMESPACE", 2)
    async with stock_cluster() as cluster:
        await cluster.node("a", {"kernel": "9.0.0"})
        async with cluster.bridged():
            for number in range(2):
                await cluster.create(gated(f"p{number}", required=[newer_than(f"{number}.0")]))
                await cluster.until_released(f"p{number}")
            await cluster.create(gated("beyond", required=[newer_than("5.0")]))
            assert "2 distinct node constraints" in await cluster.until_reported("TooManyConstraints")
            assert plan.is_gated(await cluster.find("beyond"))
            assert len(await cluster.bridge_labels("a")) == 2
            await cluster.client.delete(Pod, "p0", "default", grace_period_seconds=0)
            await cluster.until_released("beyond")
            await cluster.until_labelled("a", 2)


@pytest.mark.req("B.6", "S.6")
async def test_pods_that_pretend_to_be_released_put_few_labels_on_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user may take the gate away, and can compute the labels that a released pod has in its affinity."""
    monkeypatch.setattr(cluster_module, "MAX_LABELS_PER_NAMESPACE", 2)
    async with stock_cluster() as cluster:
        await cluster.node("a", {"kernel": "9.0.0"})
        async with cluster.bridged():
            for number in range(8):
                pod = gated(f"p{number}", required=[newer_than(f"{number}.0")])
                changes = plan.release(pod, plan.ClusterFacts([], {}))
                affinity = next(each["value"] for each in changes if each["path"] == "/spec/affinity")
                tree = codec.to_tree(pod)
                tree["metadata"]["annotations"][plan.RELEASED] = plan.digest(pod)
                tree["spec"] |= {"affinity": affinity, "schedulingGates": []}
                await cluster.create(made(Pod, tree))
            assert "4 distinct node constraints" in await cluster.until_reported("TooManyConstraints")
            await cluster.until_labelled("a", 4)
            await cluster.client.delete(Pod, "p0", "default", grace_period_seconds=0)
            await cluster.until_labelled("a", 4)
            assert len(await cluster.bridge_labels("a")) == 4
