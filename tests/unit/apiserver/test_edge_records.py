"""What a server records about its requests: metrics, access log, audit log, and versions that do not fit."""

import json
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.parser import text_string_to_metric_families

from app_calls import ADMIN, Caller, running
from mooring.api.coordination_v1 import VERSION_ANNOTATION, Lease
from mooring.api.meta_v1 import ObjectMeta
from mooring.apiserver.access.audit_log import AuditLog, AuditLogError
from mooring.apiserver.edge.calls import Client
from mooring.apiserver.edge.limits import Limits
from mooring.apiserver.messages.exchange import Exchange
from mooring.apiserver.messages.http import Request
from mooring.apiserver.options import for_component
from mooring.apiserver.requests.limiter import RequestLimiter
from mooring.apiserver.requests.metrics import ServerMetrics
from mooring.apiserver.requests.skew import SkewReporter
from mooring.apiserver.server import ApiServer
from mooring.base import component
from mooring.base.clock import SystemClock
from mooring.store.kv import Put
from mooring.store.memory import MemoryStore
from mooring.testing.clock import settle

PODS = "/api/v1/namespaces/default/pods"
POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with running(tmp_path, audit_log=tmp_path / "audit.jsonl") as found:
        yield found


@pytest.fixture
def call(server: ApiServer) -> Caller:
    return Caller(server.app, ADMIN)


