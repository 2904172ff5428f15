"""What clients are told when the store fails."""

from mooring.api import errors
from mooring.api.errors import StatusError
from mooring.store.errors import StoreError, TooLarge, Unreachable


def status_of(error: StoreError) -> StatusError:
    """504 says that nobody knows whether a write is done, 413 that it never can be, 503 that it is not done now."""
    if isinstance(error, TooLarge):
        return errors.request_entity_too_large(str(error))
    if isinstance(error, Unreachable):
        return errors.timeout(str(error))
    return errors.service_unavailable(f"the store cannot do this now: {error}")
