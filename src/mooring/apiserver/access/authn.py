"""Authenticate requests: by client certificate, token file, service account token or bootstrap token.

A verified client certificate counts first, then a bearer token. An unknown token is an error. Without either, a request
is anonymous, which is enough for health and version only.
"""

import csv
import hashlib
import hmac
from collections.abc import Mapping
from pathlib import Path

from mooring.api import bootstrap_tokens, errors
from mooring.api.authentication_v1 import UserInfo
from mooring.api.core_v1 import Secret
from mooring.apiserver.access.tokens import ISSUER, ServiceAccountTokens, VerifiedToken
from mooring.apiserver.messages import users
from mooring.apiserver.registry.storage.objects import Objects
from mooring.base.clock import Clock

PUBLIC_PATHS: frozenset[str] = frozenset({"/healthz", "/livez", "/readyz", "/version", "/version/"})
"""Paths for anonymous requests: health and version."""


class TokenFileError(Exception):
    """The token file cannot be used; the message names the line and never a token."""


class TokenFile:
    """The users of a static token file by token. Only hashes are stored, so that a lookup's time reveals nothing."""

    def __init__(self, tokens: dict[str, UserInfo]) -> None:
        self._users = {_hash_token(token): user for token, user in tokens.items()}

    @classmethod
    def read(cls, path: Path) -> "TokenFile":
        try:
            rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines(), skipinitialspace=True))
        except OSError as error:
            raise TokenFileError(f"cannot read {path}: {error.strerror}") from error
        except (csv.Error, UnicodeDecodeError) as error:
            raise TokenFileError(f"{path} is no file of comma-separated values in UTF-8") from error
        tokens: dict[str, UserInfo] = {}
        for number, row in enumerate(rows, 1):
            if not row or row[0].lstrip().startswith("#"):
                continue
            if len(row) < 3:
                raise TokenFileError(f"{path}:{number}: expected token,user,uid and perhaps groups")
            token, name, uid = (field.strip() for field in row[:3])
            if not token or not name:
                raise TokenFileError(f"{path}:{number}: the token and the user must not be empty")
            if token in tokens:
                raise TokenFileError(f"{path}:{number}: the same token stands in an earlier line")
            groups = [group.strip() for group in row[3].split(",") if group.strip()] if len(row) > 3 else []
            tokens[token] = users.authenticated_user(name, uid, groups)
        return cls(tokens)

    def user(self, token: str) -> UserInfo | None:
        return self._users.get(_hash_token(token))


def _hash_token(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


class BootstrapTokens:
    """Authenticates bootstrap tokens by their Secrets, which are read each time, so that deleting one works at once."""

    def __init__(self, objects: Objects, clock: Clock) -> None:
        self._objects = objects
        self._clock = clock

    async def user(self, token: str) -> UserInfo | None:
        """Return the user of a bootstrap token; None if it is unknown, expired or not for authentication."""
        match = bootstrap_tokens.TOKEN.fullmatch(token)
        if match is None:
            return None
        token_id, token_secret = match.groups()
        name = bootstrap_tokens.PREFIX + token_id
        found = await self._objects.get(Secret, name, bootstrap_tokens.NAMESPACE)
        if found is None or not self._is_valid(found, token_id, token_secret):
            return None
        groups = [group for group in bootstrap_tokens.value(found, "auth-extra-groups").split(",") if group]
        if not all(bootstrap_tokens.GROUP.fullmatch(group) for group in groups):
            return None
        return users.authenticated_user(f"system:bootstrap:{token_id}", groups=[users.BOOTSTRAPPERS, *groups])

    def _is_valid(self, secret: Secret, token_id: str, token_secret: str) -> bool:
        end = bootstrap_tokens.expiration(secret)
        return (
            secret.type == bootstrap_tokens.TYPE
            and secret.metadata.deletion_timestamp is None
            and bootstrap_tokens.value(secret, "token-id") == token_id
            and hmac.compare_digest(secret.data.get("token-secret", b""), token_secret.encode())
            and bootstrap_tokens.value(secret, "usage-bootstrap-authentication") == "true"
            and (end is None or self._clock.now() < end)
        )


class Authenticator:
    """Authenticates requests by bearer token: from a token file, of a service account, or for bootstrap."""

    def __init__(
        self, accounts: ServiceAccountTokens, tokens: TokenFile | None = None, joining: BootstrapTokens | None = None
    ) -> None:
        self._accounts = accounts
        self._tokens = tokens or TokenFile({})
        self._joining = joining

    async def authenticate(self, path: str, headers: Mapping[str, str]) -> UserInfo:
        """Return the user by the Authorization header, anonymous for public paths; else raise Unauthorized."""
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
        """Return the user of a bearer token that is valid for this server; None if it is not."""
        found = await self.review(token, (ISSUER,))
        return found.user if isinstance(found, VerifiedToken) else None

    async def review(self, token: str, audiences: tuple[str, ...]) -> VerifiedToken | str:
        """Return a token's user and those of `audiences` it is valid for; if it is invalid, the reason as text."""
        if not token:
            return "there is no token"
        user = self._tokens.user(token) or (await self._joining.user(token) if self._joining else None)
        if user:
            return VerifiedToken(user, tuple(audience for audience in audiences if audience == ISSUER))
        return await self._accounts.verify(token, audiences)
