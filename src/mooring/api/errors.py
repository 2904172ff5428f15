"""What a client of the API is told when a request fails: a `Status`, and an exception to carry it.

    StatusError
    ├── BadRequest              400  the request makes no sense
    ├── Unauthorized            401  nobody knows who is asking
    ├── Forbidden               403  who is asking may not
    ├── NotFound                404  no such object or path
    ├── MethodNotAllowed        405  the resource has no such verb
    ├── NotAcceptable           406  no format that the client takes
    ├── AlreadyExists           409  create of a name that is taken
    ├── Conflict                409  the object changed meanwhile, or another manager owns the field
    ├── Gone                    410  the version asked for is no longer there
    │   └── Expired             410  likewise; Kubernetes' reason for lists and watches
    ├── RequestEntityTooLarge   413  more than the server reads
    ├── UnsupportedMediaType    415  a format that the server does not read
    ├── Invalid                 422  the object breaks the rules of its kind
    ├── TooManyRequests         429  come back later
    ├── InternalError           500  a mistake of the server
    ├── ServerTimeout           500  could not be done in time, try again
    ├── ServiceUnavailable      503  not now
    └── Timeout                 504  took too long; it may still happen

Catch the classes; make them with the function of the same name in lower case, which knows Kubernetes' words:
`raise errors.not_found("pods", "web-1")`. A client makes them from what it received with `from_status`.
"""

# ruff: noqa: N818 - the exceptions have the names of the reasons, which the API fixes

from collections.abc import Iterable, Sequence

from mooring.api.answer_limits import MAX_CAUSES, MAX_QUOTED, MAX_TEXT, shortened
from mooring.api.field_errors import FieldError
from mooring.api.meta_v1 import Status, StatusCause, StatusDetails
from mooring.api.quoting import quoted


class StatusError(Exception):
    """A request failed; `status` is what the client is told."""

    reason = ""
    code = 500

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class BadRequest(StatusError):
    """The request makes no sense: correct it."""

    reason, code = "BadRequest", 400


class Unauthorized(StatusError):
    """The server does not know who is asking: log in."""

    reason, code = "Unauthorized", 401


class Forbidden(StatusError):
    """Who is asking may not do this, or a policy refuses it."""

    reason, code = "Forbidden", 403


class NotFound(StatusError):
    """There is no such object or path."""

    reason, code = "NotFound", 404


class MethodNotAllowed(StatusError):
    """The resource has no such verb."""

    reason, code = "MethodNotAllowed", 405


class NotAcceptable(StatusError):
    """The server has none of the formats that the client takes."""

    reason, code = "NotAcceptable", 406


class AlreadyExists(StatusError):
    """An object of this name exists: choose another name, or update it."""

    reason, code = "AlreadyExists", 409


class Conflict(StatusError):
    """The object changed meanwhile: read it again and repeat. For apply: another manager owns the field."""

    reason, code = "Conflict", 409


class Gone(StatusError):
    """What was asked for existed once: start again with a list."""

    reason, code = "Gone", 410


class Expired(Gone):
    """The resource version or continue token is too old: start again with a list."""

    reason, code = "Expired", 410


class RequestEntityTooLarge(StatusError):
    """The request is larger than the server reads."""

    reason, code = "RequestEntityTooLarge", 413


class UnsupportedMediaType(StatusError):
    """The server does not read this format."""

    reason, code = "UnsupportedMediaType", 415


class Invalid(StatusError):
    """The object breaks the rules of its kind; the causes name the fields."""

    reason, code = "Invalid", 422


class TooManyRequests(StatusError):
    """Wait for `retryAfterSeconds`, then repeat."""

    reason, code = "TooManyRequests", 429


class InternalError(StatusError):
    """A mistake of the server, not of the client."""

    reason, code = "InternalError", 500


class ServerTimeout(StatusError):
    """The server could not do it in time: repeat."""

    reason, code = "ServerTimeout", 500


class ServiceUnavailable(StatusError):
    """The server cannot serve at present: repeat later."""

    reason, code = "ServiceUnavailable", 503


class Timeout(StatusError):
    """It took too long. A write may still have happened: look before repeating."""

    reason, code = "Timeout", 504


_CLASSES: tuple[type[StatusError], ...] = (
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    AlreadyExists,
    Conflict,
    Gone,
    Expired,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    InternalError,
    ServerTimeout,
    ServiceUnavailable,
    Timeout,
)
_BY_REASON = {cls.reason: cls for cls in _CLASSES}
_BY_CODE = {cls.code: cls for cls in reversed(_CLASSES)}


def from_status(status: Status) -> StatusError:
    """The exception for a Status that a server sent, by its reason or else its code."""
    cls = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code, StatusError)
    return cls(status)


def bad_request(message: str) -> BadRequest:
    """`message`, as it is."""
    return BadRequest(_failure(BadRequest, message))


def unauthorized(message: str = "Unauthorized") -> Unauthorized:
    """`message`, as it is."""
    return Unauthorized(_failure(Unauthorized, message))


def forbidden(resource: str, name: str, why: str, *, group: str = "") -> Forbidden:
    """`pods "p" is forbidden: why`; without a resource `forbidden: why`."""
    subject = f"{_qualified(resource, group)} {quoted(name)}" if name else _qualified(resource, group)
    message = f"{subject} is forbidden: {why}" if resource else f"forbidden: {why}"
    return Forbidden(_failure(Forbidden, message, _details(resource, name, group)))


def not_found(resource: str, name: str, *, group: str = "") -> NotFound:
    """`pods "p" not found`."""
    message = f"{_qualified(resource, group)} {quoted(name)} not found"
    return NotFound(_failure(NotFound, message, _details(resource, name, group)))


