"""Events that expire in etcd do so many at a time, in one revision; every watcher hears of each, in its own version."""

import pytest

from app_calls import ADMIN, Caller
from etcd_servers import EtcdServers
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer

pytestmark = pytest.mark.req("S.7")

VERSIONS = {
    "/api/v1/namespaces/default/events": "v1",
    "/apis/events.k8s.io/v1/namespaces/default/events": "events.k8s.io/v1",
}


@pytest.mark.parametrize("path", VERSIONS)
async def test_events_that_expire_together_are_sent_one_by_one(
    path: str, etcd: EtcdServers, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mooring.apiserver.registry.verbs.changes.EVENT_SECONDS", 1.0)
    monkeypatch.setattr("mooring.store.etcd.leases._WINDOW_FRACTION", 2.0)  # so that all of them share a lease
    prefix = f"/events-{VERSIONS[path].count('/')}"
    config = ServerConfig(data_dir=tmp_path_factory.mktemp("data"), port=0, etcd=etcd.config(prefix))
    async with await ApiServer.open(config) as server:
        call = Caller(server.app, ADMIN)
        names = [f"web.{number}" for number in range(5)]
        for name in names:
            event = {
                "metadata": {"name": name},
                "involvedObject": {"kind": "Pod", "name": "web", "namespace": "default"},
            }
            assert (await call("POST", "/api/v1/namespaces/default/events", event)).status == 201
        listed = (await call("GET", path)).json
        assert [item["metadata"]["name"] for item in listed["items"]] == names
        async with call.stream(f"{path}?watch=1&resourceVersion={listed['metadata']['resourceVersion']}") as stream:
            reported = [await stream.next() for _ in names]
    assert [event["type"] for event in reported] == ["DELETED"] * 5
    assert sorted(event["object"]["metadata"]["name"] for event in reported) == names
    assert {event["object"]["apiVersion"] for event in reported} == {VERSIONS[path]}
    assert len({event["object"]["metadata"]["resourceVersion"] for event in reported}) == 1
