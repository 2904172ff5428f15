"""One request and how it ended, as metrics and logs see it. The edge fills one in and hands it to each of them."""

from datetime import datetime

import msgspec

from mooring.api.authentication_v1 import UserInfo
from mooring.apiserver.messages.http import Request
from mooring.apiserver.messages.routes import ResourceRoute


class Exchange(msgspec.Struct):
    """What was asked, by whom, and what came of it."""

    request: Request
    received: datetime
    started: float
    """The monotonic time at which it came."""
    route: ResourceRoute | None = None
    verb: str = ""
    """Kubernetes' verb; for paths that are no resources the method in lower case."""
    user: UserInfo | None = None
    """Who is asking really; the request's own user is whom they speak for."""
    address: str = ""
    """Where the request came from; empty within the process."""
    created: tuple[str, str] = ("", "")
    """Name and uid of the object that was created, for the audit log."""
    code: int = 0
    reason: str = ""
    """Why it failed, as in Status; empty if it did not."""
    allowed_by: str = ""
    """What the authorizer says."""
    seconds: float = 0.0
    bytes_sent: int = 0
    streaming: bool = False
    """Whether it lasts until somebody ends it, as a watch does."""

    @property
    def is_stream(self) -> bool:
        """Whether the request is for a node: logs, exec, attach, port-forward or a proxy."""
        return self.route is not None and bool(self.route.subresource) and self.route.streams