def path_not_found() -> NotFound:
    """A path that the server does not have."""
    message = "the server could not find the requested resource"
    return NotFound(_failure(NotFound, message, StatusDetails()))


def method_not_allowed(verb: str, resource: str, *, group: str = "") -> MethodNotAllowed:
    """`patch is not supported on resources of kind "pods"`."""
    message = f"{verb} is not supported on resources of kind {quoted(_qualified(resource, group))}"
    return MethodNotAllowed(_failure(MethodNotAllowed, message, _details(resource, "", group)))


def not_acceptable(media_types: Sequence[str]) -> NotAcceptable:
    """Names the formats that the server has."""
    message = f"only the following media types are accepted: {', '.join(media_types)}"
    return NotAcceptable(_failure(NotAcceptable, message))


def unsupported_media_type(media_types: Sequence[str]) -> UnsupportedMediaType:
    """Names the formats that the server reads."""
    accepted = ", ".join(media_types)
    message = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    return UnsupportedMediaType(_failure(UnsupportedMediaType, message))


def already_exists(resource: str, name: str, *, group: str = "") -> AlreadyExists:
    """`pods "p" already exists`."""
    message = f"{_qualified(resource, group)} {quoted(name)} already exists"
    return AlreadyExists(_failure(AlreadyExists, message, _details(resource, name, group)))


def generate_name_conflict(resource: str, name: str, *, group: str = "") -> AlreadyExists:
    """All names that the server made up for `generateName` were taken."""
    message = (
        f"{_qualified(resource, group)} {quoted(name)} already exists, "
        "the server was not able to generate a unique name for the object"
    )
    details = _details(resource, name, group)
    details.retry_after_seconds = 1
    return AlreadyExists(_failure(AlreadyExists, message, details))


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: str, name: str, why: str = MODIFIED, *, group: str = "") -> Conflict:
    """`Operation cannot be fulfilled on pods "p": why`."""
    message = f"Operation cannot be fulfilled on {_qualified(resource, group)} {quoted(name)}: {why}"
    return Conflict(_failure(Conflict, message, _details(resource, name, group)))


def apply_conflict(causes: Iterable[StatusCause], message: str) -> Conflict:
    """Other managers own fields that an apply would change; a cause for each."""
    return Conflict(_failure(Conflict, message, StatusDetails(causes=list(causes))))


def gone(message: str) -> Gone:
    """`message`, as it is."""
    return Gone(_failure(Gone, message))


def expired(message: str) -> Expired:
    """`message`, as it is."""
    return Expired(_failure(Expired, message))


def request_entity_too_large(why: str) -> RequestEntityTooLarge:
    """`Request entity too large: why`."""
    return RequestEntityTooLarge(_failure(RequestEntityTooLarge, f"Request entity too large: {why}"))


def invalid(kind: str, name: str, errors: Sequence[FieldError], *, group: str = "") -> Invalid:
    """`Pod "p" is invalid: spec.x: Required value`, several in brackets, with a cause for each field error."""
    message = f"{_qualified(kind, group)} {quoted(name)} is invalid"
    causes = _causes(errors)
    texts = list(dict.fromkeys(f"{cause.field}: {cause.message}" for cause in causes))
    if len(causes) < len(errors):
        texts.append(f"and more: only the first {len(causes)} problems are told")
    if texts:
        message += f": {texts[0]}" if len(texts) == 1 else f": [{', '.join(texts)}]"
    details = _details(kind, name, group)
    details.causes = causes
    return Invalid(_failure(Invalid, message, details))


def _causes(errors: Sequence[FieldError]) -> list[StatusCause]:
    """The first of them, as many as an answer has room for."""
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
    """`message`, as it is, and when to come back."""
    details = StatusDetails(retry_after_seconds=retry_after_seconds)
    return TooManyRequests(_failure(TooManyRequests, message, details))


def internal_error(why: str) -> InternalError:
    """`Internal error occurred: why`."""
    details = StatusDetails(causes=[StatusCause(message=why)])
    return InternalError(_failure(InternalError, f"Internal error occurred: {why}", details))


def version_on_create() -> StatusError:
    """`resourceVersion should not be set on objects to be created`."""
    return StatusError(_failure(StatusError, "resourceVersion should not be set on objects to be created"))


def service_unavailable(message: str) -> ServiceUnavailable:
    """`message`, as it is."""
    return ServiceUnavailable(_failure(ServiceUnavailable, message))


def timeout(why: str, retry_after_seconds: int = 0) -> Timeout:
    """`Timeout: why`."""
    return Timeout(_failure(Timeout, f"Timeout: {why}", StatusDetails(retry_after_seconds=retry_after_seconds)))


_MAX_MESSAGE = 2 * MAX_TEXT
"""Of a whole message, which may have the texts of all causes, and of who, what and where."""


def _qualified(resource: str, group: str) -> str:
    return f"{resource}.{group}" if group else resource


def _details(resource: str, name: str, group: str) -> StatusDetails:
    return StatusDetails(name=shortened(name, MAX_QUOTED), group=group, kind=resource)


def _failure(cls: type[StatusError], message: str, details: StatusDetails | None = None) -> Status:
    """Every error is made here, so that none is longer than ``answer_limits.py`` says."""
    if details is not None:
        details.causes = details.causes[:MAX_CAUSES]
        for cause in details.causes:
            cause.message, cause.field = shortened(cause.message), shortened(cause.field, MAX_QUOTED)
    return Status(
        kind="Status",
        api_version="v1",
        status="Failure",
        message=shortened(message, _MAX_MESSAGE),
        reason=cls.reason,
        details=details,
        code=cls.code,
    )
