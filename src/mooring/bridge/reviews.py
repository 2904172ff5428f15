"""Read and write AdmissionReviews. Called by ``webhooks.py``, ``evictions.py`` and ``serving.py``."""

import base64
import json
from collections.abc import Mapping
from typing import Any

from mooring.api import codec
from mooring.api.codec import DecodeError, FieldValidation

Json = dict[str, Any]


class ReviewError(ValueError):
    """A body that is no AdmissionReview."""


def parse_review(body: bytes) -> tuple[Json, str, str]:
    """Return the request in an AdmissionReview, its uid and its version. Raise ReviewError."""
    try:
        review = json.loads(body)
        request = review["request"]
        return request, str(request["uid"]), str(review["apiVersion"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ReviewError("this is no AdmissionReview") from error


def encode_review(response: Json, uid: str, version: str) -> bytes:
    """Return the body of the response."""
    return json.dumps({"apiVersion": version, "kind": "AdmissionReview", "response": {"uid": uid, **response}}).encode()


def object_in(request: Mapping[str, Any], name: str, cls: Any) -> Any:
    try:
        return codec.decode_tree(request.get(name), cls, FieldValidation.IGNORE).object
    except DecodeError as error:
        raise ReviewError(f"request.{name}: {error}") from error


def allowed(patch: list[Json] | None = None) -> Json:
    if not patch:
        return {"allowed": True}
    return {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}


def refused(code: int, message: str) -> Json:
    return {"allowed": False, "status": {"code": code, "message": message}}
