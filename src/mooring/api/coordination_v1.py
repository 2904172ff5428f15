"""coordination.k8s.io/v1: Lease, by which nodes show that they live and components agree on a leader."""

from mooring.api.base import Int32, Object, always
from mooring.api.meta_v1 import Resource

VERSION_ANNOTATION = "mooring.dev/version"
"""On a Lease: the version that its holder behaves as, by which the server notices skew (4330.10)."""


class LeaseSpec(Object):
    """The holder of a lease, and its times."""

    holder_identity: str | None = None
    """Who holds it."""
    lease_duration_seconds: Int32 | None = None
    """After how long without renewal others may take it."""
    acquire_time: str | None = None
    """Since when it is held, to the microsecond."""
    renew_time: str | None = None
    """When it was last renewed, to the microsecond."""
    lease_transitions: Int32 | None = None
    """How often it changed hands."""
    strategy: str | None = None
    """How a coordinated election picks the leader."""
    preferred_holder: str | None = None
    """Who would be a better holder, so that the present one gives it up."""


class Lease(Resource):
    """Something that one holder at a time has."""

    spec: LeaseSpec = always(LeaseSpec)
