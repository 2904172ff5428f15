"""Authenticate bootstrap tokens, with which a machine may join the cluster and do nothing else."""

import hmac

from mooring.api import bootstrap_tokens
from mooring.api.authentication_v1 import UserInfo
from mooring.api.core_v1 import Secret
from mooring.apiserver.messages import users
from mooring.apiserver.registry.objects import Objects
from mooring.base.clock import Clock


class BootstrapTokens:
    """Authenticate by the stored Secret each time, so that deleting it takes effect at once."""

    def __init__(self, objects: Objects, clock: Clock) -> None:
        self._objects = objects
        self._clock = clock

    async def user(self, token: str) -> UserInfo | None:
        """Return the user of a token; None when it is not a valid bootstrap token."""
        match = bootstrap_tokens.TOKEN.fullmatch(token)
        if match is None:
            return None
        token_id, token_secret = match.groups()
        name = bootstrap_tokens.PREFIX + token_id
        found = await self._objects.get(Secret, name, bootstrap_tokens.NAMESPACE)
        if found is None or not self._is_good(found, token_id, token_secret):
            return None
        groups = [group for group in bootstrap_tokens.value(found, "auth-extra-groups").split(",") if group]
        if not all(bootstrap_tokens.GROUP.fullmatch(group) for group in groups):
            return None
        return users.authenticated(f"system:bootstrap:{token_id}", groups=[users.BOOTSTRAPPERS, *groups])

    def _is_good(self, secret: Secret, token_id: str, token_secret: str) -> bool:
        end = bootstrap_tokens.expiration(secret)
        return (
            secret.type == bootstrap_tokens.TYPE
            and secret.metadata.deletion_timestamp is None
            and bootstrap_tokens.value(secret, "token-id") == token_id
            and hmac.compare_digest(secret.data.get("token-secret", b""), token_secret.encode())
            and bootstrap_tokens.value(secret, "usage-bootstrap-authentication") == "true"
            and (end is None or self._clock.now() < end)
        )
