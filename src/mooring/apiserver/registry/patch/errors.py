"""What is wrong with a patch.

PatchError             the patch itself makes no sense (HTTP 400)
└── Inapplicable       the patch cannot be applied to this object (HTTP 422)
"""

# ruff: noqa: N818 - the names say what is the case

from mooring.api import errors
from mooring.api.errors import StatusError
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import StatusDetails

_REJECTED = "the server rejected our request due to an error in our request"


class PatchError(Exception):
    """The patch makes no sense; the message says why."""

    def status(self, kind: Kind, name: str) -> StatusError:  # noqa: ARG002 - the subclass names the object
        return errors.bad_request(f"error decoding patch: {self}")


class Inapplicable(PatchError):
    """The patch wants something that this object does not have."""

    def status(self, kind: Kind, name: str) -> StatusError:
        """Kubernetes says no more than that; why is for those who read its source."""
        refusal = errors.invalid(kind.kind, name, [], group=kind.group)
        refusal.status.message = _REJECTED
        refusal.status.details = StatusDetails()
        return refusal
