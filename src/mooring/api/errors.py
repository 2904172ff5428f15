"""API errors: a `Status`, and an exception that carries it.

Catch the classes; create them with the function of the same name in lower case, which formats Kubernetes' messages:
`raise errors.not_found("pods", "web-1")`. Clients create them from responses with `from_status`.
"""

# ruff: noqa: N818 - the exceptions have the names of the reasons, which the API fixes

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from mooring.api.field_errors import FieldError
from mooring.api.meta_v1 import Status, StatusCause, StatusDetails
from mooring.api.quoting import go_quote
from mooring.api.response_limits import MAX_CAUSES, MAX_QUOTED, MAX_TEXT, shorten

E = TypeVar("E", bound="StatusError")
_BY_REASON: "dict[str, type[StatusError]]" = {}
_BY_CODE: "dict[int, type[StatusError]]" = {}
"""By code, the first class below that has it."""


class StatusError(Exception):
    """A request failed; `status` is the response. A subclass stands for the reason with its name."""

    reason = ""
    code = 500

    def __init_subclass__(cls, *, code: int) -> None:
        cls.reason, cls.code = cls.__name__, code
        _BY_REASON[cls.reason] = cls
        _BY_CODE.setdefault(code, cls)

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status
        self.warnings: Sequence[str] = ()
        """What the client is warned of besides, in headers."""


class BadRequest(StatusError, code=400):
    """The request is malformed: correct it."""


class Unauthorized(StatusError, code=401):
    """The client is not authenticated: log in."""


class Forbidden(StatusError, code=403):
    """The user is not authorized, or a policy rejects the request."""


class NotFound(StatusError, code=404):
    """There is no such object or path."""


class MethodNotAllowed(StatusError, code=405):
    """The resource has no such verb."""


class NotAcceptable(StatusError, code=406):
    """The server supports none of the media types that the client accepts."""


class AlreadyExists(StatusError, code=409):
    """An object of this name exists: choose another name, or update it."""


class Conflict(StatusError, code=409):
    """The object changed meanwhile: read it again and repeat. For apply: another manager owns the field."""


class Gone(StatusError, code=410):
    """The object existed once: start again with a list."""


class Expired(Gone, code=410):
    """The resource version or continue token is too old: start again with a list."""


class RequestEntityTooLarge(StatusError, code=413):
    """The body exceeds the server's limit."""


class UnsupportedMediaType(StatusError, code=415):
    """The server does not decode this media type."""


class Invalid(StatusError, code=422):
    """The object fails validation; the causes name the fields."""


class TooManyRequests(StatusError, code=429):
    """Wait for `retryAfterSeconds`, then repeat."""


class InternalError(StatusError, code=500):
    """A bug of the server."""


class ServerTimeout(StatusError, code=500):
    """The server could not finish in time: retry."""


class ServiceUnavailable(StatusError, code=503):
    """The server is not available now: retry later."""


class Timeout(StatusError, code=504):
    """The request timed out. A write may still have happened: check before retrying."""


def from_status(status: Status) -> StatusError:
    """Return the exception for a Status from a server, by its reason or else its code."""
    cls = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code, StatusError)
    return cls(status)


def _of_message(cls: type[E]) -> Callable[[str], E]:
    """Return a function that creates an error of a class from its message."""
    return lambda message: cls(_failure(cls, message))


bad_request = _of_message(BadRequest)
gone = _of_message(Gone)
expired = _of_message(Expired)
service_unavailable = _of_message(ServiceUnavailable)


def unauthorized() -> Unauthorized:
    return Unauthorized(_failure(Unauthorized, "Unauthorized"))


def forbidden(resource: str, name: str, why: str, *, group: str = "") -> Forbidden:
    """Return `pods "p" is forbidden: why`; without a resource `forbidden: why`."""
    subject = f"{_qualify(resource, group)} {go_quote(name)}" if name else _qualify(resource, group)
    message = f"{subject} is forbidden: {why}" if resource else f"forbidden: {why}"
    return Forbidden(_failure(Forbidden, message, _details(resource, name, group)))


def not_found(resource: str, name: str, *, group: str = "") -> NotFound:
    """Return `pods "p" not found`."""
    message = f"{_qualify(resource, group)} {go_quote(name)} not found"
    return NotFound(_failure(NotFound, message, _details(resource, name, group)))


def path_not_found() -> NotFound:
    """Return the error for an unknown path."""
    message = "the server could not find the requested resource"
    return NotFound(_failure(NotFound, message, StatusDetails()))


def method_not_allowed(verb: str, resource: str, *, group: str = "") -> MethodNotAllowed:
    """Return `patch is not supported on resources of kind "pods"`."""
    message = f"{verb} is not supported on resources of kind {go_quote(_qualify(resource, group))}"
    return MethodNotAllowed(_failure(MethodNotAllowed, message, _details(resource, "", group)))


