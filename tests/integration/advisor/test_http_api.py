"""The advisor's API: what it answers, who may ask, and what a question may cost."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from mooring.advisor.audit import ask
from mooring.advisor.http_api import MOST_NODES, MOST_PODS, AdvisorApi, AnswerLimits
from mooring.advisor.simulate import Settings
from mooring.api import errors
from mooring.api.advisor_v1 import KINDS
from mooring.api.authentication_v1 import UserInfo
from mooring.api.core_v1 import Pod
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.rbac_v1 import PolicyRule, Role, RoleBinding, RoleRef, Subject
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.messages.routes import ResourceRoute
from mooring.base.known_gates import COMPARISON_OPERATORS
from mooring.store.memory import MemoryStore
from mooring.testing.control_plane import RunningControlPlane

pytestmark = pytest.mark.req("S.5")
AUDITS = next(kind for kind in KINDS if kind.plural == "audits")
BASE = "/apis/advisor.mooring.dev/v1"
EXPLANATION = f"{BASE}/namespaces/default/schedulingexplanations"
WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: c, image: c}]
      tolerations: [{key: sla, operator: Gt, value: "950"}]
"""
NODE = """\
apiVersion: v1
kind: Node
metadata: {name: silver, annotations: {simulation.mooring.dev/node: "true"}}
spec: {taints: [{key: sla, value: "940", effect: NoSchedule}]}
"""


@pytest.fixture(scope="module")
def plane() -> Iterator[RunningControlPlane]:
    with RunningControlPlane(without=("scheduler",)) as running:
        running.create(NODE)
        running.create(WEB)
        running.wait_until(lambda: running.list(Pod))
        yield running


def asked(plane: RunningControlPlane, path: str, *, method: str = "GET", body: Any = None) -> Any:
    """Return the answer to an administrator; raises the server's error."""
    content = json.dumps(body).encode() if body is not None else b""
    where, _, query = path.partition("?")
    pairs = [(name, value) for name, _, value in (part.partition("=") for part in query.split("&") if part)]
    answer = plane.run(plane.client.raw(method, where, query=pairs, body=content))
    return json.loads(answer.body)


def test_an_explanation_is_a_read_of_a_pod(plane: RunningControlPlane) -> None:
    name = plane.list(Pod)[0].metadata.name
    found = asked(plane, f"{EXPLANATION}/{name}")
    assert (found["apiVersion"], found["kind"]) == ("advisor.mooring.dev/v1", "SchedulingExplanation")
    assert found["metadata"] == {"name": name, "namespace": "default"}
    assert found["state"] == "Unschedulable"
    assert "sla" in json.dumps(found["refusals"])


def test_a_workload_can_be_explained_too(plane: RunningControlPlane) -> None:
    found = asked(plane, f"{EXPLANATION}/web?kind=deployment")
    assert found["state"] == "Unschedulable"


def test_an_inventory_and_an_audit(plane: RunningControlPlane) -> None:
    inventory = asked(plane, f"{BASE}/audits/cluster")
    assert inventory["kind"] == "Audit"
    assert {f["effect"] for f in inventory["findings"]} == {"Unaffected"}
    found = asked(plane, f"{BASE}/audits/cluster?disableGate={COMPARISON_OPERATORS}")
    assert {(f["object"]["kind"], f["effect"]) for f in found["findings"]} == {
        ("Deployment", "CreateRejected"),
        ("ReplicaSet", "CreateRejected"),
        ("Pod", "AlreadyPending"),
    }
    assert found["steps"][0]["commands"][0]["run"].startswith("kubectl patch -n default deployment web")


def test_a_simulation_of_this_cluster(plane: RunningControlPlane) -> None:
    scenario = {
        "apiVersion": "advisor.mooring.dev/v1",
        "kind": "Scenario",
        "steps": [{"taint": [{"nodes": ["silver"], "key": "sla", "value": "960", "effect": "NoSchedule"}]}],
    }
    found = asked(plane, f"{BASE}/simulations", method="POST", body=scenario)
    assert found["kind"] == "Simulation"
    assert found["counts"]["pending"] == 0


