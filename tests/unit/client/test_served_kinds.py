"""What a server serves is asked once for each group and version, and never for kinds that the client does not know."""

import json

import pytest

from client_fakes import FakeTransport, error_response, json_response
from mooring.api import errors
from mooring.api.apps_v1 import ReplicaSet, StatefulSet
from mooring.api.core_v1 import Namespace, Pod
from mooring.api.meta_v1 import Resource
from mooring.api.resource_v1 import ResourceClaim
from mooring.api.scheme import Scheme
from mooring.base.component import resolve
from mooring.client import Client
from mooring.client.transport import Request, Response

GROUP = "/apis/resource.k8s.io/"


class _Unknown(Resource):
    """No kind of any scheme."""


async def test_each_group_and_version_is_asked_once() -> None:
    served = {"/api/v1": ["pods", "nodes"], "/apis/apps/v1": ["replicasets", "statefulsets"]}

    def answer(request: Request) -> Response:
        return json_response({"resources": [{"name": name} for name in served[request.path]]})

    transport = FakeTransport(answer)
    client = Client(transport, user_agent="test")
    assert await client.served([Pod, Namespace, ReplicaSet, StatefulSet, _Unknown]) == {Pod, ReplicaSet, StatefulSet}
    assert sorted(request.path for request in transport.requests) == ["/api/v1", "/apis/apps/v1"]


def serving(*versions: str) -> FakeTransport:
    """Return a server that has claims at some versions, and one claim."""

    def answer(request: Request) -> Response:
        version = request.path.removeprefix(GROUP).split("/")[0]
        if version not in versions:
            return error_response(errors.not_found("", request.path))
        if request.path == GROUP + version:
            return json_response({"resources": [{"name": "resourceclaims"}]})
        request_ = {"name": "r", "deviceClassName": "gpu"} if version == "v1beta1" else {"name": "r", "exactly": {}}
        claim = {
            "apiVersion": f"resource.k8s.io/{version}",
            "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": "default", "resourceVersion": "7"},
            "spec": {"devices": {"requests": [request_]}},
        }
        named = request.path.endswith(("/c", "/status"))
        return json_response(claim if named else {"metadata": {"resourceVersion": "9"}, "items": [claim]})

    return FakeTransport(answer)


@pytest.mark.parametrize(
    ("versions", "spoken"),
    [
        (("v1", "v1beta2", "v1beta1"), "v1"),
        (("v1beta2", "v1beta1"), "v1beta2"),
        (("v1beta1",), "v1beta1"),
    ],
    ids=str,
)
async def test_the_newest_version_that_the_server_has_is_spoken(versions: tuple[str, ...], spoken: str) -> None:
    transport = serving(*versions)
    client = Client(transport, user_agent="test")
    assert await client.served([ResourceClaim]) == {ResourceClaim}
    [listed] = (await client.list(ResourceClaim, "default")).items
    read = await client.get(ResourceClaim, "c", "default")
    written = await client.update_status(listed)
    for claim in (listed, read, written):
        assert type(claim) is ResourceClaim
        assert claim.spec.devices.requests[0].exactly is not None
    sent = transport.requests[-1]
    assert sent.path == f"{GROUP}{spoken}/namespaces/default/resourceclaims/c/status"
    body = json.loads(sent.body)
    assert body["apiVersion"] == f"resource.k8s.io/{spoken}"
    assert ("exactly" in body["spec"]["devices"]["requests"][0]) == (spoken != "v1beta1")


async def test_a_kind_that_the_server_has_at_no_version_is_not_served() -> None:
    client = Client(serving(), user_agent="test")
    assert await client.served([ResourceClaim]) == set()


async def test_a_scheme_of_an_older_release_speaks_what_it_serves_and_what_the_server_has() -> None:
    old = Scheme(resolve(emulation="1.32").versions)
    client = Client(serving("v1beta1"), user_agent="test", scheme=old)
    assert not client.knows(ResourceClaim), "a beta is served only where somebody says so"
    assert await client.served([ResourceClaim]) == {ResourceClaim}
    assert client.knows(ResourceClaim)
    reported = Scheme(resolve(emulation="1.32").versions, {"resource.k8s.io/v1beta1": True})
    assert Client(serving(), user_agent="test", scheme=reported).kind(ResourceClaim).version == "v1beta1"
