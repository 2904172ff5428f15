"""OpenAPI, versions 2 and 3, made from the API types: for `kubectl explain` and client generators.

`/openapi/v3` lists a document for each group-version, with a hash in its URL so that clients can cache it;
`/openapi/v2` is one document for everything, as JSON or, for kubectl, as protobuf. Documents are made in a thread when
they are first requested, and cached. Read next: ``schemas.py``, ``operations.py``, ``protobuf.py``.
"""

import asyncio
import hashlib
from collections.abc import Callable
from typing import Any

import msgspec

import mooring
from mooring.api import errors
from mooring.api.kinds import GroupVersion, Kind
from mooring.api.meta_v1 import VersionInfo
from mooring.api.scheme import Scheme
from mooring.apiserver.messages.http import JSON, Request, Response
from mooring.apiserver.output.openapi import protobuf
from mooring.apiserver.output.openapi.operations import Operations
from mooring.apiserver.output.openapi.schemas import Dialect, Schemas

_V2 = "/openapi/v2"
_V3 = "/openapi/v3"
_FOREVER = "public, immutable, max-age=31536000"


class OpenApi:
    """Serves the OpenAPI documents (versions 2 and 3) of a scheme's kinds."""

    def __init__(self, scheme: Scheme, version: VersionInfo) -> None:
        self._scheme = scheme
        self._info = {"title": "Mooring", "version": version.git_version}
        self._documents: dict[str, asyncio.Task[bytes]] = {}
        self._changes = scheme.changes

    @property
    def _group_versions(self) -> dict[str, GroupVersion]:
        scheme = self._scheme
        return {
            f"apis/{where.group}/{where.version}" if where.group else f"api/{where.version}": where
            for group in scheme.groups
            for where in (GroupVersion(group, version) for version in scheme.versions(group))
        }

    async def handle(self, request: Request) -> Response | None:
        """Return the response for an OpenAPI path, None for others; raise NotAcceptable for formats like YAML."""
        path = request.path.rstrip("/")
        if self._changes != self._scheme.changes:
            self._documents.clear()
            self._changes = self._scheme.changes
        if path == _V2:
            if protobuf.ACCEPTED in request.headers.get("accept", ""):
                return await self._respond_cached(
                    request, "protobuf", lambda: protobuf.encode_document(self.build_v2()), protobuf.MEDIA_TYPE
                )
            _check_json(request)
            return await self._respond_cached(request, path, lambda: msgspec.json.encode(self.build_v2()))
        if path == _V3:
            paths = {
                place: {"serverRelativeURL": f"{_V3}/{place}?hash={self._hash_document(where)}"}
                for place, where in self._group_versions.items()
            }
            return Response(200, msgspec.json.encode({"paths": paths}), JSON)
        where = self._group_versions.get(path.removeprefix(f"{_V3}/")) if path.startswith(f"{_V3}/") else None
        if where is None:
            return None
        _check_json(request)
        response = await self._respond_cached(request, path, lambda: msgspec.json.encode(self.build_v3(where)))
        if request.parameter("hash") == self._hash_document(where):
            response.headers["cache-control"] = _FOREVER
        return response

    def build_v2(self) -> dict[str, Any]:
        """Return the OpenAPI v2 document."""
        schemas = Schemas(Dialect.V2, self._scheme.served)
        operations = Operations(self._scheme, schemas, Dialect.V2)
        paths: dict[str, Any] = {}
        for where in self._group_versions.values():
            paths |= operations.build_paths(where)
        return {
            "swagger": "2.0",
            "info": self._info,
            "paths": paths,
            "definitions": dict(sorted(schemas.definitions.items())),
            "securityDefinitions": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
            "security": [{"BearerToken": []}],
        }

    def build_v3(self, where: GroupVersion) -> dict[str, Any]:
        """Return the OpenAPI v3 document of one group and version."""
        schemas = Schemas(Dialect.V3, self._scheme.served)
        paths = Operations(self._scheme, schemas, Dialect.V3).build_paths(where)
        return {
            "openapi": "3.0.0",
            "info": self._info,
            "paths": paths,
            "components": {
                "schemas": dict(sorted(schemas.definitions.items())),
                "securitySchemes": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header"}},
            },
        }

    def _hash_document(self, where: GroupVersion) -> str:
        kinds = [_describe_kind_version(kind) for kind in self._scheme.resources(*where)]
        text = "\n".join([mooring.__version__, self._info["version"], where.api_version, *kinds])
        return hashlib.sha256(text.encode()).hexdigest().upper()

    async def _respond_cached(
        self, request: Request, name: str, make: Callable[[], bytes], media_type: str = JSON
    ) -> Response:
        if name not in self._documents:
            self._documents[name] = asyncio.create_task(asyncio.to_thread(make), name=f"making {name}")
        try:
            body = await asyncio.shield(self._documents[name])
        except Exception:
            self._documents.pop(name, None)  # next time it may work
            raise
        tag = f'"{hashlib.sha256(body).hexdigest().upper()}"'
        if request.headers.get("if-none-match") == tag:
            return Response(304, b"", media_type, {"etag": tag})
        return Response(200, body, media_type, {"etag": tag, "vary": "Accept"})


def _describe_kind_version(kind: Kind) -> str:
    facts = kind.custom
    definition = f" {facts.definition.metadata.uid} {facts.definition.metadata.generation}" if facts else ""
    return f"{kind.kind}/{kind.plural}{definition}"


def _check_json(request: Request) -> None:
    """Raise NotAcceptable unless the client prefers JSON to all other formats except protobuf."""
    if request.negotiate_format(protobuf=False).format != "json":
        raise errors.not_acceptable([JSON])
