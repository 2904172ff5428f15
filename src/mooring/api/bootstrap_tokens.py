"""Bootstrap tokens: temporary secrets with which machines authenticate to join the cluster.

A token is `id.secret`, stored in the Secret `bootstrap-token-<id>` in kube-system, in Kubernetes' format. Used by the
API server (authentication), a controller (expiry) and `mooring join-config`, which creates them.
"""

import re
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from mooring.api import times
from mooring.api.core_v1 import Secret
from mooring.api.meta_v1 import ObjectMeta

NAMESPACE: Final = "kube-system"
TYPE: Final = "bootstrap.kubernetes.io/token"
PREFIX: Final = "bootstrap-token-"
TOKEN: Final = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
GROUP: Final = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


def new_token() -> str:
    """Generate a random token."""
    part = [secrets.choice(_LETTERS) for _ in range(22)]
    return f"{''.join(part[:6])}.{''.join(part[6:])}"


def secret_for(token: str, groups: Sequence[str], until: datetime, description: str) -> Secret:
    """Build the Secret that enables authentication with a token until it expires."""
    token_id, _, token_secret = token.partition(".")
    data = {
        "token-id": token_id,
        "token-secret": token_secret,
        "expiration": times.to_seconds(until),
        "usage-bootstrap-authentication": "true",
        "auth-extra-groups": ",".join(groups),
        "description": description,
    }
    return Secret(
        metadata=ObjectMeta(name=PREFIX + token_id, namespace=NAMESPACE),
        type=TYPE,
        data={name: value.encode() for name, value in data.items()},
    )


def expiration(secret: Secret) -> datetime | None:
    """Return when a token expires; None for never. A malformed time counts as expired."""
    text = value(secret, "expiration")
    if not text:
        return None
    try:
        return times.parse(text)
    except ValueError:
        return _LONG_AGO


def value(secret: Secret, name: str) -> str:
    return secret.data.get(name, b"").decode("utf-8", "replace")
