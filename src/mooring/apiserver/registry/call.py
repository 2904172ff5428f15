"""One request for objects of a kind, as its handlers see it."""

import msgspec

from mooring.api import errors
from mooring.api.kinds import Kind
from mooring.api.response_limits import add_warning
from mooring.apiserver.messages.http import Accepted, Request
from mooring.apiserver.registry.storage.stored import Stored


class Call(msgspec.Struct):
    """One request for a kind's objects: request, route, kind, response format, and the warnings so far."""

    request: Request
    kind: Kind
    stored: Stored
    namespace: str
    name: str
    subresource: str
    accepted: Accepted
    warnings: list[str] = []

    def not_found(self) -> errors.NotFound:
        return errors.not_found(self.kind.plural, self.name, group=self.kind.group)

    def warn(self, *texts: str) -> None:
        for text in texts:
            add_warning(self.warnings, text)
