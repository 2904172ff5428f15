"""Two API servers on one etcd: clients may talk to either, or to both in turn."""

import json
import shutil
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from custom_api import definition
from etcd_servers import EtcdServers, etcd_cluster
from eventually import eventually
from mooring.apiserver.access.pki import Pki
from mooring.base.clock import SystemClock
from running_server import RunningServer, running_server, start_server

pytestmark = pytest.mark.req("S.7")
KILLED_WHILE_CONNECTING = pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
"""Python's `wrap_socket` leaves a connection to the collector that is reset before hands are shaken."""


class Caller:
    """Plain requests with the administrator's certificate."""

    def __init__(self, server: RunningServer) -> None:
        self._url = server.url
        self._tls = server.tls()

    def __call__(self, method: str, path: str, body: Any = None, token: str = "") -> tuple[int, Any]:
        request = urllib.request.Request(
            self._url + path,
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers={"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {}),
        )
        tls = ssl.create_default_context(cadata=self._authority()) if token else self._tls
        try:
            with urllib.request.urlopen(request, timeout=30, context=tls) as answer:
                return answer.status, _parsed(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, _parsed(error.read())

    def watch(self, path: str) -> Any:
        return urllib.request.urlopen(self._url + path, timeout=30, context=self._tls)

    def _authority(self) -> str:
        return "".join(ssl.DER_cert_to_PEM_cert(each) for each in self._tls.get_ca_certs(binary_form=True))


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data.decode()


@pytest.fixture(scope="module")
def own_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServers]:
    with etcd_cluster(tmp_path_factory.mktemp("etcd"), tls=True) as etcd:
        yield etcd


@pytest.fixture(scope="module")
def servers(own_etcd: EtcdServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunningServer]]:
    folder = tmp_path_factory.mktemp("servers")
    with running_server(folder / "one", *own_etcd.flags()) as one:
        shutil.copytree(folder / "one" / "pki", folder / "two" / "pki")
        with running_server(folder / "two", *own_etcd.flags()) as two:
            yield [one, two]


@pytest.fixture
def callers(servers: list[RunningServer]) -> list[Caller]:
    return [Caller(server) for server in servers]


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


MAPS = "/api/v1/namespaces/default/configmaps"


def test_a_list_through_one_server_shows_what_the_other_has_written(callers: list[Caller]) -> None:
    one, two = callers
    for number in range(20):
        code, created = one("POST", MAPS, config_map(f"shown-{number}"))
        assert code == 201
        code, listed = two("GET", MAPS)
        assert f"shown-{number}" in [item["metadata"]["name"] for item in listed["items"]]
        assert int(listed["metadata"]["resourceVersion"]) >= int(created["metadata"]["resourceVersion"])
        one, two = two, one


def test_a_namespace_can_be_used_at_once_through_the_other_server(callers: list[Caller]) -> None:
    one, two = callers
    for number in range(5):
        assert one("POST", "/api/v1/namespaces", {"metadata": {"name": f"space-{number}"}})[0] == 201
        assert two("POST", f"/api/v1/namespaces/space-{number}/configmaps", config_map("here"))[0] == 201


@pytest.mark.req("X.6")
def test_a_kind_can_be_used_at_once_through_the_other_server_and_ends_for_both(callers: list[Caller]) -> None:
    one, two = callers
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for number in range(3):
        plural, body = f"tabs{number}", definition(f"tabs{number}", f"Tab{number}")
        objects = f"/apis/stable.example.com/v1/namespaces/default/{plural}"
        assert one("POST", definitions, body)[0] == 201
        tab = {"kind": f"Tab{number}", "apiVersion": "stable.example.com/v1", "metadata": {"name": "a"}}
        assert two("POST", objects, tab | {"spec": {"cronSpec": "x"}})[0] == 201
        assert one("GET", f"{objects}/a")[1]["spec"]["replicas"] == 1
        assert two("DELETE", f"{definitions}/{body['metadata']['name']}")[0] == 200
        eventually(partial(_none_serves, callers, objects))
        one, two = two, one


def _none_serves(callers: list[Caller], objects: str) -> bool:
    return [caller("GET", objects)[0] for caller in callers] == [404, 404]


