"""The hot loop that KEP-5471 warns of: a gate is switched off again, and the server refuses the pods of a template.

A Deployment with `Gt` in a toleration is stored while the gate is on. After the rollback its pods run on, but every one
that has to be replaced is refused. Whatever happens around it, the controller must not keep the server busy.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from mooring.api.apps_v1 import DaemonSet, Deployment, ReplicaSet, StatefulSet
from mooring.api.batch_v1 import CronJob, Job
from mooring.api.core_v1 import Node, Pod
from mooring.api.events_v1 import Event
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.resource_v1 import ResourceClaim, ResourceClaimTemplate
from mooring.apiserver.options import ServerConfig
from mooring.base import component
from mooring.base.clock import SystemClock
from mooring.client import Backoff, PatchType
from mooring.controllers.options import ControllerOptions
from mooring.testing.clock import MockClock
from promql import evaluate
from workload_cluster import Cluster, Tree, cluster, template, workload

pytestmark = pytest.mark.req("5471.12")
CONTROLLERS = ["deployment", "replicaset"]
GATE = "TaintTolerationComparisonOperators"
LIKE_KUBERNETES = ControllerOptions(rejection_backoff=Backoff(initial=0.0, maximum=0.0))
MINUTES = 10
NEWS_SECONDS = 5


def demanding() -> Tree:
    """Return a workload whose pods the server refuses when the gate is off."""
    made = workload(replicas=3)
    tolerations = [{"key": "sla", "operator": "Gt", "value": "900", "effect": "NoSchedule"}]
    made["template"] = template(tolerations=tolerations)
    return made


@asynccontextmanager
async def after_rollback(folder: Path, options: ControllerOptions | None = None) -> AsyncIterator[Cluster]:
    """Yield a cluster in which the gate was on, and is off now; one of three pods is gone."""
    on = ServerConfig(data_dir=folder)
    async with cluster(folder, CONTROLLERS, config=on) as c:
        await c.create(Deployment, "web", demanding())

        async def is_rolled_out() -> bool:
            return (await c.get(Deployment, "web")).status.available_replicas == 3

        await c.until(is_rolled_out)
    off = ServerConfig(data_dir=folder, component=component.resolve(gates=f"{GATE}=false"))
    clock = MockClock()
    async with cluster(folder, CONTROLLERS, config=off, clock=clock, options=options) as c:
        await c.rest()
        await c.client.delete(Pod, (await c.pods())[0].metadata.name, "default")
        await c.rest()
        yield c


async def attempts_while_time_passes(c: Cluster) -> int:
    """How many pods are tried in ten minutes in which the other pods keep telling something."""
    assert isinstance(c.clock, MockClock)
    pod = (await c.pods())[0]
    for number in range(MINUTES * 60 // NEWS_SECONDS):
        body = {"metadata": {"annotations": {"news": str(number)}}}
        await c.client.patch(Pod, pod.metadata.name, body, "default")
        await c.settle()
        await c.clock.run(NEWS_SECONDS)
    await c.rest()
    return c.transport.requests["POST pods"]


async def test_the_server_is_left_alone_ever_longer(tmp_path: Path) -> None:
    async with after_rollback(tmp_path / "with") as c:
        with_backoff = await attempts_while_time_passes(c)
    async with after_rollback(tmp_path / "without", LIKE_KUBERNETES) as c:
        without = await attempts_while_time_passes(c)
    assert 5 <= with_backoff <= 12  # after 1, 2, 4 … 256, 300 s, each up to half as long again
    assert without >= MINUTES * 60 / NEWS_SECONDS


async def test_one_event_is_recorded_and_the_status_says_why(tmp_path: Path) -> None:
    async with after_rollback(tmp_path) as c:
        await attempts_while_time_passes(c)
        (owner,) = await c.all(ReplicaSet)
        (failure,) = owner.status.conditions
        assert (failure.type, failure.status, failure.reason) == ("ReplicaFailure", "True", "FailedCreate")
        assert "tolerations[0].operator" in failure.message
        deployment = await c.get(Deployment, "web")
        reported = {each.type: each.reason for each in deployment.status.conditions}
        assert reported["ReplicaFailure"] == "FailedCreate"
        assert deployment.status.available_replicas == 2
        await c.stop()  # writes the series as it stands
        (event,) = [event for event in await c.all(Event) if event.reason == "FailedCreate"]
        assert event.note.startswith("Error creating: Pod ")
        assert event.series is not None
        assert event.series.count >= 5
        assert c.controllers is not None
        count = c.controllers.context.registry.get_sample_value
        rejected = count("mooring_controller_rejected_creates_total", {"controller": "replicaset"})
        assert rejected == c.transport.requests["POST pods"]
        held = count("mooring_controller_held_creates_total", {"controller": "replicaset"})
        assert held is not None
        assert held > 50
        page = generate_latest(c.controllers.context.registry).decode()
        alert = evaluate("rate(mooring_controller_rejected_creates_total[5m]) > 0", [(0.0, ""), (300.0, page)])
        assert {dict(labels)["controller"] for labels in alert} == {"replicaset"}


async def test_a_replica_set_that_is_refused_is_tried_ever_more_slowly_too(tmp_path: Path) -> None:
    async with after_rollback(tmp_path) as c:
        await c.patch(Deployment, "web", {"template": {"metadata": {"annotations": {"restarted": "yes"}}}})
        await attempts_while_time_passes(c)
        assert 5 <= c.transport.requests["POST replicasets"] <= 12
        status = (await c.get(Deployment, "web")).status
        reported = {each.type: (each.status, each.reason) for each in status.conditions}
        assert reported["Progressing"][0] == "False"


async def test_another_template_is_tried_at_once(tmp_path: Path) -> None:
    async with after_rollback(tmp_path) as c:
        await attempts_while_time_passes(c)
        await c.patch(Deployment, "web", {"template": {"spec": {"tolerations": None}}})
        await c.rest()
        status = (await c.get(Deployment, "web")).status
        assert (status.updated_replicas, status.available_replicas, status.replicas) == (3, 3, 3)
        assert "ReplicaFailure" not in {each.type for each in status.conditions}


async def test_when_the_gate_is_on_again_the_pods_come_back_within_five_minutes(tmp_path: Path) -> None:
    async with after_rollback(tmp_path) as c:
        await attempts_while_time_passes(c)
    clock = MockClock()
    async with cluster(tmp_path, CONTROLLERS, config=ServerConfig(data_dir=tmp_path), clock=clock) as c:
        await c.rest()
        await clock.run(301)
        await c.rest()
        assert (await c.get(Deployment, "web")).status.available_replicas == 3
        (owner,) = await c.all(ReplicaSet)
        assert owner.status.conditions == []


async def test_every_sort_of_workload_backs_off(tmp_path: Path) -> None:
    names = [*CONTROLLERS, "statefulset", "daemonset", "job", "cronjob"]
    wanted = demanding()["template"]
    async with cluster(tmp_path, names, config=ServerConfig(data_dir=tmp_path)) as c:
        await c.client.create(Node(metadata=ObjectMeta(name="n")))
        await c.client.patch(Node, "n", {"spec": {"taints": None}}, type=PatchType.MERGE)
        selector = {"matchLabels": {"app": "web"}}
        await c.create(
            StatefulSet, "db", {"replicas": 2, "selector": selector, "template": wanted, "serviceName": "db"}
        )
        await c.create(DaemonSet, "ds", {"selector": selector, "template": wanted})
        once = {"metadata": wanted["metadata"], "spec": {**wanted["spec"], "restartPolicy": "Never"}}
        await c.create(Job, "job", {"template": once, "parallelism": 2, "completions": 4})
        await c.create(CronJob, "cron", {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": once}}})
        await c.create(Deployment, "web", demanding())
        await c.rest()
    off = ServerConfig(data_dir=tmp_path, component=component.resolve(gates=f"{GATE}=false"))
    clock = MockClock(SystemClock().now())  # CronJobs count from when they were made
    async with cluster(tmp_path, names, config=off, clock=clock) as c:
        for pod in await c.pods():
            await c.client.delete(Pod, pod.metadata.name, "default")
        await c.rest()
        for _ in range(MINUTES):
            await clock.run(60)
            await c.rest(0.05)
        assert c.controllers is not None
        for name in ("replicaset", "statefulset", "daemonset", "job", "cronjob"):
            count = c.controllers.context.registry.get_sample_value(
                "mooring_controller_rejected_creates_total", {"controller": name}
            )
            assert count is not None
            assert 4 <= count <= 12, name


def using(template: str) -> Tree:
    """Return the spec of a pod that wants a claim of a template."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": template}]
    return {"containers": [{"name": "c", "image": "i"}], "resourceClaims": claims}


