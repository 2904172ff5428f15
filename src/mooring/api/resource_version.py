"""The rules of `metadata.resourceVersion`: what clients may request, and how versions compare.

A version is a decimal number that grows with every write. Clients compare for equality, and since Kubernetes 1.35 also
for order. Used by the API server (list, get, watch) and informers.
"""

import msgspec

from mooring.api import field_errors
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

EXACT = "Exact"
NOT_OLDER_THAN = "NotOlderThan"
_PATH = Path("resourceVersion")
_MATCH_PATH = Path("resourceVersionMatch")


class ResourceVersionError(ValueError):
    """The string is not a resource version; `str()` is the message of the bad request."""


def parse(text: str) -> int:
    """Parse a version; empty is 0. Raise ResourceVersionError."""
    if not text:
        return 0
    if text.isascii() and text.isdigit():
        digits = text.lstrip("0") or "0"
        version = int(digits[:21])  # more digits are out of range anyway
        if version < 1 << 64:
            return version
        why = "value out of range"
    else:
        why = "invalid syntax"
    error = field_errors.invalid(_PATH, text, f'strconv.ParseUint: parsing "{text}": {why}')
    raise ResourceVersionError(f"invalid resource version: {error}")


def compare(a: str, b: str) -> int:
    """Return -1, 0 or 1: the order of two versions of objects of one resource. Raise ResourceVersionError.

    An object's version is a positive number without leading zeros.
    """
    for version in (a, b):
        if not (version.isascii() and version.isdigit()) or version.startswith("0"):
            raise ResourceVersionError(f'resource version is not well formed: "{version}"')
    left, right = (len(a), a), (len(b), b)  # no leading zeros: the longer is the larger
    return (left > right) - (left < right)


class ListVersion(msgspec.Struct, frozen=True):
    """The requested version of a list: exactly a version, not older than one, or the latest."""

    version: int = 0
    exact: bool = False
    any_version: bool = False


def for_list(resource_version: str, match: str, continue_token: str, limit: int = 0) -> ListVersion:
    """Return the version at which a list with these parameters is read; `validate_list` must have passed.

    A continue token carries its own version. Without `resourceVersionMatch`, "0" means any version, empty the latest,
    and a number not older, or exactly that version for a paged list.
    """
    if continue_token or not resource_version:
        return ListVersion()
    version = parse(resource_version)
    if version == 0:
        return ListVersion(any_version=True)
    return ListVersion(version, exact=match == EXACT or (not match and limit > 0))


def validate_list(
    resource_version: str,
    match: str,
    continue_token: str,
    *,
    watch: bool = False,
    send_initial_events: bool | None = None,
) -> Errors:
    if watch:
        return _validate_watch(match, send_initial_events)
    if send_initial_events is not None:
        return [field_errors.forbidden(Path("sendInitialEvents"), "sendInitialEvents is forbidden for list")]
    if not match:
        return []
    errors = []
    if not resource_version:
        detail = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        errors.append(field_errors.forbidden(_MATCH_PATH, detail))
    if continue_token:
        detail = "resourceVersionMatch is forbidden when continue is provided"
        errors.append(field_errors.forbidden(_MATCH_PATH, detail))
    if match not in {EXACT, NOT_OLDER_THAN}:
        errors.append(field_errors.not_supported(_MATCH_PATH, match, [EXACT, NOT_OLDER_THAN, ""]))
    if match == EXACT and resource_version == "0":
        detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        errors.append(field_errors.forbidden(_MATCH_PATH, detail))
    return errors


def _validate_watch(match: str, send_initial_events: bool | None) -> Errors:
    errors = []
    if send_initial_events is not None and match != NOT_OLDER_THAN:
        detail = f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER_THAN}"
        errors.append(field_errors.forbidden(_MATCH_PATH, detail))
    if match:
        if send_initial_events is None:
            detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            errors.append(field_errors.forbidden(_MATCH_PATH, detail))
        if match != NOT_OLDER_THAN:
            errors.append(field_errors.not_supported(_MATCH_PATH, match, [NOT_OLDER_THAN]))
    return errors