def test_an_update_of_a_version_that_the_other_has_replaced_conflicts(callers: list[Caller]) -> None:
    one, two = callers
    _, first = one("POST", MAPS, config_map("raced"))
    assert two("PUT", f"{MAPS}/raced", first | {"data": {"by": "two"}})[0] == 200
    code, answer = one("PUT", f"{MAPS}/raced", first | {"data": {"by": "one"}})
    assert (code, answer["reason"]) == (409, "Conflict")
    assert one("GET", f"{MAPS}/raced")[1]["data"] == {"by": "two"}


def test_pages_of_one_list_may_come_from_both(callers: list[Caller]) -> None:
    one, two = callers
    for number in range(9):
        one("POST", MAPS, config_map(f"page-{number}", state="old"))
    _, everything = one("GET", MAPS)
    _, page = one("GET", f"{MAPS}?limit=4")
    names = [item["metadata"]["name"] for item in page["items"]]
    assert two("DELETE", f"{MAPS}/page-8")[0] == 200
    turn = [two, one]
    while page["metadata"].get("continue"):
        turn.reverse()
        code, page = turn[0]("GET", f"{MAPS}?limit=4&continue={page['metadata']['continue']}")
        assert code == 200
        names += [item["metadata"]["name"] for item in page["items"]]
    assert names == [item["metadata"]["name"] for item in everything["items"]]


def test_a_watch_goes_on_at_the_other_server_where_it_broke(callers: list[Caller]) -> None:
    one, two = callers
    _, listed = one("GET", MAPS)
    version = listed["metadata"]["resourceVersion"]
    seen: list[str] = []
    for turn, caller in enumerate([one, two, one]):
        for number in range(3):
            callers[number % 2]("POST", MAPS, config_map(f"watched-{turn}-{number}"))
        with caller.watch(f"{MAPS}?watch=1&resourceVersion={version}") as stream:
            for _ in range(2 if turn < 2 else 5):
                event = json.loads(stream.readline())
                seen.append(event["object"]["metadata"]["name"])
                version = event["object"]["metadata"]["resourceVersion"]
    assert seen == [f"watched-{turn}-{number}" for turn in range(3) for number in range(3)]


def test_a_token_of_one_server_is_good_at_the_other_and_its_rights_are_the_same(callers: list[Caller]) -> None:
    one, two = callers
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    assert one("POST", accounts, {"metadata": {"name": "reader"}})[0] == 201
    _, answer = one("POST", f"{accounts}/reader/token", {"spec": {}})
    token = answer["status"]["token"]
    assert two("GET", MAPS, token=token)[0] == 403
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
    }
    bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
    assert one("POST", bindings, binding)[0] == 201
    deadline = time.monotonic() + 20
    while two("GET", MAPS, token=token)[0] != 200:
        assert time.monotonic() < deadline
    assert two("DELETE", f"{accounts}/reader")[0] == 200
    assert one("GET", MAPS, token=token)[0] == 401


def test_an_object_too_large_for_etcd_is_refused_with_413(callers: list[Caller]) -> None:
    code, answer = callers[0]("POST", MAPS, config_map("large", **{f"part-{i}": "x" * 900_000 for i in range(2)}))
    assert (code, answer["reason"]) in {(413, "RequestEntityTooLarge"), (422, "Invalid")}


def test_a_server_that_restarts_serves_watches_that_began_before(
    servers: list[RunningServer], own_etcd: EtcdServers, tmp_path: Path
) -> None:
    one = Caller(servers[0])
    shutil.copytree(servers[0].data_dir / "pki", tmp_path / "three" / "pki")
    _, listed = one("GET", MAPS)
    version = listed["metadata"]["resourceVersion"]
    one("POST", MAPS, config_map("before"))
    with (
        running_server(tmp_path / "three", *own_etcd.flags()) as late,
        Caller(late).watch(f"{MAPS}?watch=1&resourceVersion={version}") as stream,
    ):
        assert json.loads(stream.readline())["object"]["metadata"]["name"] == "before"