async def test_claims_of_a_template_are_held_back_and_pods_say_why(tmp_path: Path) -> None:
    tolerations = [{"key": "health", "operator": "Gt", "value": "900"}]
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "tolerations": tolerations}}
    names = ["resourceclaim"]
    async with cluster(tmp_path, names, config=ServerConfig(data_dir=tmp_path)) as c:
        await c.create(ResourceClaimTemplate, "tolerant", {"spec": {"devices": {"requests": [request]}}})
    off = ServerConfig(data_dir=tmp_path, component=component.resolve(gates=f"{GATE}=false"))
    clock = MockClock()
    async with cluster(tmp_path, names, config=off, clock=clock) as c:
        for number in range(3):
            await c.create(Pod, f"web-{number}", using("tolerant"))
        await c.rest()
        await attempts_while_time_passes(c)
        assert 5 <= c.transport.requests["POST resourceclaims"] <= 12
        assert c.controllers is not None
        count = c.controllers.context.registry.get_sample_value
        rejected = count("mooring_controller_rejected_creates_total", {"controller": "resourceclaim"})
        assert rejected == c.transport.requests["POST resourceclaims"]
        for pod in await c.pods():
            (reported,) = [each for each in pod.status.conditions if each.type == "mooring.dev/ResourceClaimsCreated"]
            assert (reported.status, reported.reason) == ("False", "FailedResourceClaimCreation")
            assert 'tolerations[0].operator: Unsupported value: "Gt"' in reported.message
        await c.stop()
        notes = {event.note for event in await c.all(Event) if event.reason == "FailedResourceClaimCreation"}
        assert {note[:22] for note in notes} == {"PodResourceClaim gpu: "}
    async with cluster(tmp_path, names, config=ServerConfig(data_dir=tmp_path), clock=MockClock()) as c:
        await c.rest()
        assert len(await c.all(ResourceClaim)) == 3
        conditions = [each for pod in await c.pods() for each in pod.status.conditions]
        assert {each.status for each in conditions if each.type == "mooring.dev/ResourceClaimsCreated"} == {"True"}


async def test_another_claim_template_is_tried_at_once(tmp_path: Path) -> None:
    tolerations = [{"key": "health", "operator": "Gt", "value": "900"}]
    refused = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "tolerations": tolerations}}
    taken = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    names = ["resourceclaim"]
    async with cluster(tmp_path, names, config=ServerConfig(data_dir=tmp_path)) as c:
        await c.create(ResourceClaimTemplate, "tolerant", {"spec": {"devices": {"requests": [refused]}}})
    off = ServerConfig(data_dir=tmp_path, component=component.resolve(gates=f"{GATE}=false"))
    async with cluster(tmp_path, names, config=off, clock=MockClock()) as c:
        await c.create(Pod, "web", using("tolerant"))
        await c.rest()
        await c.client.delete(ResourceClaimTemplate, "tolerant", "default")
        await c.create(ResourceClaimTemplate, "tolerant", {"spec": {"devices": {"requests": [taken]}}})
        await c.rest()
        assert len(await c.all(ResourceClaim)) == 1
