"""Sign and verify JSON Web Tokens with ES256, the only supported algorithm, for service account tokens."""

import base64
import binascii
import hashlib
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

_SHA256 = ec.ECDSA(hashes.SHA256())
_WIDTH = 32
_MAX_LENGTH = 16 * 1024


class JwtError(ValueError):
    """The string is not a token signed with this key. The message never contains the token."""


def key_id(key: ec.EllipticCurvePublicKey) -> str:
    """Return the id of a public key, as the `kid` header of tokens names it."""
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return base64url(hashlib.sha256(der).digest())


def sign(key: ec.EllipticCurvePrivateKey, claims: dict[str, Any]) -> str:
    header = {"alg": "ES256", "kid": key_id(key.public_key())}
    content = f"{base64url(msgspec.json.encode(header))}.{base64url(msgspec.json.encode(claims))}"
    r, s = decode_dss_signature(key.sign(content.encode(), _SHA256))
    return f"{content}.{base64url(r.to_bytes(_WIDTH, 'big') + s.to_bytes(_WIDTH, 'big'))}"


def verify(key: ec.EllipticCurvePublicKey, token: str) -> dict[str, Any]:
    """Return the claims of a token with a valid signature; the caller checks the claims."""
    parts = token.split(".")
    if len(parts) != 3 or len(token) > _MAX_LENGTH:
        raise JwtError("it has not the form of a JSON Web Token")
    header, claims, signature = (_bytes(part) for part in parts)
    if _object(header).get("alg") != "ES256" or len(signature) != 2 * _WIDTH:
        raise JwtError("it is not signed with ES256")
    numbers = int.from_bytes(signature[:_WIDTH], "big"), int.from_bytes(signature[_WIDTH:], "big")
    try:
        key.verify(encode_dss_signature(*numbers), f"{parts[0]}.{parts[1]}".encode(), _SHA256)
    except InvalidSignature:
        raise JwtError("the signature is not from this server") from None
    return _object(claims)


def _object(content: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise JwtError("a part of it is not a JSON object") from None


def base64url(content: bytes) -> str:
    """Encode bytes in unpadded URL-safe base64, as tokens and JSON Web Keys do."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise JwtError("a part of it is not base64url") from None