def test_without_etcd_a_server_says_so_in_time_and_recovers(tmp_path: Path) -> None:
    with etcd_cluster(tmp_path / "etcd") as etcd, running_server(tmp_path / "data", *etcd.flags()) as server:
        call = Caller(server)
        assert call("GET", "/readyz")[0] == 200
        etcd.members[0].kill()
        began = time.monotonic()
        code, answer = call("POST", MAPS, config_map("unknown"))
        assert (code, answer["reason"]) == (504, "Timeout")
        assert time.monotonic() - began < 25
        code, text = call("GET", "/readyz?verbose")
        assert code == 500
        assert "[-]store failed" in text
        etcd.members[0].start()
        etcd.wait()
        deadline = time.monotonic() + 20
        while call("POST", MAPS, config_map("known"))[0] not in {201, 409}:
            assert time.monotonic() < deadline
        while call("GET", "/readyz")[0] != 200:
            assert time.monotonic() < deadline


def test_while_etcd_is_frozen_a_server_is_not_ready(tmp_path: Path) -> None:
    """Nothing breaks when a process is stopped: connections stay open, and only a question shows that it is."""
    with etcd_cluster(tmp_path / "etcd") as etcd, running_server(tmp_path / "data", *etcd.flags()) as server:
        call = Caller(server)
        assert call("GET", "/readyz")[0] == 200
        etcd.members[0].pause()
        try:
            code, text = call("GET", "/readyz?verbose")
            assert code == 500
            assert "[-]store failed" in text
            assert call("GET", "/livez?exclude=store")[0] == 200
        finally:
            etcd.members[0].resume()
        eventually(lambda: call("GET", "/readyz")[0] == 200)


def test_servers_that_start_together_on_an_empty_etcd_make_one_cluster(tmp_path: Path) -> None:
    names = ("one", "two", "three")
    Pki(tmp_path / "pki", SystemClock()).fingerprints()
    for name in names:
        shutil.copytree(tmp_path / "pki", tmp_path / name / "pki")
    with etcd_cluster(tmp_path / "etcd") as etcd, ThreadPoolExecutor() as pool:
        started = list(pool.map(lambda name: start_server(tmp_path / name, *etcd.flags()), names))
        try:
            lists = [Caller(server)("GET", "/api/v1/namespaces")[1]["items"] for server in started]
        finally:
            for server in started:
                server.stop()
    uids = [[item["metadata"]["uid"] for item in items] for items in lists]
    assert uids[0] == uids[1] == uids[2]
    assert len(uids[0]) == 4


def test_a_server_with_other_keys_than_the_rest_is_not_started(tmp_path: Path) -> None:
    with etcd_cluster(tmp_path / "etcd") as etcd:
        with running_server(tmp_path / "one", *etcd.flags()):
            other = tmp_path / "two" / "pki"
            assert "(ca.key and sa.key)" in _refused(tmp_path / "two", etcd)
            for file in ("ca.crt", "ca.key"):
                shutil.copy(tmp_path / "one" / "pki" / file, other)
            assert "(sa.key)" in _refused(tmp_path / "two", etcd)
            shutil.copy(tmp_path / "one" / "pki" / "sa.key", other)
            with running_server(tmp_path / "two", *etcd.flags()) as two:
                assert Caller(two)("GET", "/readyz")[0] == 200
        message = _refused(tmp_path / "new", etcd)
        assert "etcdctl del PREFIX/.mooring/pki" in message
        assert etcd.etcdctl("del", "/registry/.mooring/pki").strip() == "1"
        with running_server(tmp_path / "new", *etcd.flags()) as new:
            assert Caller(new)("GET", "/readyz")[0] == 200
        assert "(ca.key and sa.key)" in _refused(tmp_path / "one", etcd)


