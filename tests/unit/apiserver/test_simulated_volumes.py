"""The files that volumes bring into simulated containers: what they would hold on a real node."""

from typing import Any, cast

import msgspec
import pytest

from mooring.api.authentication_v1 import TokenRequest, TokenRequestStatus
from mooring.api.core_v1 import ConfigMap, Pod, Secret
from mooring.apiserver.registry.storage.objects import Objects
from mooring.apiserver.streams.simulated.volumes import read_mounted_files

pytestmark = pytest.mark.req("N.8")
OBJECTS: dict[tuple[type[Any], str], Any] = {
    (ConfigMap, "conf"): ConfigMap(data={"a.conf": "one", "b.conf": "two"}, binary_data={"raw": b"\xff"}),
    (Secret, "keys"): Secret(data={"password": b"secret", "raw": b"\xff"}),
}


class Kept:
    async def get(self, object_type: type[Any], name: str, namespace: str = "") -> Any:
        assert namespace == "team"
        return OBJECTS.get((object_type, name))


async def issue(namespace: str, name: str, request: TokenRequest) -> TokenRequest:
    bound = request.spec.bound_object_ref
    assert bound is not None
    reported = [namespace, name, bound.name, str(request.spec.expiration_seconds), *request.spec.audiences]
    request.status = TokenRequestStatus(token="/".join(reported), expiration_timestamp="")
    return request


async def files(volume: dict[str, Any], **mount: str) -> dict[str, str]:
    container = {"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/m", **mount}]}
    tree = {
        "metadata": {"name": "web", "namespace": "team", "uid": "u", "labels": {"b": "2", "a": "1"}},
        "spec": {"containers": [container], "volumes": [{"name": "v", **volume}], "serviceAccountName": "robot"},
    }
    return await read_mounted_files(cast("Objects", Kept()), issue, msgspec.convert(tree, Pod), "c")


FIELD = {"path": "ns", "fieldRef": {"fieldPath": "metadata.namespace"}}
LABELS = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
TOKEN = {"path": "token", "expirationSeconds": 3607}
CASES = [
    ("a ConfigMap", {"configMap": {"name": "conf"}}, {"/m/a.conf": "one", "/m/b.conf": "two"}),
    ("some keys", {"configMap": {"name": "conf", "items": [{"key": "a.conf", "path": "x/y"}]}}, {"/m/x/y": "one"}),
    ("a Secret", {"secret": {"secretName": "keys"}}, {"/m/password": "secret"}),
    ("one that is not there", {"secret": {"secretName": "none"}}, {}),
    ("fields of the pod", {"downwardAPI": {"items": [FIELD, LABELS]}}, {"/m/ns": "team", "/m/labels": 'a="1"\nb="2"'}),
    ("a token", {"projected": {"sources": [{"serviceAccountToken": TOKEN}]}}, {"/m/token": "team/robot/web/3607"}),
    (
        "several in one",
        {"projected": {"sources": [{"configMap": {"name": "conf"}}, {"downwardAPI": {"items": [FIELD]}}]}},
        {"/m/a.conf": "one", "/m/b.conf": "two", "/m/ns": "team"},
    ),
    ("nothing of an empty directory", {"emptyDir": {}}, {}),
]


@pytest.mark.parametrize(("volume", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
async def test_the_files_of_a_volume(volume: dict[str, Any], expected: dict[str, str]) -> None:
    assert await files(volume) == expected


async def test_one_file_of_a_volume() -> None:
    assert await files({"configMap": {"name": "conf"}}, mountPath="/etc/a", subPath="a.conf") == {"/etc/a": "one"}
