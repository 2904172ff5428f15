"""The record of a request and its response for metrics, the access log and the audit log."""

from datetime import datetime

import msgspec

from mooring.api.authentication_v1 import UserInfo
from mooring.apiserver.messages.http import Request
from mooring.apiserver.messages.routes import ResourceRoute


class Exchange(msgspec.Struct):
    """A request, its user and route, and how it ended."""

    request: Request
    received: datetime
    started: float
    """The monotonic time when it was received."""
    route: ResourceRoute | None = None
    verb: str = ""
    """Kubernetes' verb; the method in lower case for paths that are no resources."""
    user: UserInfo | None = None
    """The authenticated user; the request's own user is the impersonated one."""
    address: str = ""
    """The client's address; empty within the process."""
    created: tuple[str, str] = ("", "")
    """Name and uid of a created object, for the audit log."""
    code: int = 0
    reason: str = ""
    """The reason of the Status for a failure."""
    allowed_by: str = ""
    """The reason of the authorizer."""
    seconds: float = 0.0
    bytes_sent: int = 0
    streaming: bool = False
    """Whether it lasts until a side ends it, as a watch does."""

    @property
    def is_stream(self) -> bool:
        """Return whether the request is for a node: logs, exec, attach, port-forward or a proxy."""
        return self.route is not None and bool(self.route.subresource) and self.route.streams
