"""OpenAPI documents say what the types say."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from mooring.api import errors
from mooring.api.kinds import GroupVersion
from mooring.api.meta_v1 import VersionInfo
from mooring.api.scheme import Scheme
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.output.openapi import OpenApi, protobuf
from mooring.base.version import ComponentVersions

pytestmark = pytest.mark.req("S.1")
CORE = GroupVersion("", "v1")
V3_PREFIX, V2_PREFIX = "#/components/schemas/", "#/definitions/"


@pytest.fixture(scope="module")
def openapi() -> OpenApi:
    return OpenApi(Scheme(), VersionInfo(git_version="v1.37.0"))


@pytest.fixture(scope="module")
def core(openapi: OpenApi) -> dict[str, Any]:
    return openapi.build_v3(CORE)


@pytest.fixture(scope="module")
def v2(openapi: OpenApi) -> dict[str, Any]:
    return openapi.build_v2()


def _schema(document: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = document["components"]["schemas"][name]
    return found


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):  # schemas themselves have a field of that name
            yield node["$ref"]
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


async def _ask(openapi: OpenApi, path: str, hash_: str = "", **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    query = {"hash": [hash_]} if hash_ else {}
    response = await openapi.handle(Request(method="GET", path=path, query=query, headers=named))
    assert response is not None
    return response


def test_a_kind_names_itself(core: dict[str, Any]) -> None:
    pod = _schema(core, "io.k8s.api.core.v1.Pod")
    assert pod["x-kubernetes-group-version-kind"] == [{"group": "", "version": "v1", "kind": "Pod"}]
    assert pod["properties"]["spec"]["allOf"] == [{"$ref": f"{V3_PREFIX}io.k8s.api.core.v1.PodSpec"}]
    assert pod["properties"]["metadata"]["allOf"] == [
        {"$ref": f"{V3_PREFIX}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
    ]


def test_descriptions_are_the_docstrings(core: dict[str, Any]) -> None:
    toleration = _schema(core, "io.k8s.api.core.v1.Toleration")
    assert "CEL expression" in toleration["properties"]["expression"]["description"]
    undescribed = [
        f"{name}.{field}"
        for name, schema in core["components"]["schemas"].items()
        for field, value in schema.get("properties", {}).items()
        if not value.get("description")
    ]
    assert undescribed == []


def test_how_lists_and_maps_merge(core: dict[str, Any]) -> None:
    spec = _schema(core, "io.k8s.api.core.v1.PodSpec")["properties"]
    containers = spec["containers"]
    assert containers["x-kubernetes-list-type"] == "map"
    assert containers["x-kubernetes-list-map-keys"] == ["name"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert containers["x-kubernetes-patch-strategy"] == "merge"
    assert spec["volumes"]["x-kubernetes-patch-strategy"] == "merge,retainKeys"
    assert spec["tolerations"]["x-kubernetes-list-type"] == "atomic"
    ports = _schema(core, "io.k8s.api.core.v1.Container")["properties"]["ports"]
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert ports["x-kubernetes-patch-merge-key"] == "containerPort"
    finalizers = _schema(core, "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")["properties"]["finalizers"]
    assert finalizers["x-kubernetes-list-type"] == "set"
    selector = _schema(core, "io.k8s.api.core.v1.NodeSelector")
    assert selector["x-kubernetes-map-type"] == "atomic"


def test_plain_types(core: dict[str, Any]) -> None:
    spec = _schema(core, "io.k8s.api.core.v1.PodSpec")
    assert spec["required"] == ["containers"]
    fields = spec["properties"]
    assert (fields["hostNetwork"]["type"], fields["nodeName"]["type"]) == ("boolean", "string")
    assert (fields["priority"]["type"], fields["priority"]["format"]) == ("integer", "int32")
    assert fields["terminationGracePeriodSeconds"]["format"] == "int64"
    assert fields["nodeSelector"]["additionalProperties"] == {"type": "string", "default": ""}
    secret = _schema(core, "io.k8s.api.core.v1.Secret")["properties"]
    assert secret["data"]["additionalProperties"]["format"] == "byte"
    limits = _schema(core, "io.k8s.api.core.v1.ResourceRequirements")["properties"]["limits"]
    assert limits["additionalProperties"] == {"$ref": f"{V3_PREFIX}io.k8s.apimachinery.pkg.api.resource.Quantity"}


def test_every_reference_leads_somewhere(openapi: OpenApi, v2: dict[str, Any]) -> None:
    scheme = Scheme()
    for group in scheme.groups:
        for version in scheme.versions(group):
            document = openapi.build_v3(GroupVersion(group, version))
            known = {V3_PREFIX + name for name in document["components"]["schemas"]}
            assert set(_references(document)) <= known
    assert set(_references(v2)) <= {V2_PREFIX + name for name in v2["definitions"]}


def test_operations_have_names_of_their_own(v2: dict[str, Any]) -> None:
    methods = ("get", "post", "put", "patch", "delete")
    ids = [item[method]["operationId"] for item in v2["paths"].values() for method in methods if method in item]
    assert sorted(set(ids)) == sorted(ids)


def test_path_parameters_are_declared(core: dict[str, Any]) -> None:
    for path, item in core["paths"].items():
        declared = {parameter["name"] for parameter in item["parameters"] if parameter["in"] == "path"}
        assert declared == set(re.findall(r"{(\w+)}", path)), path


def test_kubectl_finds_what_it_looks_for(core: dict[str, Any]) -> None:
    patch = core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "", "kind": "Pod", "version": "v1"}
    assert {"dryRun", "fieldValidation"} <= {parameter["name"] for parameter in patch["parameters"]}
    assert core["paths"]["/api/v1/pods"]["get"]["x-kubernetes-action"] == "list"
    eviction = core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/eviction"]["post"]
    assert eviction["x-kubernetes-group-version-kind"] == {"group": "policy", "kind": "Eviction", "version": "v1"}


@pytest.mark.req("4330.4")
def test_a_version_has_definitions_of_its_own() -> None:
    scheme = Scheme(ComponentVersions.resolve("1.34"), {"resource.k8s.io/v1beta1": True})
    openapi = OpenApi(scheme, VersionInfo(git_version="v1.34.0"))
    newest = openapi.build_v3(GroupVersion("resource.k8s.io", "v1"))
    older = openapi.build_v3(GroupVersion("resource.k8s.io", "v1beta1"))
    assert "exactly" in _schema(newest, "io.k8s.api.resource.v1.DeviceRequest")["properties"]
    assert "exactly" not in _schema(older, "io.k8s.api.resource.v1beta1.DeviceRequest")["properties"]
    assert "io.k8s.api.resource.v1.DeviceRequest" not in older["components"]["schemas"]


@pytest.mark.req("4330.4")
async def test_the_index_lists_what_is_served() -> None:
    old = OpenApi(Scheme(ComponentVersions.resolve("1.33")), VersionInfo(git_version="v1.33.0"))
    index = msgspec.json.decode((await _ask(old, "/openapi/v3")).body)  # type: ignore[arg-type] # not a stream
    assert "apis/apps/v1" in index["paths"]
    assert "api/v1" in index["paths"]
    assert not any(place.startswith("apis/resource.k8s.io") for place in index["paths"])


async def test_a_document_can_be_kept(openapi: OpenApi) -> None:
    index = msgspec.json.decode((await _ask(openapi, "/openapi/v3")).body)  # type: ignore[arg-type] # not a stream
    address = index["paths"]["apis/policy/v1"]["serverRelativeURL"]
    path, _, hash_ = address.partition("?hash=")
    response = await _ask(openapi, path, hash_)
    assert "immutable" in response.headers["cache-control"]
    assert (await _ask(openapi, path, if_none_match=response.headers["etag"])).status == 304
    assert "cache-control" not in (await _ask(openapi, path, "OLD")).headers


async def test_protobuf_is_to_be_had_of_version_2_alone(openapi: OpenApi) -> None:
    response = await _ask(openapi, "/openapi/v2", accept="application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
    assert (response.status, response.content_type) == (200, protobuf.MEDIA_TYPE)
    with pytest.raises(errors.NotAcceptable):
        await _ask(openapi, "/openapi/v3/api/v1", accept="application/com.github.proto-openapi.spec.v3@v1.0+protobuf")


async def test_other_paths_are_not_answered(openapi: OpenApi) -> None:
    for path in ("/openapi/v3/apis/none/v1", "/openapi/v4", "/openapi"):
        assert await openapi.handle(Request(method="GET", path=path)) is None
