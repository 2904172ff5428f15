"""Bootstrap tokens: secrets with which machines show, for a while, that they may join the cluster.

A token is `id.secret`; it lies in the Secret `bootstrap-token-<id>` of the namespace kube-system, in Kubernetes' form.
Read by the API server (who is it), a controller (is it over) and `mooring join-config`, which makes them.
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
    """A token that nobody can guess."""
    part = [secrets.choice(_LETTERS) for _ in range(22)]
    return f"{''.join(part[:6])}.{''.join(part[6:])}"


def secret_for(token: str, groups: Sequence[str], until: datetime, description: str) -> Secret:
    """The Secret that makes a token good for signing in, until its time is over."""
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
    """When a token's time is over; None for never. What cannot be read was over long ago."""
    text = value(secret, "expiration")
    if not text:
        return None
    try:
        return times.parse(text)
    except ValueError:
        return _LONG_AGO


def value(secret: Secret, name: str) -> str:
    return secret.data.get(name, b"").decode("utf-8", "replace")