def _refused(data_dir: Path, etcd: EtcdServers) -> str:
    """Return what a server says that ends at once."""
    command = [sys.executable, "-m", "mooring", "apiserver", "--data-dir", str(data_dir), "--port", "0"]
    ended = subprocess.run([*command, *etcd.flags()], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1, ended
    assert ended.stdout == ""
    lines = ended.stderr.splitlines()
    assert len(lines) == 1, ended.stderr
    return lines[0]


SERVICES = "/api/v1/namespaces/default/services"
SMALL = ("--service-cluster-ip-range", "10.7.0.0/26", "--service-node-port-range", "30100-30139")


def service(name: str) -> dict[str, Any]:
    spec = {"type": "NodePort", "ports": [{"port": 80}], "selector": {"app": "x"}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


@KILLED_WHILE_CONNECTING
@pytest.mark.req("N.9")
def test_two_servers_give_no_address_and_no_port_twice_also_when_one_is_killed(tmp_path: Path) -> None:
    """More is asked of both at once than there is: 61 addresses and 40 ports."""
    with (
        etcd_cluster(tmp_path / "etcd", tls=True) as etcd,
        running_server(tmp_path / "one", *etcd.flags(), *SMALL) as one,
    ):
        shutil.copytree(tmp_path / "one" / "pki", tmp_path / "two" / "pki")
        two = start_server(tmp_path / "two", *etcd.flags(), *SMALL)
        callers = [Caller(one), Caller(two)]

        def create(number: int) -> int:
            try:
                return callers[number % 2]("POST", SERVICES, service(f"s-{number}"))[0]
            except OSError:  # it was killed
                return 0

        with ThreadPoolExecutor(12) as pool:
            codes = list(pool.map(create, range(30)))
            assert codes == [201] * 30
            asked = [pool.submit(create, number) for number in range(30, 60)]
            two.kill()
            codes += [each.result() for each in asked]
        two = start_server(tmp_path / "two", *etcd.flags(), *SMALL)
        callers[1] = Caller(two)
        try:
            _, listed = callers[0]("GET", SERVICES)
            for name in [each["metadata"]["name"] for each in listed["items"]][:5]:
                callers[1]("DELETE", f"{SERVICES}/{name}")
            codes += [create(number) for number in range(60, 110)]
            _, listed = callers[1]("GET", SERVICES)
            addresses = [each["spec"]["clusterIP"] for each in listed["items"]]
            ports = [
                port["nodePort"] for each in listed["items"] for port in each["spec"]["ports"] if "nodePort" in port
            ]
            assert len(addresses) == len(set(addresses))
            assert len(ports) == len(set(ports))
            assert 422 in codes or 500 in codes  # there is no port left
            kept = callers[0]("GET", "/apis/networking.k8s.io/v1/ipaddresses")[1]["items"]
            assert set(addresses) <= {each["metadata"]["name"] for each in kept}
        finally:
            two.stop()


@KILLED_WHILE_CONNECTING
@pytest.mark.req("X.10")
def test_two_servers_exceed_no_quota_and_count_exactly_also_when_one_is_killed(tmp_path: Path) -> None:
    """Sixty-four writers want twice what there is room for; one of the servers dies while they write."""
    with (
        etcd_cluster(tmp_path / "etcd") as etcd,
        running_server(tmp_path / "one", *etcd.flags()) as one,
    ):
        shutil.copytree(tmp_path / "one" / "pki", tmp_path / "two" / "pki")
        two = start_server(tmp_path / "two", *etcd.flags())
        callers = [Caller(one), Caller(two)]
        space = "/api/v1/namespaces/default"
        quota = {"metadata": {"name": "few"}, "spec": {"hard": {"count/configmaps": "50"}}}
        assert callers[0]("POST", f"{space}/resourcequotas", quota)[0] == 201
        eventually(lambda: all("hard" in call("GET", f"{space}/resourcequotas/few")[1]["status"] for call in callers))

        def write(number: int) -> int:
            if number == 30:
                two.kill()
            try:
                return callers[number % 2]("POST", f"{space}/configmaps", config_map(f"m{number}"))[0]
            except OSError:  # it was killed
                return 0

        with ThreadPoolExecutor(64) as pool:
            codes = list(pool.map(write, range(100)))
        listed = callers[0]("GET", f"{space}/configmaps")[1]["items"]
        used = int(callers[0]("GET", f"{space}/resourcequotas/few")[1]["status"]["used"]["count/configmaps"])
        assert codes.count(201) <= len(listed) == used <= 50
        assert set(codes) <= {0, 201, 403}
        refused = callers[0]("POST", f"{space}/configmaps", config_map("last"))[0]
        assert (refused == 403) == (used == 50)
