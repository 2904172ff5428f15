"""authentication.k8s.io/v1: tokens of service accounts, and the question who a token or client is."""

from mooring.api.base import Int64, Object, always, required
from mooring.api.meta_v1 import Resource


class UserInfo(Object):
    """A user, as authentication found out."""

    username: str = ""
    """The name that identifies the user."""
    uid: str = ""
    """An id that distinguishes users who had the same name at different times."""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}
    """What the authenticator says in addition."""


class BoundObjectReference(Object):
    """The object whose life limits that of a token."""

    kind: str = ""
    """Pod, Secret or Node."""
    api_version: str = ""
    name: str = ""
    uid: str = ""


class TokenRequestSpec(Object):
    """The token that is wanted."""

    audiences: list[str] = always(list)
    """The intended audiences of the token; the API server if empty."""
    expiration_seconds: Int64 | None = always(lambda: None)
    """How long the token should be valid."""
    bound_object_ref: BoundObjectReference | None = always(lambda: None)
    attestations: dict[str, list[str]] = {}
    """Claims that the server is asked to attest."""


class TokenRequestStatus(Object):
    """The token that was made."""

    token: str = always(str)
    expiration_timestamp: str | None = always(lambda: None)
    """Until when it is valid."""


class TokenRequest(Resource):
    """Asks for a token of a service account."""

    spec: TokenRequestSpec = always(TokenRequestSpec)
    status: TokenRequestStatus = always(TokenRequestStatus)


class TokenReviewSpec(Object):
    """The token that is asked about."""

    token: str = required(str)
    audiences: list[str] = []
    """The requested audiences of the token; the API server if empty."""


class TokenReviewStatus(Object):
    """The result of a token review."""

    authenticated: bool = False
    """Whether it belongs to a known user."""
    user: UserInfo = always(UserInfo)
    audiences: list[str] = []
    """Which of the audiences the token is meant for."""
    error: str = ""
    """Why it could not be looked at."""


class TokenReview(Resource):
    """Request the user of a token."""

    spec: TokenReviewSpec = required(TokenReviewSpec)
    status: TokenReviewStatus = always(TokenReviewStatus)


class SelfSubjectReviewStatus(Object):
    """The user of the client that sent the review."""

    user_info: UserInfo = always(UserInfo)


class SelfSubjectReview(Resource):
    """Asks who the client itself is."""

    status: SelfSubjectReviewStatus = always(SelfSubjectReviewStatus)
