"""Failed requests: each error's message, reason, code and details, and the way back from a Status."""

from dataclasses import dataclass

import pytest

from mooring.api import errors
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import Status, StatusCause

pytestmark = pytest.mark.req("S.1")


@dataclass(frozen=True)
class Case:
    error: StatusError
    reason: str
    code: int
    message: str

    @property
    def id(self) -> str:
        return self.message


CASES = [
    Case(errors.bad_request("no"), "BadRequest", 400, "no"),
    Case(errors.unauthorized(), "Unauthorized", 401, "Unauthorized"),
    Case(errors.forbidden("pods", "p", "why"), "Forbidden", 403, 'pods "p" is forbidden: why'),
    Case(
        errors.forbidden("deployments", "", "why", group="apps"), "Forbidden", 403, "deployments.apps is forbidden: why"
    ),
    Case(errors.forbidden("", "", "why"), "Forbidden", 403, "forbidden: why"),
    Case(errors.not_found("pods", "p"), "NotFound", 404, 'pods "p" not found'),
    Case(errors.not_found("jobs", "j", group="batch"), "NotFound", 404, 'jobs.batch "j" not found'),
    Case(errors.path_not_found(), "NotFound", 404, "the server could not find the requested resource"),
    Case(
        errors.method_not_allowed("patch", "pods"),
        "MethodNotAllowed",
        405,
        'patch is not supported on resources of kind "pods"',
    ),
    Case(errors.not_acceptable(["a", "b"]), "NotAcceptable", 406, "only the following media types are accepted: a, b"),
    Case(errors.already_exists("pods", "p"), "AlreadyExists", 409, 'pods "p" already exists'),
    Case(
        errors.generate_name_conflict("pods", "p"),
        "AlreadyExists",
        409,
        'pods "p" already exists, the server was not able to generate a unique name for the object',
    ),
    Case(
        errors.conflict("pods", "p"),
        "Conflict",
        409,
        'Operation cannot be fulfilled on pods "p": the object has been modified; '
        "please apply your changes to the latest version and try again",
    ),
    Case(errors.apply_conflict([StatusCause(field=".spec")], "one conflict"), "Conflict", 409, "one conflict"),
    Case(errors.gone("old"), "Gone", 410, "old"),
    Case(errors.expired("too old"), "Expired", 410, "too old"),
    Case(
        errors.request_entity_too_large("limit is 5"),
        "RequestEntityTooLarge",
        413,
        "Request entity too large: limit is 5",
    ),
    Case(
        errors.unsupported_media_type(["a"]),
        "UnsupportedMediaType",
        415,
        "the body of the request was in an unknown format - accepted media types include: a",
    ),
    Case(errors.invalid("Pod", "p", []), "Invalid", 422, 'Pod "p" is invalid'),
    Case(errors.too_many_requests("busy", 5), "TooManyRequests", 429, "busy"),
    Case(errors.internal_error("oops"), "InternalError", 500, "Internal error occurred: oops"),
    Case(errors.service_unavailable("not now"), "ServiceUnavailable", 503, "not now"),
    Case(errors.timeout("slow", 3), "Timeout", 504, "Timeout: slow"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_client_gets_the_status(case: Case) -> None:
    status = case.error.status
    assert (status.kind, status.api_version, status.status) == ("Status", "v1", "Failure")
    assert (status.reason, status.code, status.message) == (case.reason, case.code, case.message)
    assert str(case.error) == case.message


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_client_gets_the_same_exception_back(case: Case) -> None:
    again = errors.from_status(case.error.status)
    assert type(again) is type(case.error)
    assert again.status == case.error.status


def test_a_status_of_an_unknown_reason_is_classified_by_its_code() -> None:
    assert type(errors.from_status(Status(code=404))) is errors.NotFound
    assert type(errors.from_status(Status(code=500))) is errors.InternalError
    assert type(errors.from_status(Status(code=409))) is errors.AlreadyExists
    assert type(errors.from_status(Status(code=418))) is StatusError


def test_details_name_the_object_and_when_to_come_back() -> None:
    details = errors.not_found("jobs", "j", group="batch").status.details
    assert details is not None
    assert (details.kind, details.name, details.group) == ("jobs", "j", "batch")
    wait = errors.too_many_requests("busy", 5).status.details
    assert wait is not None
    assert wait.retry_after_seconds == 5


def test_an_expired_version_is_gone() -> None:
    with pytest.raises(errors.Gone):
        raise errors.expired("too old")
