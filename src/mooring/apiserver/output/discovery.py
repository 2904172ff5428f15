"""Discovery: the documents at `/api`, `/apis` and below that list the served kinds, aggregated or one by one.

A document is built from the scheme when it is first requested, and rebuilt after custom kinds have changed. Clients
that send the ETag of a current document (`If-None-Match`) get `304`.
"""

import base64
import hashlib
from collections.abc import Callable

from mooring.api import apidiscovery_v2, codec
from mooring.api.kinds import GroupVersion, Kind, Subresource
from mooring.api.meta_v1 import (
    APIGroup,
    APIGroupList,
    APIResource,
    APIResourceList,
    APIVersions,
    GroupVersionForDiscovery,
    GroupVersionKind,
    ObjectMeta,
    TypeMeta,
)
from mooring.api.scheme import Scheme
from mooring.apiserver.messages.http import JSON, Accepted, Request, Response
from mooring.apiserver.output.formats import format_json

_GROUP = "apidiscovery.k8s.io"
_VERSIONS = ("v2", "v2beta1")
_LIST = "APIGroupDiscoveryList"


class Discovery:
    """Serves the discovery documents: groups, versions and resources of a scheme's kinds."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme
        self._documents: dict[str, tuple[bytes, str]] = {}
        self._changes = scheme.changes

    def handle(self, request: Request) -> Response | None:
        """Return the response if the path is one of discovery; None for other paths."""
        if self._changes != self._scheme.changes:
            self._documents.clear()
            self._changes = self._scheme.changes
        path = request.path.rstrip("/")
        make_list = self._find_document_maker(path)
        if make_list is None:
            return None
        accepted = request.negotiate_format()
        is_aggregated = accepted.group == _GROUP and accepted.shown_as == _LIST and accepted.version in _VERSIONS
        if path in {"/api", "/apis"} and is_aggregated:
            return self._respond_aggregated(request, accepted, core=path == "/api")
        return self._respond_cached(request, path, make_list)

    def _find_document_maker(self, path: str) -> Callable[[], TypeMeta] | None:
        scheme = self._scheme
        match path.split("/"):
            case ["", "api"]:
                return lambda: APIVersions(kind="APIVersions", versions=[*scheme.versions("")])
            case ["", "apis"]:
                return self._build_group_list
            case ["", "apis", group] if group and group in scheme.groups:
                return lambda: self._build_group(group, whole=True)
            case ["", "api", version] if version in scheme.versions(""):
                return lambda: self._build_resource_list(GroupVersion("", version))
            case ["", "apis", group, version] if group and version in scheme.versions(group):
                return lambda: self._build_resource_list(GroupVersion(group, version))
        return None

    def _respond_cached(
        self, request: Request, key: str, make_list: Callable[[], TypeMeta], content_type: str = JSON
    ) -> Response:
        if key not in self._documents:
            body = codec.encode(make_list())
            self._documents[key] = body, f'"{hashlib.sha256(body).hexdigest().upper()}"'
        body, tag = self._documents[key]
        headers = {"etag": tag, "vary": "Accept"}
        if request.headers.get("if-none-match") == tag:
            return Response(304, b"", content_type, headers)
        if content_type == JSON:
            body, content_type = format_json(body, request.negotiate_format(), request)
        return Response(200, body, content_type, headers)

    def _build_group_list(self) -> APIGroupList:
        groups = [self._build_group(group) for group in self._scheme.groups if group]
        return APIGroupList(kind="APIGroupList", api_version="v1", groups=groups)

    def _build_group(self, group: str, *, whole: bool = False) -> APIGroup:
        versions = [
            GroupVersionForDiscovery(group_version=f"{group}/{version}", version=version)
            for version in self._scheme.versions(group)
        ]
        found = APIGroup(name=group, versions=versions, preferred_version=versions[0])
        if whole:
            found.kind, found.api_version = "APIGroup", "v1"
        return found

    def _build_resource_list(self, where: GroupVersion) -> APIResourceList:
        resources = []
        for kind in self._scheme.resources(*where):
            resources.append(_make_resource(kind, self._scheme))
            resources += (_make_subresource(kind, each) for each in kind.subresources)
        return APIResourceList(
            kind="APIResourceList", api_version="v1", group_version=where.api_version, resources=resources
        )

    def _respond_aggregated(self, request: Request, accepted: Accepted, *, core: bool) -> Response:
        version = accepted.version
        content_type = f"{JSON};g={_GROUP};v={version};as={_LIST}"

        def make_list() -> apidiscovery_v2.APIGroupDiscoveryList:
            groups = [group for group in self._scheme.groups if (group == "") == core]
            return apidiscovery_v2.APIGroupDiscoveryList(
                kind=_LIST,
                api_version=f"{_GROUP}/{version}",
                items=[self._build_group_discovery(group) for group in groups],
            )

        return self._respond_cached(request, f"{version} {'core' if core else 'groups'}", make_list, content_type)

    def _build_group_discovery(self, group: str) -> apidiscovery_v2.APIGroupDiscovery:
        versions = [
            apidiscovery_v2.APIVersionDiscovery(
                version=version,
                freshness="Current",
                resources=[_make_resource_discovery(kind) for kind in self._scheme.resources(group, version)],
            )
            for version in self._scheme.versions(group)
        ]
        return apidiscovery_v2.APIGroupDiscovery(metadata=ObjectMeta(name=group), versions=versions)


def _make_resource(kind: Kind, scheme: Scheme) -> APIResource:
    return APIResource(
        name=kind.plural,
        singular_name=kind.singular,
        namespaced=kind.namespaced,
        kind=kind.kind,
        verbs=[*kind.verbs],
        short_names=[*kind.short_names],
        categories=[*kind.categories],
        storage_version_hash=_hash_storage_version(scheme.storage(kind)) if kind.stored else "",
    )


def _make_subresource(kind: Kind, subresource: Subresource) -> APIResource:
    found = APIResource(
        name=f"{kind.plural}/{subresource.name}",
        namespaced=kind.namespaced,
        kind=subresource.kind or kind.kind,
        verbs=[*subresource.verbs],
    )
    if subresource.group_version and subresource.group_version != kind.group_version:
        found.group, found.version = subresource.group_version
    return found


def _hash_storage_version(kind: Kind) -> str:
    digest = hashlib.sha256(f"{kind.group}/{kind.version}/{kind.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def _make_resource_discovery(kind: Kind) -> apidiscovery_v2.APIResourceDiscovery:
    return apidiscovery_v2.APIResourceDiscovery(
        resource=kind.plural,
        response_kind=GroupVersionKind(group=kind.group, version=kind.version, kind=kind.kind),
        scope="Namespaced" if kind.namespaced else "Cluster",
        singular_resource=kind.singular,
        verbs=[*kind.verbs],
        short_names=[*kind.short_names],
        categories=[*kind.categories],
        subresources=[_make_subresource_discovery(kind, each) for each in kind.subresources],
    )


def _make_subresource_discovery(kind: Kind, subresource: Subresource) -> apidiscovery_v2.APISubresourceDiscovery:
    group, version = subresource.group_version or kind.group_version
    name = subresource.kind or kind.kind
    return apidiscovery_v2.APISubresourceDiscovery(
        subresource=subresource.name,
        response_kind=GroupVersionKind(group=group, version=version, kind=name),
        verbs=[*subresource.verbs],
    )