async def _samples(call: Caller, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    page = (await call("GET", "/metrics")).body.decode()
    return {
        tuple(sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name == name
    }


async def _count(call: Caller, name: str = "apiserver_request_total", **labels: str) -> float:
    wanted = set(labels.items())
    return sum(value for found, value in (await _samples(call, name)).items() if wanted <= set(found))


@pytest.mark.req("5471.10")
@pytest.mark.parametrize(
    ("method", "path", "body", "labels"),
    [
        ("GET", PODS, None, {"verb": "LIST", "code": "200", "scope": "namespace", "resource": "pods"}),
        ("GET", "/api/v1/pods", None, {"verb": "LIST", "scope": "cluster"}),
        ("GET", f"{PODS}/none", None, {"verb": "GET", "code": "404", "scope": "resource"}),
        ("POST", PODS, POD, {"verb": "POST", "code": "201", "scope": "resource", "version": "v1", "group": ""}),
        ("POST", f"{PODS}?dryRun=All", POD, {"verb": "POST", "dry_run": "All"}),
        ("POST", PODS, {"metadata": {"name": "-"}}, {"verb": "POST", "code": "422"}),
        ("DELETE", f"{PODS}/none", None, {"verb": "DELETE", "code": "404"}),
        ("DELETE", PODS, None, {"verb": "DELETECOLLECTION", "code": "200"}),
        ("GET", "/apis/apps/v1/deployments", None, {"verb": "LIST", "group": "apps", "resource": "deployments"}),
        ("GET", f"{PODS}/none/status", None, {"verb": "GET", "subresource": "status"}),
        ("GET", "/version", None, {"verb": "GET", "resource": "", "scope": "", "code": "200"}),
    ],
)
async def test_a_request_is_counted(call: Caller, method: str, path: str, body: Any, labels: dict[str, str]) -> None:
    before = await _count(call, **labels, component="apiserver")
    await call(method, path, body)
    extra = 1 if labels.get("resource") == "" else 0  # asking for the metrics is a request like any other
    assert await _count(call, **labels, component="apiserver") == before + 1 + extra


@pytest.mark.req("5471.10")
async def test_durations_sizes_and_requests_under_way_are_shown(call: Caller) -> None:
    await call("GET", PODS)
    assert await _count(call, "apiserver_request_duration_seconds_count", verb="LIST", resource="pods") == 1
    assert await _count(call, "apiserver_request_sli_duration_seconds_count", verb="LIST", resource="pods") == 1
    assert await _count(call, "apiserver_response_sizes_count", verb="LIST", resource="pods") == 1
    assert await _count(call, "apiserver_current_inflight_requests", request_kind="readOnly") == 1
    async with call.stream(f"{PODS}?watch=1"):
        assert await _count(call, "apiserver_longrunning_requests", verb="WATCH", resource="pods") == 1
    assert await _count(call, "apiserver_longrunning_requests", verb="WATCH", resource="pods") == 0
    assert await _count(call, verb="WATCH", resource="pods", code="200") == 1


@pytest.mark.req("N.11")
async def test_certificates_and_self_defence_are_counted() -> None:
    registry = CollectorRegistry()
    store = await MemoryStore.open()
    metrics = ServerMetrics(registry, store, RequestLimiter(Limits(), SystemClock()))
    ends = Client(peer={"notAfter": "Jan  1 01:00:00 2027 GMT"}).certificate_ends
    metrics.record_certificate((ends or 0) - 1798761600.0)  # an hour before
    assert Client(peer={}).certificate_ends is None
    exchange = Exchange(Request(method="GET", path="/x"), datetime.now(UTC), 0.0)
    exchange.code = 429
    metrics.record_end(exchange)
    text = (await metrics.page()).body
    assert isinstance(text, bytes)
    assert b'apiserver_client_certificate_expiration_seconds_bucket{le="1800"} 0.0' in text
    assert b'apiserver_client_certificate_expiration_seconds_bucket{le="3600"} 1.0' in text
    assert b'apiserver_request_terminations_total{code="429"' in text
    await store.close()


@pytest.mark.req("S.6")
async def test_made_up_paths_do_not_become_labels(call: Caller) -> None:
    before = len(await _samples(call, "apiserver_request_total"))
    for number in range(20):
        await call("GET", f"/made/up/{number}")
        await call("GET", f"/api/v1/namespaces/n{number}/pods/p{number}")
    assert len(await _samples(call, "apiserver_request_total")) <= before + 3


# -- logs


def _records(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [record.fields for record in caplog.records if record.getMessage() == "request"]  # type: ignore[attr-defined] # given by the log


@pytest.mark.req("S.6")
async def test_a_line_for_each_request_and_no_secret_in_it(call: Caller, caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("mooring").propagate = True
    secret = {"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}}
    with caplog.at_level(logging.INFO, "mooring"):
        await call("POST", "/api/v1/namespaces/default/secrets", secret, user_agent="test/1")
        await call.as_anonymous()("GET", "/version?token=hunter2", authorization="Bearer hunter2")
    # Servers of other tests may run in this process, too: those that called from here are ours.
    created, refused = (record for record in _records(caplog) if record["from"] == "192.0.2.7")
    assert (created["verb"], created["code"], created["user"], created["from"]) == ("create", 201, "admin", "192.0.2.7")
    assert (refused["code"], refused["reason"], refused["user"]) == (401, "Unauthorized", "system:anonymous")
    assert "hunter2" not in caplog.text
    assert "hunter2" not in str(_records(caplog))


def _audit(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]


@pytest.mark.req("S.6")
async def test_the_audit_log_says_who_did_what(call: Caller, tmp_path: Path) -> None:
    secret = {"metadata": {"name": "s"}, "stringData": {"password": "hunter2"}}
    await call("PUT", "/api/v1/namespaces/default/secrets/s", secret, impersonate_user="jane", audit_id="one")
    event = next(event for event in _audit(tmp_path) if event["auditID"] == "one")
    assert (event["kind"], event["apiVersion"], event["level"]) == ("Event", "audit.k8s.io/v1", "Metadata")
    assert (event["verb"], event["responseStatus"]["code"]) == ("update", 403)
    assert (event["user"]["username"], event["impersonatedUser"]["username"]) == ("admin", "jane")
    assert event["objectRef"] == {
        "resource": "secrets",
        "namespace": "default",
        "name": "s",
        "apiVersion": "v1",
    }
    assert event["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert "hunter2" not in (tmp_path / "audit.jsonl").read_text()
    assert (tmp_path / "audit.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.req("S.6")
async def test_a_watch_is_in_the_audit_log_twice(call: Caller, tmp_path: Path) -> None:
    async with call.stream(f"{PODS}?watch=1"):
        pass
    assert [event["stage"] for event in _audit(tmp_path) if event["verb"] == "watch"] == [
        "ResponseStarted",
        "ResponseComplete",
    ]


@pytest.mark.req("S.4", "S.6")
async def test_a_list_that_comes_in_pieces_is_recorded_as_any_other(
    server: ApiServer, call: Caller, tmp_path: Path
) -> None:
    await call("POST", PODS, POD)
    kv = server.store.peek("/registry/pods/default/p")
    assert kv is not None
    await server.store.write_all([Put(f"{kv.key}{number}", kv.value) for number in range(1000)])
    body = (await call("GET", PODS)).body
    assert [event["stage"] for event in _audit(tmp_path) if event["verb"] == "list"] == ["ResponseComplete"]
    assert await _count(call, "apiserver_response_sizes_sum", verb="LIST", resource="pods") == len(body)
    assert await _count(call, "apiserver_longrunning_requests", verb="LIST") == 0
    assert server.app.limiter.reading.taken == 0


@pytest.mark.req("S.6")
def test_an_audit_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AuditLogError, match="cannot write the audit log"):
        AuditLog(tmp_path / "file" / "audit.jsonl", SystemClock())


# -- versions that do not fit


@pytest.fixture
def counter() -> Counter:
    return Counter("skew", "Skew.", ("component", "version"), registry=CollectorRegistry())


@pytest.fixture
def skew(counter: Counter) -> SkewReporter:
    """At 1.37, compatible with 1.36."""
    return SkewReporter(for_component(component.resolve()).expected, counter)


def _total(counter: Counter) -> float:
    return sum(sample.value for metric in counter.collect() for sample in metric.samples if sample.name == "skew_total")


@pytest.mark.req("4330.10")
@pytest.mark.parametrize(
    ("agent", "outside"),
    [
        ("kubectl/v1.37.0 (linux/amd64) kubernetes/abc", False),
        ("kubectl/v1.35.9 (linux/amd64) kubernetes/abc", False),
        ("kubectl/v1.38.0 (linux/amd64) kubernetes/abc", False),
        ("kubectl/v1.34.0 (linux/amd64) kubernetes/abc", True),
        ("kubectl/v1.39.0 (linux/amd64) kubernetes/abc", True),
        ("kubelet/v1.34.1", False),
        ("kubelet/v1.33.1", True),
        ("kubelet/v1.38.0", True),
        ("kube-proxy/v1.33.0", True),
        ("kube-scheduler/v1.36.0", False),
        ("kube-scheduler/v1.35.0", True),
        ("kube-controller-manager/v1.38.0", True),
        ("mooring-scheduler/v1.37", False),
        ("mooring-controllers/v1.35 (mooring/0.1)", True),
        ("curl/8.0.1", False),
        ("Mozilla/5.0", False),
        ("kubectl", False),
        ("kubectl/vX.Y", False),
        ("", False),
    ],
)
def test_a_version_fits_or_not(skew: SkewReporter, counter: Counter, agent: str, outside: bool) -> None:
    skew.check_user_agent(agent)
    assert _total(counter) == int(outside)


@pytest.mark.req("4330.10")
def test_the_ranges_follow_the_servers_versions(counter: Counter) -> None:
    old = component.resolve(emulation="1.34", min_compatibility="1.33")
    skew = SkewReporter(for_component(old).expected, counter)
    skew.check_user_agent("kubelet/v1.31.0")
    skew.check_user_agent("kubectl/v1.32.4")
    skew.check_user_agent("kube-scheduler/v1.33.0")
    assert _total(counter) == 0
    skew.check_user_agent("kube-scheduler/v1.37.0")
    assert _total(counter) == 1


@pytest.mark.req("4330.10")
def test_each_request_counts_and_is_logged_once(
    skew: SkewReporter, counter: Counter, caplog: pytest.LogCaptureFixture
) -> None:
    logging.getLogger("mooring").propagate = True
    with caplog.at_level(logging.WARNING, "mooring"):
        for _ in range(3):
            skew.check_user_agent("kubectl/v1.30.0")
    assert counter.labels("kubectl", "1.30")._value.get() == 3
    assert len(caplog.records) == 1
    fields = caplog.records[0].fields  # type: ignore[attr-defined] # given by the log
    assert fields == {"component": "kubectl", "version": "1.30", "expected": "1.35 to 1.38"}


@pytest.mark.req("4330.10")
def test_leases_tell_versions_too(skew: SkewReporter, counter: Counter) -> None:
    metadata = ObjectMeta(name="kube-scheduler", annotations={VERSION_ANNOTATION: "1.30"})
    skew.check_lease(Lease(metadata=metadata))
    skew.check_lease(Lease(metadata=ObjectMeta(name="kube-scheduler")))
    skew.check_lease(Lease(metadata=ObjectMeta(name="other", annotations={VERSION_ANNOTATION: "1.30"})))
    assert counter.labels("kube-scheduler", "1.30")._value.get() == 1
    assert _total(counter) == 1


@pytest.mark.req("4330.10")
def test_made_up_versions_do_not_fill_memory(skew: SkewReporter, counter: Counter) -> None:
    for number in range(999):
        skew.check_user_agent(f"kubectl/v2.{number}")
    assert _total(counter) == 999
    assert len(counter._metrics) <= 201


@pytest.mark.req("4330.10")
async def test_skew_is_served_all_the_same(call: Caller) -> None:
    assert (await call("GET", PODS, user_agent="kubectl/v1.20.0")).status == 200
    assert await _count(call, "mooring_component_version_skew_total", component="kubectl", version="1.20") == 1


@pytest.mark.req("4330.10")
async def test_a_server_looks_at_the_leases_of_components(call: Caller) -> None:
    lease = {"metadata": {"name": "kube-scheduler", "annotations": {VERSION_ANNOTATION: "v1.30.1"}}}
    await call("POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", lease)
    await settle()
    assert await _count(call, "mooring_component_version_skew_total", component="kube-scheduler") == 1
