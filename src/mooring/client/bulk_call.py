"""One call for many objects, where the server offers it: Mooring does, Kubernetes does not.

`bulk_binding` and `bulk_claims` are such calls. The outcome for each object is a value, because in a group some succeed
and some do not.
"""

from typing import TypeAlias

from mooring.api import codec, errors
from mooring.api.base import required
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import ResourceList, Status
from mooring.base import logs
from mooring.client.client import Client
from mooring.client.errors import DisconnectedError, TransportError

log = logs.get(__name__)

Failure: TypeAlias = StatusError | TransportError
"""Why something was not done. After `TransportError` it may have been done or not."""


class StatusList(ResourceList):
    """What comes back, in the order of what was sent."""

    items: list[Status] = required(list)


class BulkCall:
    """A call that a server may have or not."""

    def __init__(self, client: Client, method: str, path: str) -> None:
        self._client = client
        self._method = method
        self._path = path
        self.is_offered = True
        """Whether the server has the call, as far as is known."""

    async def send(self, objects: ResourceList, count: int) -> list[Status | Failure] | None:
        """What became of each object, in the same order; None where the server does not offer it, and from then on."""
        try:
            response = await self._client.raw(self._method, self._path, body=codec.encode(objects))
            statuses = codec.decode_own(response.body, StatusList).items
        except (errors.NotFound, errors.MethodNotAllowed, errors.Forbidden) as error:
            log.info("this server has no call for many at once: %s", error)
            self.is_offered = False
            return None
        except (StatusError, TransportError) as error:
            return [error] * count
        if len(statuses) != count:
            return [DisconnectedError(f"the server answered {count} objects with {len(statuses)} outcomes")] * count
        return [status if status.status == "Success" else errors.from_status(status) for status in statuses]