WRONG: dict[str, tuple[str, str, Any, type[errors.StatusError], str]] = {
    "a pod that is not there": ("GET", f"{EXPLANATION}/nobody", None, errors.NotFound, "nobody"),
    "a kind that makes no pods": ("GET", f"{EXPLANATION}/web?kind=service", None, errors.NotFound, "service"),
    "another audit": ("GET", f"{BASE}/audits/other", None, errors.NotFound, 'audits.advisor.mooring.dev "other"'),
    "a list of audits": ("GET", f"{BASE}/audits", None, errors.MethodNotAllowed, "list is not supported"),
    "a watch": ("GET", f"{BASE}/audits?watch=1", None, errors.MethodNotAllowed, "watch is not supported"),
    "to delete an explanation": ("DELETE", f"{EXPLANATION}/x", None, errors.MethodNotAllowed, "delete is not"),
    "a gate that is not there": (
        "GET",
        f"{BASE}/audits/cluster?disableGate=Nothing",
        None,
        errors.BadRequest,
        "unrecognized feature gate: Nothing",
    ),
    "a version that is none": (
        "GET",
        f"{BASE}/audits/cluster?toEmulationVersion=x",
        None,
        errors.BadRequest,
        "is not a version",
    ),
    "an API that is none": (
        "GET",
        f"{BASE}/audits/cluster?toRuntimeConfig=nothing",
        None,
        errors.BadRequest,
        '"nothing" names no API',
    ),
    "a parameter that is not there": (
        "GET",
        f"{BASE}/audits/cluster?disable=x",
        None,
        errors.BadRequest,
        "there is no query parameter disable",
    ),
    "no scenario": ("POST", f"{BASE}/simulations", {}, errors.BadRequest, "expected a Scenario"),
    "a scenario with files": (
        "POST",
        f"{BASE}/simulations",
        {
            "apiVersion": "advisor.mooring.dev/v1",
            "kind": "Scenario",
            "steps": [{"add": [{"file": "/etc/passwd"}]}],
        },
        errors.BadRequest,
        "files cannot be read here",
    ),
    "a scenario of another cluster": (
        "POST",
        f"{BASE}/simulations",
        {"apiVersion": "advisor.mooring.dev/v1", "kind": "Scenario", "cluster": {"dataDir": "/"}},
        errors.BadRequest,
        "leave it out",
    ),
    "a scenario with too many nodes": (
        "POST",
        f"{BASE}/simulations",
        {
            "apiVersion": "advisor.mooring.dev/v1",
            "kind": "Scenario",
            "steps": [{"addNodes": [{"count": MOST_NODES + 1}]}],
        },
        errors.BadRequest,
        "adds 10001",
    ),
    "a scenario with too many pods": (
        "POST",
        f"{BASE}/simulations",
        {
            "apiVersion": "advisor.mooring.dev/v1",
            "kind": "Scenario",
            "steps": [
                {
                    "add": [
                        {
                            "replicas": MOST_PODS + 1,
                            "objects": [
                                {
                                    "apiVersion": "v1",
                                    "kind": "Pod",
                                    "metadata": {"name": "p"},
                                    "spec": {"containers": [{"name": "c", "image": "c"}]},
                                }
                            ],
                        }
                    ]
                }
            ],
        },
        errors.BadRequest,
        "adds 50001",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_questions_are_reported(plane: RunningControlPlane, name: str) -> None:
    method, path, body, error, text = WRONG[name]
    with pytest.raises(error) as caught:
        asked(plane, path, method=method, body=body)
    assert text in str(caught.value.status.message)


def test_discovery_and_openapi_show_it(plane: RunningControlPlane) -> None:
    groups = {group["name"] for group in asked(plane, "/apis")["groups"]}
    assert "advisor.mooring.dev" in groups
    found = {each["name"]: each["verbs"] for each in asked(plane, BASE)["resources"]}
    assert found == {"audits": ["get"], "schedulingexplanations": ["get"], "simulations": ["create"]}
    paths = asked(plane, "/openapi/v3/apis/advisor.mooring.dev/v1")["paths"]
    assert f"{BASE}/namespaces/{{namespace}}/schedulingexplanations/{{name}}" in paths


# -- who may ask


def as_user(plane: RunningControlPlane, name: str, path: str) -> Response:
    user = UserInfo(username=name, groups=["system:authenticated"])
    return plane.run(plane._plane.server.app.respond(Request(method="GET", path=path, user=user)))


def test_rights_are_those_of_any_resource(plane: RunningControlPlane) -> None:
    path = f"{EXPLANATION}/web"
    refused = as_user(plane, "jane", path)
    assert refused.status == 403
    said = json.loads(refused.body)["message"]  # type: ignore[arg-type] # errors are no streams
    assert 'cannot get resource "schedulingexplanations" in API group "advisor.mooring.dev"' in said
    plane.create(
        Role(
            metadata=ObjectMeta(name="asks", namespace="default"),
            rules=[PolicyRule(api_groups=["advisor.mooring.dev"], resources=["schedulingexplanations"], verbs=["get"])],
        ),
        RoleBinding(
            metadata=ObjectMeta(name="asks", namespace="default"),
            role_ref=RoleRef(api_group="rbac.authorization.k8s.io", kind="Role", name="asks"),
            subjects=[Subject(kind="User", name="jane", api_group="rbac.authorization.k8s.io")],
        ),
    )
    assert as_user(plane, "jane", path).status == 404  # there is no pod of that name, and she may know
    assert as_user(plane, "jane", f"{BASE}/audits/cluster").status == 403


# -- what it may cost


@dataclass
class Slow:
    """An advisor whose answers take as long as a test wants."""

    api: AdvisorApi
    go_on: threading.Event = field(default_factory=threading.Event)

    async def ask(self, user: str) -> Response:
        def work(*_: Any) -> dict[str, str]:
            self.go_on.wait(10)
            return {"done": "yes"}

        request = Request(method="GET", path="/", user=UserInfo(username=user))
        return await self.api.answer(request, ResourceRoute(AUDITS, name="cluster"), work)

    async def answers(self, user: str) -> bool:
        try:
            return (await self.ask(user)).status == 200
        except (errors.TooManyRequests, errors.Timeout):
            return False


async def slow_advisor(**costs: Any) -> Slow:
    store = await MemoryStore.open()
    return Slow(AdvisorApi(store=store, ask=ask, settings=Settings(), costs=AnswerLimits(**costs)))


def test_a_user_asks_one_thing_at_a_time() -> None:
    async def run() -> None:
        slow = await slow_advisor(seconds=5, at_once=2)
        first = asyncio.create_task(slow.ask("jane"))
        await asyncio.sleep(0.05)
        with pytest.raises(errors.TooManyRequests, match="wait for that answer"):
            await slow.ask("jane")
        second = asyncio.create_task(slow.ask("joe"))
        await asyncio.sleep(0.05)
        with pytest.raises(errors.TooManyRequests, match="busy"):
            await slow.ask("ann")
        slow.go_on.set()
        assert (await first).status == (await second).status == 200
        assert (await slow.ask("jane")).status == 200

    asyncio.run(run())


def test_the_place_is_kept_until_the_work_has_ended() -> None:
    async def run() -> None:
        slow = await slow_advisor(seconds=0.05, at_once=2)
        with pytest.raises(errors.Timeout, match=r"no answer within 0.05s"):
            await slow.ask("jane")
        with pytest.raises(errors.TooManyRequests):
            await slow.ask("jane")
        slow.go_on.set()
        async with asyncio.timeout(20):
            while not await slow.answers("jane"):  # noqa: ASYNC110 - a thread ends without notice
                await asyncio.sleep(0.01)

    asyncio.run(run())


def test_the_server_answers_others_meanwhile(plane: RunningControlPlane) -> None:
    """While a simulation of thousands of pods is on its way, reads take no longer than a moment."""
    container = {"name": "c", "image": "c", "resources": {"requests": {"cpu": "10m"}}}
    scenario = {
        "apiVersion": "advisor.mooring.dev/v1",
        "kind": "Scenario",
        "steps": [
            {
                "addNodes": [{"count": 500}],
                "add": [
                    {
                        "replicas": 3000,
                        "objects": [
                            {
                                "apiVersion": "v1",
                                "kind": "Pod",
                                "metadata": {"name": "p"},
                                "spec": {"containers": [container]},
                            }
                        ],
                    }
                ],
            }
        ],
    }
    body = json.dumps(scenario).encode()
    times = plane.run(_reads_during(plane, lambda: plane.client.raw("POST", f"{BASE}/simulations", body=body)))
    assert len(times) > 3
    assert max(times) < max(1.0, sum(times) / 2)


async def _reads_during(plane: RunningControlPlane, question: Callable[[], Any]) -> list[float]:
    """How much processor time of this process passed during each read, while a question was answered."""
    working = asyncio.create_task(question())
    times = []
    while not working.done():
        began = time.process_time()  # not the clock: other processes may be busy
        await asyncio.sleep(0.01)
        await plane.client.raw("GET", "/api/v1/nodes/silver")
        times.append(time.process_time() - began)
    assert (await working).status == 201
    return times
