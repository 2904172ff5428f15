"""The client against the real server, in the same process and over HTTPS: the same calls, the same outcomes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from free_ports import free_port
from mooring.api import errors
from mooring.api.apps_v1 import Deployment, DeploymentSpec
from mooring.api.authentication_v1 import SelfSubjectReview, TokenRequestSpec, UserInfo
from mooring.api.base import copy_of
from mooring.api.coordination_v1 import Lease
from mooring.api.core_v1 import (
    Binding,
    ConfigMap,
    Container,
    Namespace,
    Node,
    ObjectReference,
    Pod,
    PodCondition,
    PodSpec,
    PodTemplateSpec,
    ServiceAccount,
)
from mooring.api.events_v1 import Event
from mooring.api.meta_v1 import LabelSelector, ObjectMeta, Status
from mooring.apiserver.in_process import handler
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer
from mooring.client import (
    BulkBinding,
    Change,
    Client,
    ConnectError,
    EventRecorder,
    Informers,
    LeaderElection,
    LeaderElector,
    LeaseTimes,
    PatchType,
    connect,
    user_agent,
)
from mooring.client.credentials import Credential
from mooring.client.https import HttpsTransport
from mooring.client.in_process import InProcessTransport
from mooring.client.kubeconfig import Connection, load
from mooring.client.transport import Request

pytestmark = pytest.mark.req("S.1")
ADMIN = UserInfo(username="kubernetes-admin", groups=["system:masters", "system:authenticated"])


@asynccontextmanager
async def running(folder: Path, port: int = 0, *, ephemeral: bool = True) -> AsyncIterator[ApiServer]:
    server = await ApiServer.open(ServerConfig(data_dir=folder, port=port, ephemeral=ephemeral))
    try:
        await server.listen()
        yield server
    finally:
        await server.close()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with running(tmp_path) as started:
        yield started


@pytest.fixture(params=["in process", "over https", "in groups"])
async def client(request: pytest.FixtureRequest, server: ApiServer) -> AsyncIterator[Client]:
    if request.param == "in process":
        made = Client(InProcessTransport(handler(server.app, ADMIN)), user_agent="test", scheme=server.scheme)
    else:
        agent = user_agent("mooring-scheduler", "1.37")
        made = connect(server.kubeconfig(), user_agent=agent, grouped=request.param == "in groups")
    async with made:
        yield made


async def until(condition: Callable[[], bool], seconds: float = 15) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - the condition is about another's state
            await asyncio.sleep(0.01)


def pod(name: str = "web", **labels: str) -> Pod:
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", labels=labels),
        spec=PodSpec(containers=[Container(name="c", image="nginx")]),
    )


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data=data)


async def test_create_get_update_delete(client: Client) -> None:
    created = await client.create(pod(app="web"))
    assert (created.metadata.uid != "", created.spec.dns_policy) == (True, "ClusterFirst")
    assert await client.get(Pod, "web", "default") == created
    changed = copy_of(created)
    changed.metadata.labels["tier"] = "front"
    updated = await client.update(changed)
    assert updated.metadata.labels == {"app": "web", "tier": "front"}
    with pytest.raises(errors.Conflict):
        await client.update(changed)
    with pytest.raises(errors.AlreadyExists):
        await client.create(pod())
    await client.delete(Pod, "web", "default", uid=created.metadata.uid)
    with pytest.raises(errors.NotFound):
        await client.get(Pod, "web", "default")


async def test_a_dry_run_keeps_nothing(client: Client) -> None:
    await client.create(pod(), dry_run=True)
    with pytest.raises(errors.NotFound):
        await client.get(Pod, "web", "default")


async def test_what_breaks_the_rules_is_refused_with_causes(client: Client) -> None:
    bad = pod()
    bad.spec.containers = []
    with pytest.raises(errors.Invalid, match=r"spec\.containers: Required value") as caught:
        await client.create(bad)
    assert caught.value.status.details is not None
    assert caught.value.status.details.causes[0].field == "spec.containers"


async def test_lists_are_gathered_from_pages_and_can_be_selected(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mooring.client.client._PAGE_SIZE", 2)
    for index in range(7):
        await client.create(pod(f"p{index}", parity=str(index % 2)))
    listing = await client.list(Pod)
    assert [item.metadata.name for item in listing.items] == [f"p{index}" for index in range(7)]
    odd = await client.list(Pod, "default", label_selector="parity=1")
    assert [item.metadata.name for item in odd.items] == ["p1", "p3", "p5"]
    one = await client.list(Pod, field_selector="metadata.name=p2")
    assert [item.metadata.name for item in one.items] == ["p2"]
    page = await client.page(Pod, limit=2)
    assert (len(page.items), page.continue_ != "") == (2, True)


async def test_every_type_of_patch(client: Client) -> None:
    await client.create(config_map("c", a="1"))
    await client.patch(ConfigMap, "c", {"data": {"b": "2"}}, "default")
    await client.patch(ConfigMap, "c", {"data": {"a": None}}, "default", type=PatchType.MERGE)
    steps = [{"op": "add", "path": "/data/c", "value": "3"}]
    patched = await client.patch(ConfigMap, "c", steps, "default", type=PatchType.JSON)
    assert patched.data == {"b": "2", "c": "3"}


async def test_server_side_apply_and_its_conflicts(client: Client) -> None:
    await client.apply(config_map("c", a="1"), field_manager="one")
    with pytest.raises(errors.Conflict, match='conflict with "one"'):
        await client.apply(config_map("c", a="2"), field_manager="two")
    forced = await client.apply(config_map("c", a="2"), field_manager="two", force=True)
    assert forced.data == {"a": "2"}
    tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"b": "3"}}
    both = await client.patch(ConfigMap, "c", tree, "default", type=PatchType.APPLY, field_manager="three")
    assert both.data == {"a": "2", "b": "3"}


async def test_status_is_written_apart(client: Client) -> None:
    created = await client.create(pod())
    changed = copy_of(created)
    changed.status.phase = "Running"
    changed.status.conditions = [PodCondition(type="Ready", status="True")]
    changed.spec.active_deadline_seconds = 5
    updated = await client.update_status(changed)
    assert (updated.status.phase, updated.spec.active_deadline_seconds) == ("Running", None)


async def test_a_watch_reports_what_happens(client: Client) -> None:
    start = (await client.list(Pod)).resource_version
    await client.create(pod("a"))
    await client.delete(Pod, "a", "default")
    seen: list[str] = []
    async with client.watch(Pod, "default", resource_version=start, timeout_seconds=1) as watch:
        async for events in watch:
            seen += [event.type for event in events]
    assert seen[:2] == ["ADDED", "DELETED"]
    assert set(seen[2:]) <= {"BOOKMARK"}


async def test_a_watch_of_a_version_to_come_is_an_error(client: Client) -> None:
    with pytest.raises(errors.Timeout, match="Too large resource version"):
        async with client.watch(Pod, resource_version="999999999"):
            pass


async def test_binding_one_and_many(client: Client) -> None:
    await client.create(Node(metadata=ObjectMeta(name="n1")))
    for index in range(5):
        await client.create(pod(f"p{index}"))
    await client.bind("p0", "default", "n1")
    with pytest.raises(errors.Conflict, match="already assigned"):
        await client.bind("p0", "default", "n1")
    target = ObjectReference(kind="Node", name="n1")
    names = ["p0", "p1", "p2", "missing"]
    bindings = [Binding(metadata=ObjectMeta(name=name, namespace="default"), target=target) for name in names]
    outcomes = await BulkBinding(client).bind(bindings)
    assert [type(outcome) for outcome in outcomes] == [errors.Conflict, type(None), type(None), errors.NotFound]
    nodes = {item.metadata.name: item.spec.node_name for item in (await client.list(Pod)).items}
    assert nodes == {"p0": "n1", "p1": "n1", "p2": "n1", "p3": "", "p4": ""}


async def test_scale_evict_and_token(client: Client) -> None:
    labels = {"app": "web"}
    template = PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=pod().spec)
    spec = DeploymentSpec(replicas=1, selector=LabelSelector(match_labels=labels), template=template)
    await client.create(Deployment(metadata=ObjectMeta(name="web", namespace="default"), spec=spec))
    assert (await client.scale(Deployment, "web", "default", 4)).spec.replicas == 4
    assert (await client.get_scale(Deployment, "web", "default")).spec.replicas == 4
    await client.create(pod())
    await client.evict("web", "default")
    with pytest.raises(errors.NotFound):
        await client.get(Pod, "web", "default")
    await client.create(ServiceAccount(metadata=ObjectMeta(name="bot", namespace="default")))
    request = await client.create_token("bot", "default", TokenRequestSpec(expiration_seconds=3600))
    assert request.status.token.count(".") == 2


async def test_delete_collection(client: Client) -> None:
    for index in range(4):
        await client.create(pod(f"p{index}", parity=str(index % 2)))
    await client.delete_collection(Pod, "default", label_selector="parity=0")
    assert [item.metadata.name for item in (await client.list(Pod)).items] == ["p1", "p3"]


async def test_serves_and_raw(client: Client) -> None:
    assert await client.serves(Pod)
    assert await client.serves(Lease)
    assert b'"gitVersion":"v1.37.0"' in (await client.raw("GET", "/version")).body
    with pytest.raises(errors.NotFound):
        await client.raw("GET", "/nowhere")


async def test_namespaces_go_in_their_own_time(client: Client) -> None:
    await client.create(Namespace(metadata=ObjectMeta(name="prod")))
    answer = await client.delete(Namespace, "prod")
    assert isinstance(answer, Namespace | Status)


async def test_an_informer_agrees_with_the_server_after_many_changes(client: Client) -> None:
    informers = Informers(client)
    pods = informers.of(Pod)
    by_label = pods.index("tier", lambda obj: obj.metadata.labels.values())
    known: dict[str, str] = {}

    def hear(changes: Sequence[Change[Pod]]) -> None:
        for old, new in changes:
            if old is not None:
                known.pop(old.metadata.name)
            if new is not None:
                known[new.metadata.name] = new.metadata.resource_version

    pods.add_batch_handler(hear)
    async with informers:
        await informers.wait_for_sync()

        async def churn(worker: int) -> None:
            for index in range(12):
                name = f"p{worker}-{index}"
                await client.create(pod(name, tier="a"))
                patch = {"metadata": {"labels": {"tier": "b"}}}
                await client.patch(Pod, name, patch, "default", type=PatchType.MERGE)
                if index % 3 == 0:
                    await client.delete(Pod, name, "default")

        await asyncio.gather(*map(churn, range(4)))
        truth = {item.metadata.name: item.metadata.resource_version for item in (await client.list(Pod)).items}
        await until(lambda: known == truth)
        assert {obj.metadata.name: obj.metadata.resource_version for obj in pods.objects()} == truth
        assert (by_label.count("a"), by_label.count("b")) == (0, 32)


async def test_events_are_written_and_counted(client: Client) -> None:
    about = await client.create(pod())
    async with EventRecorder(client, "mooring-scheduler") as recorder:
        recorder.event(about, "Warning", "FailedScheduling", "0/1 nodes are available", action="Scheduling")
        await asyncio.sleep(0.2)
        recorder.event(about, "Warning", "FailedScheduling", "0/1 nodes are available", action="Scheduling")
    [event] = (await client.list(Event, "default")).items
    assert (event.regarding.name, event.series.count if event.series else 0) == ("web", 2)
    assert recorder.dropped == 0


@pytest.mark.req("4330.10")
async def test_a_leader_announces_its_version_and_hands_over(client: Client) -> None:
    short = LeaseTimes(duration=3, renew_deadline=2, retry_period=0.05)
    election = LeaderElection("mooring-scheduler", times=short)
    log: list[str] = []

    def candidate(name: str) -> asyncio.Task[bool]:
        elector = LeaderElector(client, election, identity=name, version="1.37")

        async def lead() -> None:
            log.append(name)
            await asyncio.sleep(60)

        return asyncio.ensure_future(elector.run(lead))

    first = candidate("first")
    await until(lambda: log == ["first"])
    second = candidate("second")
    await asyncio.sleep(0.3)  # it has asked some times
    assert log == ["first"]
    lease = await client.get(Lease, "mooring-scheduler", "kube-system")
    assert lease.metadata.annotations == {"mooring.dev/version": "1.37"}
    first.cancel()
    await until(lambda: log == ["first", "second"])
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)


# -- what only HTTPS has


@pytest.mark.req("S.2")
@pytest.mark.parametrize("ephemeral", [False, True], ids=["with its data", "without its data"])
async def test_an_informer_survives_a_restart_of_the_server(tmp_path: Path, ephemeral: bool) -> None:
    async with AsyncExitStack() as stack:
        port = free_port()
        first = await stack.enter_async_context(running(tmp_path, port, ephemeral=ephemeral))
        client = await stack.enter_async_context(connect(first.kubeconfig(), user_agent="test"))
        informers = Informers(client)
        pods = informers.of(Pod)
        await stack.enter_async_context(informers)
        for index in range(5):
            await client.create(pod(f"before-{index}"))
        await informers.wait_for_sync()
        await first.close()
        await stack.enter_async_context(running(tmp_path, port, ephemeral=ephemeral))
        await client.create(pod("after"))
        expected = {"after"} if ephemeral else {"after", *(f"before-{index}" for index in range(5))}
        await until(lambda: {obj.metadata.name for obj in pods.objects()} == expected)


@pytest.mark.req("S.6")
async def test_a_server_with_another_authority_is_not_trusted(server: ApiServer) -> None:
    honest = load(server.kubeconfig())
    with pytest.raises(ConnectError, match="its certificate is not trusted"):
        await Client(HttpsTransport(Connection(honest.server)), user_agent="t").get(Namespace, "default")
    insecure = Connection(honest.server, honest.credentials, insecure=True)
    async with Client(HttpsTransport(insecure), user_agent="t") as trusting:
        assert (await trusting.get(Namespace, "default")).metadata.name == "default"


@pytest.mark.req("S.6")
async def test_new_connections_resume_a_session_and_are_known_by_the_same_certificate(server: ApiServer) -> None:
    seen: list[tuple[bool, str]] = []
    transport = HttpsTransport(load(server.kubeconfig()))
    async with Client(transport, user_agent="t") as client:
        for _ in range(3):
            review = await client.create(SelfSubjectReview())
            (channel,) = transport._open
            seen.append(
                (channel.tls_object is not None and channel.tls_object.session_reused, review.status.user_info.username)
            )
            channel.abort()
            await until(lambda: not transport._open)
    assert seen == [(False, ADMIN.username), (True, ADMIN.username), (True, ADMIN.username)]


@pytest.mark.req("S.6")
async def test_neither_connection_nor_session_of_another_certificate_is_used(server: ApiServer) -> None:
    honest = load(server.kubeconfig())
    without_identity = HttpsTransport(Connection(honest.server, certificate_authority=honest.certificate_authority))
    admin = await honest.credentials.current()
    channel = await without_identity._open_connection(admin)
    without_identity._use_client_certificate(Credential())  # while a request is under way, the credentials change
    await channel.send_request(without_identity._serialize_request(Request("GET", "/version"), admin)).end
    without_identity._release_connection(channel)
    async with Client(without_identity, user_agent="t") as client:
        with pytest.raises((errors.Unauthorized, errors.Forbidden)):
            await client.get(Namespace, "default")


@pytest.mark.req("S.6")
async def test_without_credentials_there_is_nothing_to_see(server: ApiServer) -> None:
    honest = load(server.kubeconfig())
    without_identity = Connection(honest.server, certificate_authority=honest.certificate_authority)
    async with Client(HttpsTransport(without_identity), user_agent="t") as client:
        with pytest.raises((errors.Unauthorized, errors.Forbidden)):
            await client.get(Namespace, "default")


async def test_a_token_file_is_good_enough(server: ApiServer, tmp_path: Path) -> None:
    honest = load(server.kubeconfig())
    async with connect(server.kubeconfig(), user_agent="t") as admin:
        await admin.create(ServiceAccount(metadata=ObjectMeta(name="bot", namespace="default")))
        request = await admin.create_token("bot", "default", TokenRequestSpec())
        path = tmp_path / "token"
        path.write_text(request.status.token)
        config = server.kubeconfig().read_text()
        begin, _, _ = config.partition("users:")
        written = tmp_path / "with-token"
        written.write_text(
            f"{begin}users: [{{name: kubernetes-admin, user: {{tokenFile: token}}}}]\n"
            "contexts: [{name: bot, context: {cluster: mooring, user: kubernetes-admin}}]\ncurrent-context: bot\n"
        )
        async with connect(written, user_agent="t") as bot:
            body = (await bot.create(SelfSubjectReview())).status.user_info
            assert body.username == "system:serviceaccount:default:bot"
    assert honest.context == "mooring"
