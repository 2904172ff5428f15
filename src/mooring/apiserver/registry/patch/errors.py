"""Errors of patches.

PatchError         the patch itself is invalid (HTTP 400)
└── Inapplicable   the patch cannot be applied to this object (HTTP 422)
"""

# ruff: noqa: N818 - named after the condition

from mooring.api import errors
from mooring.api.errors import StatusError
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import StatusDetails

_REJECTED = "the server rejected our request due to an error in our request"


class PatchError(Exception):
    """The patch is malformed; the message says why."""

    def status(self, kind: Kind, name: str) -> StatusError:  # noqa: ARG002 - the subclass names the object
        return errors.bad_request(f"error decoding patch: {self}")


class Inapplicable(PatchError):
    """The patch cannot be applied to this object."""

    def status(self, kind: Kind, name: str) -> StatusError:
        """Return the error for the client, which gives no reason, as in Kubernetes."""
        refusal = errors.invalid(kind.kind, name, [], group=kind.group)
        refusal.status.message = _REJECTED
        refusal.status.details = StatusDetails()
        return refusal
