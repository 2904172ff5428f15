"""Turns errors of the store into responses."""

from mooring.api import errors
from mooring.api.errors import StatusError
from mooring.store.errors import StoreError, TooLarge, Unreachable


def status_of(error: StoreError) -> StatusError:
    """Return 504 if a write may have been done, 413 if it is too large, and 503 if the store refuses it now."""
    if isinstance(error, TooLarge):
        return errors.request_entity_too_large(str(error))
    if isinstance(error, Unreachable):
        return errors.timeout(str(error))
    return errors.service_unavailable(f"the store cannot do this now: {error}")
