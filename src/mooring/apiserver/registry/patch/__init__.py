"""Patches: turn a request body into a function that changes the JSON tree of an object.

    json_patch  operations on paths (`application/json-patch+json`)
    strategic   an object that is merged into another: lists replace the old ones (`application/merge-patch+json`), or
                are merged by key (`application/strategic-merge-patch+json`), as `schema` defines

Server-side apply is in ``mooring.apiserver.registry.apply``. Called by ``registry/verbs/changes.py``.
"""

from collections.abc import Callable
from itertools import chain, repeat
from typing import Any

import msgspec

from mooring.api import errors as api_errors
from mooring.api.codec import DecodeError, TooLargeError, max_elements, read_json
from mooring.api.kinds import Kind
from mooring.apiserver.registry.patch.json_patch import Inapplicable, PatchError, apply, check_operations, is_shallow
from mooring.apiserver.registry.patch.schema import schema_of
from mooring.apiserver.registry.patch.strategic import merge_object, merge_values

__all__ = ["MEDIA_TYPES", "Inapplicable", "PatchError", "Patcher", "patcher_for"]

MEDIA_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
CUSTOM_MEDIA_TYPES = tuple(each for each in MEDIA_TYPES if "strategic" not in each)
"""The patch formats for custom kinds, which have no merge keys for a strategic merge."""


class Patcher(msgspec.Struct, frozen=True):
    """A decoded and validated patch of any format; its `apply` patches the JSON tree of an object."""

    apply: Callable[[Any], Any]
    """Applies the patch to an object's tree, which it may modify; returns the patched tree, or raises PatchError."""
    is_plain: bool
    """Whether the patch repeats no field, and its results nest no deeper than requests may."""


def patcher_for(media_type: str, body: bytes, kind: Kind) -> Patcher:
    """Decode the patch in a request body. Raise BadRequest if malformed, UnsupportedMediaType for another format."""
    *patches, apply_type = CUSTOM_MEDIA_TYPES if kind.custom else MEDIA_TYPES
    if media_type not in patches:
        raise api_errors.unsupported_media_type((*patches, apply_type))
    try:
        patch, is_plain = read_json(body, max_elements(kind.type))
        if media_type == "application/json-patch+json":
            check_operations(patch)
        elif not isinstance(patch, dict):
            raise PatchError("a merge patch is an object")
    except TooLargeError as error:
        raise api_errors.request_entity_too_large(str(error)) from None
    except (DecodeError, PatchError) as error:
        raise api_errors.bad_request(f"error decoding patch: {error}") from None
    # Values of a patch become part of the patched object. For another attempt after a conflict, the body is decoded
    # again, which costs less than a copy for every attempt.
    fresh = chain((patch,), (read_json(again, max_elements(kind.type))[0] for again in repeat(body)))
    if media_type == "application/json-patch+json":
        return Patcher(lambda tree: apply(next(fresh), tree), is_plain and is_shallow(patch))
    if media_type == "application/merge-patch+json":
        return Patcher(lambda tree: merge_values(tree, next(fresh)), is_plain)
    node = schema_of(kind.type)
    return Patcher(lambda tree: merge_object(tree, next(fresh), node), is_plain)
