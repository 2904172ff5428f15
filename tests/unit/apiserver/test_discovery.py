"""Discovery: what clients learn about the served kinds."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from app_calls import ADMIN, Caller, running
from mooring.api.scheme import Scheme
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.output.discovery import Discovery
from mooring.base.version import ComponentVersions

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
OLDER = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"


def _ask(discovery: Discovery, path: str, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    response = discovery.handle(Request(method="GET", path=path, headers=named))
    assert response is not None
    return response


def _json(response: Response) -> Any:
    assert isinstance(response.body, bytes)
    return msgspec.json.decode(response.body)


def _get(path: str, scheme: Scheme | None = None, **headers: str) -> Any:
    return _json(_ask(Discovery(scheme or Scheme()), path, **headers))


@pytest.mark.req("S.1")
def test_the_core_group_and_the_others() -> None:
    assert _get("/api")["versions"] == ["v1"]
    groups = {group["name"]: group for group in _get("/apis")["groups"]}
    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert "" not in groups
    assert _get("/apis/apps")["kind"] == "APIGroup"


@pytest.mark.req("S.1")
def test_the_resources_of_a_group_version() -> None:
    document = _get("/api/v1")
    found = {resource["name"]: resource for resource in document["resources"]}
    assert (document["kind"], document["groupVersion"]) == ("APIResourceList", "v1")
    assert found["pods"]["shortNames"] == ["po"]
    assert found["pods"]["singularName"] == "pod"
    assert found["pods"]["namespaced"]
    assert not found["nodes"]["namespaced"]
    assert found["pods"]["storageVersionHash"]
    eviction = found["pods/eviction"]
    assert (eviction["group"], eviction["version"], eviction["kind"]) == ("policy", "v1", "Eviction")
    assert found["pods/status"]["verbs"] == ["get", "patch", "update"]
    deployments = {resource["name"] for resource in _get("/apis/apps/v1")["resources"]}
    assert {"deployments", "deployments/scale", "deployments/status"} <= deployments


@pytest.mark.req("S.1")
@pytest.mark.parametrize(
    "path", ["/apis/none", "/apis/apps/v2", "/api/v2", "/apis/apps/v1/more", "/apis//v1", "/version"]
)
def test_what_is_not_there_is_not_answered(path: str) -> None:
    assert Discovery(Scheme()).handle(Request(method="GET", path=path)) is None


@pytest.mark.req("S.1")
@pytest.mark.parametrize(
    ("accept", "version"), [(AGGREGATED, "v2"), (OLDER, "v2beta1"), (f"{AGGREGATED},{OLDER},application/json", "v2")]
)
def test_all_in_one_document(accept: str, version: str) -> None:
    response = _ask(Discovery(Scheme()), "/apis", accept=accept)
    document = _json(response)
    assert response.content_type == f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    assert document["apiVersion"] == f"apidiscovery.k8s.io/{version}"
    apps = next(item for item in document["items"] if item["metadata"]["name"] == "apps")
    found = {resource["resource"]: resource for resource in apps["versions"][0]["resources"]}
    assert found["deployments"]["scope"] == "Namespaced"
    assert found["deployments"]["responseKind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    scale = next(each for each in found["deployments"]["subresources"] if each["subresource"] == "scale")
    assert scale["responseKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    core = _get("/api", accept=accept)
    assert [item["metadata"].get("name", "") for item in core["items"]] == [""]


@pytest.mark.req("S.1")
def test_who_has_a_document_already_need_not_read_it_again() -> None:
    discovery = Discovery(Scheme())
    first = _ask(discovery, "/apis", accept=AGGREGATED)
    again = _ask(discovery, "/apis", accept=AGGREGATED, if_none_match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    plain = _ask(discovery, "/apis", if_none_match=first.headers["etag"])
    assert plain.status == 200
    other = Discovery(Scheme(ComponentVersions.resolve("1.31")))
    assert _ask(other, "/apis", accept=AGGREGATED).headers["etag"] != first.headers["etag"]


@pytest.mark.req("4330.4")
@pytest.mark.parametrize(
    ("emulation", "switches", "versions"),
    [
        ("1.37", {}, ["v1"]),
        ("1.34", {}, ["v1"]),
        ("1.33", {}, []),
        ("1.33", {"resource.k8s.io/v1beta1": True}, ["v1beta1"]),
        ("1.33", {"resource.k8s.io/v1beta2": True, "resource.k8s.io/v1beta1": True}, ["v1beta2", "v1beta1"]),
        ("1.37", {"resource.k8s.io/v1": False}, []),
    ],
)
def test_groups_come_and_go_with_the_emulated_version(
    emulation: str, switches: dict[str, bool], versions: list[str]
) -> None:
    scheme = Scheme(ComponentVersions.resolve(emulation), switches)
    groups = {group["name"]: group for group in _get("/apis", scheme)["groups"]}
    found = groups.get("resource.k8s.io", {"versions": []})
    assert [each["version"] for each in found["versions"]] == versions
    aggregated = _get("/apis", scheme, accept=AGGREGATED)["items"]
    assert any(item["metadata"]["name"] == "resource.k8s.io" for item in aggregated) is bool(versions)


@pytest.mark.req("4330.4")
@pytest.mark.parametrize(
    ("emulation", "switches", "served"),
    [
        ("1.37", {}, {"v1"}),
        ("1.33", {}, set()),
        ("1.33", {"resource.k8s.io/v1beta1": True}, {"v1beta1"}),
        ("1.34", {"resource.k8s.io/v1beta2": True}, {"v1", "v1beta2"}),
    ],
)
async def test_what_is_shown_is_what_is_served(
    tmp_path: Path, emulation: str, switches: dict[str, bool], served: set[str]
) -> None:
    async with running(tmp_path, emulation=emulation, runtime_config=switches) as server:
        call = Caller(server.app, ADMIN)
        for version in ("v1", "v1beta2", "v1beta1"):
            code = 200 if version in served else 404
            assert (await call("GET", f"/apis/resource.k8s.io/{version}/deviceclasses")).status == code
            assert (await call("GET", f"/apis/resource.k8s.io/{version}")).status == code
            assert (await call("GET", f"/openapi/v3/apis/resource.k8s.io/{version}")).status == code
