"""What others need to check tokens of service accounts by themselves: OpenID discovery, as kube-apiserver has it.

    /.well-known/openid-configuration    who issues tokens, and where the keys are
    /openid/v1/jwks                      the key that tokens are signed with

Service accounts may read both (`system:service-account-issuer-discovery`). Asked by ``requests/app.py``.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric import ec

from mooring.apiserver.access.jwt import base64url, key_id
from mooring.apiserver.access.tokens import ISSUER
from mooring.apiserver.messages.http import Request, Response

CONFIGURATION, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"
_WIDTH = 32
_HEADERS = {"cache-control": "public, max-age=3600"}


class IssuerPages:
    """The two pages. `server` is where this server is reached by others."""

    def __init__(self, key: ec.EllipticCurvePublicKey, server: Callable[[], str]) -> None:
        self._key = key
        self._server = server

    def handle(self, request: Request) -> Response | None:
        """Return the requested page; None for other paths."""
        match request.path.rstrip("/"):
            case "/.well-known/openid-configuration":
                return Response(200, msgspec.json.encode(self._configuration()), "application/json", dict(_HEADERS))
            case "/openid/v1/jwks":
                return Response(200, msgspec.json.encode(self._keys()), "application/jwk-set+json", dict(_HEADERS))
        return None

    def _configuration(self) -> dict[str, Any]:
        return {
            "issuer": ISSUER,
            "jwks_uri": f"{self._server()}{KEYS}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }

    def _keys(self) -> dict[str, Any]:
        numbers = self._key.public_numbers()
        key = {
            "use": "sig",
            "kty": "EC",
            "kid": key_id(self._key),
            "crv": "P-256",
            "alg": "ES256",
            "x": base64url(numbers.x.to_bytes(_WIDTH, "big")),
            "y": base64url(numbers.y.to_bytes(_WIDTH, "big")),
        }
        return {"keys": [key]}