def not_acceptable(media_types: Sequence[str]) -> NotAcceptable:
    """Return the error that lists the supported response media types."""
    message = f"only the following media types are accepted: {', '.join(media_types)}"
    return NotAcceptable(_failure(NotAcceptable, message))


def unsupported_media_type(media_types: Sequence[str]) -> UnsupportedMediaType:
    """Return the error that lists the supported request media types."""
    accepted = ", ".join(media_types)
    message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    return UnsupportedMediaType(_failure(UnsupportedMediaType, message))


def already_exists(resource: str, name: str, *, group: str = "") -> AlreadyExists:
    """Return `pods "p" already exists`."""
    message = f"{_qualify(resource, group)} {go_quote(name)} already exists"
    return AlreadyExists(_failure(AlreadyExists, message, _details(resource, name, group)))


def generate_name_conflict(resource: str, name: str, *, group: str = "") -> AlreadyExists:
    """Return the error for a `generateName` of which all generated names were taken."""
    message = (
        f"{_qualify(resource, group)} {go_quote(name)} already exists, "
        "the server was not able to generate a unique name for the object"
    )
    details = _details(resource, name, group)
    details.retry_after_seconds = 1
    return AlreadyExists(_failure(AlreadyExists, message, details))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: str, name: str, why: str = MODIFIED, *, group: str = "") -> Conflict:
    """Return `Operation cannot be fulfilled on pods "p": why`."""
    message = f"Operation cannot be fulfilled on {_qualify(resource, group)} {go_quote(name)}: {why}"
    return Conflict(_failure(Conflict, message, _details(resource, name, group)))


def apply_conflict(causes: Iterable[StatusCause], message: str) -> Conflict:
    """Return the conflict of an apply with other field managers, with a cause for each field."""
    return Conflict(_failure(Conflict, message, StatusDetails(causes=list(causes))))


def request_entity_too_large(why: str) -> RequestEntityTooLarge:
    """Return `Request entity too large: why`."""
    return RequestEntityTooLarge(_failure(RequestEntityTooLarge, f"Request entity too large: {why}"))


def invalid(kind: str, name: str, errors: Sequence[FieldError], *, group: str = "") -> Invalid:
    """Return `Pod "p" is invalid: spec.x: Required value` with a cause for each field error."""
    message = f"{_qualify(kind, group)} {go_quote(name)} is invalid"
    causes = _causes(errors)
    texts = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    if len(causes) < len(errors):
        texts.append(f"and more: only the first {len(causes)} problems are listed")
    if texts:
        message += f": {texts[0]}" if len(texts) == 1 else f": [{', '.join(texts)}]"
    details = _details(kind, name, group)
    details.causes = causes
    return Invalid(_failure(Invalid, message, details))


def _causes(errors: Sequence[FieldError]) -> list[StatusCause]:
    causes: list[StatusCause] = []
    room = MAX_TEXT
    for error in errors[:MAX_CAUSES]:
        cause = StatusCause(reason=error.type.value, message=error.body, field=error.field)
        room -= len(cause.message) + len(cause.field)
        if causes and room < 0:
            break
        causes.append(cause)
    return causes


def too_many_requests(message: str, retry_after_seconds: int = 1) -> TooManyRequests:
    """Return the error with this message and Retry-After."""
    details = StatusDetails(retry_after_seconds=retry_after_seconds)
    return TooManyRequests(_failure(TooManyRequests, message, details))


def internal_error(why: str) -> InternalError:
    """Return `Internal error occurred: why`."""
    details = StatusDetails(causes=[StatusCause(message=why)])
    return InternalError(_failure(InternalError, f"Internal error occurred: {why}", details))


def version_on_create() -> StatusError:
    """Return `resourceVersion should not be set on objects to be created`."""
    return StatusError(_failure(StatusError, "resourceVersion should not be set on objects to be created"))


def timeout(why: str, retry_after_seconds: int = 0) -> Timeout:
    """Return `Timeout: why`."""
    return Timeout(_failure(Timeout, f"Timeout: {why}", StatusDetails(retry_after_seconds=retry_after_seconds)))


_MAX_MESSAGE = 2 * MAX_TEXT
"""The limit of a whole message, which may contain the messages of all causes."""


def _qualify(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


def _details(resource: str, name: str, group: str) -> StatusDetails:
    return StatusDetails(name=shorten(name, MAX_QUOTED), group=group, kind=resource)


def _failure(cls: type[StatusError], message: str, details: StatusDetails | None = None) -> Status:
    if details is not None:
        details.causes = details.causes[:MAX_CAUSES]
        for cause in details.causes:
            cause.message, cause.field = shorten(cause.message), shorten(cause.field, MAX_QUOTED)
    return Status(
        kind="Status",
        api_version="v1",
        status="Failure",
        message=shorten(message, _MAX_MESSAGE),
        reason=cls.reason,
        details=details,
        code=cls.code,
    )
