"""The record of a request and its response for metrics, the access log and the audit log."""

from datetime import datetime

import msgspec

from mooring.api.authentication_v1 import UserInfo
from mooring.apiserver.messages.http import Request
from mooring.apiserver.messages.routes import ResourceRoute


class Exchange(msgspec.Struct):
    """One request with what is known of it so far (user, route, status, times), for metrics and logs."""

    request: Request
    received: datetime
    started: float
    """The monotonic time at which the request was received."""
    route: ResourceRoute | None = None
    verb: str = ""
    """Kubernetes' verb; for non-resource paths, the HTTP method in lower case."""
    user: UserInfo | None = None
    """The authenticated user; with impersonation, the request itself has the impersonated user."""
    address: str = ""
    """The client's address; empty within the process."""
    created: tuple[str, str] = ("", "")
    """The name and uid of a created object, for the audit log."""
    code: int = 0
    reason: str = ""
    """The reason in the Status of a failed request."""
    allowed_by: str = ""
    """The authorizer's reason for allowing the request."""
    seconds: float = 0.0
    bytes_sent: int = 0
    streaming: bool = False
    """Whether the response lasts until either side ends it, as that of a watch does."""

    @property
    def is_stream(self) -> bool:
        """Return whether the request streams to a node: logs, exec, attach, port-forward or a proxy."""
        return self.route is not None and bool(self.route.subresource) and self.route.streams
