"""A typed client of the server for itself, as the user `system:apiserver`, without authorization.

The server writes its own objects with it, such as roles and the Service `kubernetes`, through admission.
"""

from collections.abc import Callable
from typing import TypeVar

from mooring.api import codec, errors
from mooring.api.meta_v1 import Resource
from mooring.apiserver.messages import users
from mooring.apiserver.messages.http import Request
from mooring.apiserver.messages.routes import ResourceRoute
from mooring.apiserver.registry.handler import Resources
from mooring.apiserver.registry.storage.objects import Objects

R = TypeVar("R", bound=Resource)


class LoopbackClient:
    """Reads and writes this server's own objects through admission, as `system:apiserver`, in the newest versions."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        context = resources.context
        self._scheme = context.kinds.scheme
        objects = Objects(context.store, self._scheme)
        self.get, self.list = objects.get, objects.list

    async def create(self, obj: Resource) -> None:
        await self._call("POST", obj)

    async def update(self, obj: Resource, subresource: str = "") -> None:
        await self._call("PUT", obj, subresource)

    async def delete(self, obj: Resource) -> None:
        await self._call("DELETE", obj)

    async def ensure(self, wanted: R, complete: Callable[[R, R], bool] | None = None) -> bool:
        """Create an object, or update the stored one if `complete` changes it; return False on a write conflict."""
        meta = wanted.metadata
        current = await self.get(type(wanted), meta.name, meta.namespace)
        try:
            if current is None:
                await self.create(wanted)
            elif complete is not None and complete(current, wanted):
                await self.update(current)
        except (errors.AlreadyExists, errors.Conflict, errors.NotFound):
            return False  # another server writes it
        return True

    async def _call(self, method: str, obj: Resource, subresource: str = "") -> None:
        kind, meta = self._scheme.hub_of(type(obj)), obj.metadata
        obj.kind, obj.api_version = kind.kind, kind.api_version
        route = ResourceRoute(kind, meta.namespace, "" if method == "POST" else meta.name, subresource)
        body = b"" if method == "DELETE" else codec.encode(obj)
        headers = {"user-agent": "mooring-apiserver"}
        await self._resources.handle(
            Request(method=method, path="", body=body, user=users.SERVER, headers=headers), route
        )
