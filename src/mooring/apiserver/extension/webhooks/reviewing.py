"""Build the AdmissionReview that is sent to a webhook, and validate the one it responds with.

`build_review` uses the first version that both sides support. A malformed response is a `WebhookError` with
kube-apiserver's message; a refusal is a `WebhookResponse` that does not allow the request. Called by ``step.py``.
"""

import base64
import json
from typing import Any

import msgspec

from mooring.admission.pipeline import generate_uid
from mooring.admission.policy.attributes import Attributes
from mooring.admission.policy.evaluation import build_request_tree
from mooring.admission.policy.matching import RequestView
from mooring.admission.webhook_clients import REVIEWS
from mooring.api import codec, errors
from mooring.api.codec import DecodeError, FieldValidation
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import Status
from mooring.apiserver.extension.webhooks.failures import WebhookError

GROUP, KIND = "admission.k8s.io", "AdmissionReview"
_INVALID = "received invalid webhook response: "
_FAILED = "failed to call webhook: "


class EncodedReview(msgspec.Struct, frozen=True):
    """An AdmissionReview as JSON to send, and the uid and version that its response must have."""

    version: str
    uid: str
    body: bytes


class WebhookResponse(msgspec.Struct, frozen=True):
    """A webhook's validated decision on a request: allowed or not, status, patch, warnings, audit annotations."""

    allowed: bool
    status: Status | None = None
    patch: bytes = b""
    patch_type: str = ""
    warnings: list[str] = msgspec.field(default_factory=list)
    audit_annotations: dict[str, str] = msgspec.field(default_factory=dict)


def build_review(attributes: Attributes, match: RequestView, versions: list[str]) -> EncodedReview:
    """Return the AdmissionReview of a request in a version the webhook supports; raise WebhookError without one."""
    version = next((each for each in versions if each in REVIEWS), None)
    if version is None:
        known = f"webhook does not accept known AdmissionReview versions ({', '.join(REVIEWS)})"
        raise WebhookError(f"could not create admission objects: {known}", 400)
    uid = generate_uid()
    request = {
        "uid": uid,
        **build_request_tree(attributes, match),
        "object": attributes.object_tree(match.kind),
        "oldObject": attributes.old_tree(match.kind),
        "options": attributes.options,
    }
    review = {"kind": KIND, "apiVersion": f"{GROUP}/{version}", "request": request}
    return EncodedReview(version, uid, json.dumps(review).encode())


class _ReviewResponse(msgspec.Struct, rename="camel"):
    uid: str | None = None
    allowed: bool | None = None
    status: msgspec.Raw = msgspec.Raw()
    patch: str | None = None
    patch_type: str | None = None
    audit_annotations: dict[str, str] | None = None
    warnings: list[str] | None = None


class _ReceivedReview(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""
    response: _ReviewResponse | None = None


_DECODER = msgspec.json.Decoder(_ReceivedReview)


def read_response(body: bytes, sent: EncodedReview, *, mutating: bool) -> WebhookResponse:
    """Return a webhook's response after validation; raise WebhookError if it is malformed or not for this review."""
    review = _decode_review(body)
    _check_type(review, sent.version)
    response = review.response
    if response is None:
        raise WebhookError(f"{_INVALID}webhook response was absent")
    patch, patch_type = _decode_patch(response), response.patch_type or ""
    if sent.version == "v1":
        _check_uid_and_kind(review, response, sent)
        _check_patch(response, patch, mutating=mutating)
    else:
        patch_type = "JSONPatch" if patch else ""
    return WebhookResponse(
        allowed=bool(response.allowed),
        status=_decode_status(response.status),
        patch=patch if mutating else b"",
        patch_type=patch_type,
        warnings=response.warnings or [],
        audit_annotations=response.audit_annotations or {},
    )


def _decode_review(body: bytes) -> _ReceivedReview:
    try:
        return _DECODER.decode(body)
    except msgspec.ValidationError as error:
        raise WebhookError(f"{_FAILED}{error}") from None
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise WebhookError(f"{_FAILED}couldn't get version/kind; json parse error: {error}") from None


def _check_type(review: _ReceivedReview, version: str) -> None:
    """Raise WebhookError unless a response is an AdmissionReview of the version that was sent."""
    if not review.kind and not review.api_version:
        return
    group, _, given = review.api_version.rpartition("/")
    if review.kind != KIND or group != GROUP or given not in REVIEWS:
        what = f'no kind "{review.kind}" is registered for version "{review.api_version}"'
        raise WebhookError(f"{_FAILED}{what}")
    if given != version:
        raise WebhookError(f"{_FAILED}converting ({given}.{KIND}) to ({version}.{KIND}): unknown conversion")


def _check_uid_and_kind(review: _ReceivedReview, response: _ReviewResponse, sent: EncodedReview) -> None:
    """Raise WebhookError if a v1 response lacks the kind, or its uid differs from the one sent."""
    if response.uid != sent.uid:
        got = response.uid or ""
        raise WebhookError(f'{_INVALID}expected response.uid="{sent.uid}", got "{got}"')
    if not review.kind:
        wanted = f"{GROUP}/{sent.version}, Kind={KIND}"
        raise WebhookError(f"{_INVALID}expected webhook response of {wanted}, got /, Kind=")


def _check_patch(response: _ReviewResponse, patch: bytes, *, mutating: bool) -> None:
    """Raise WebhookError if a v1 response has only one of patch and patch type, or any if not `mutating`."""
    if not mutating:
        for name, is_there in (("patch", bool(patch)), ("patchType", response.patch_type is not None)):
            if is_there:
                raise WebhookError(f"{_INVALID}validating webhook may not return response.{name}")
        return
    if patch and response.patch_type is None:
        raise WebhookError(f"{_INVALID}webhook returned response.patch but not response.patchType")
    if not patch and response.patch_type is not None:
        raise WebhookError(f"{_INVALID}webhook returned response.patchType but not response.patch")
    if response.patch_type == "":
        raise WebhookError(f'{_INVALID}webhook returned invalid response.patchType of ""')


def _decode_patch(response: _ReviewResponse) -> bytes:
    try:
        return base64.b64decode(response.patch or "", validate=True)
    except ValueError as error:
        raise WebhookError(f"{_FAILED}response.patch is no base64: {error}") from None


def _decode_status(raw: msgspec.Raw) -> Status | None:
    tree: Any = msgspec.json.decode(raw) if bytes(raw) else None
    if tree is None:
        return None
    try:
        return codec.from_tree(tree, Status, FieldValidation.IGNORE)[0]
    except DecodeError as error:
        raise WebhookError(f"{_FAILED}response.status cannot be read: {error}") from None


def make_refusal_error(name: str, status: Status | None) -> StatusError:
    """Return (not raise) the error for a request that a webhook denied: its status and message, code 400 or more."""
    status = status or Status()
    by = f'admission webhook "{name}" denied the request'
    why = status.message or status.reason
    status.kind, status.api_version = "Status", "v1"
    status.message = f"{by}: {why}" if why else f"{by} without explanation"
    status.code = max(status.code, 400)
    status.status = status.status if status.status not in ("", "Success") else "Failure"
    return errors.from_status(status)
