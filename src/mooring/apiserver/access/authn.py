"""Authenticate requests.

A verified client certificate counts first, then a bearer token. An unknown token is an error. Without
either, a request is anonymous, which is enough for health and version only.
"""

from collections.abc import Mapping

from mooring.api import errors
from mooring.api.authentication_v1 import UserInfo
from mooring.apiserver.access.bootstrap_authn import BootstrapTokens
from mooring.apiserver.access.token_file import TokenFile
from mooring.apiserver.access.tokens import ISSUER, Recognised, ServiceAccountTokens
from mooring.apiserver.messages import users

PUBLIC_PATHS: frozenset[str] = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/"})
"""Paths for anonymous requests: health and version."""


class Authenticator:
    """Authenticate by certificate, token file, service account token or bootstrap token."""

    def __init__(
        self, accounts: ServiceAccountTokens, tokens: TokenFile | None = None, joining: BootstrapTokens | None = None
    ) -> None:
        self._accounts = accounts
        self._tokens = tokens or TokenFile({})
        self._joining = joining

    async def authenticate(self, path: str, headers: Mapping[str, str]) -> UserInfo:
        """Return the user of a request on a connection without a certificate; raise Unauthorized."""
        header = headers.get("authorization", "")
        if header:
            scheme, _, token = header.partition(" ")
            user = await self.user_of_token(token.strip()) if scheme.lower() == "bearer" else None
            if user is None:
                raise errors.unauthorized()
            return user
        if path in PUBLIC_PATHS:
            return users.anonymous()
        raise errors.unauthorized()

    async def user_of_token(self, token: str) -> UserInfo | None:
        """Return the user of a bearer token for this server."""
        found = await self.review(token, (ISSUER,))
        return found.user if isinstance(found, Recognised) else None

    async def review(self, token: str, audiences: tuple[str, ...]) -> Recognised | str:
        """Return the user of a token and its audiences, or why it is refused."""
        if not token:
            return "there is no token"
        if user := self._tokens.user(token):
            return Recognised(user, tuple(audience for audience in audiences if audience == ISSUER))
        if self._joining and (user := await self._joining.user(token)):
            return Recognised(user, tuple(audience for audience in audiences if audience == ISSUER))
        return await self._accounts.recognise(token, audiences)
