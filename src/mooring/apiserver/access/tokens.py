"""Issue and verify service account tokens, and publish the key by which others verify them (OpenID discovery).

A token is valid until it expires, or its service account is replaced (another uid), or the pod, secret or node that it
is bound to is deleted. The signature check is cached for a while; the objects are looked up each time, so that deleting
one takes effect at once.

    /.well-known/openid-configuration   the issuer, and the URL of the keys
    /openid/v1/jwks                     the public key of the tokens
"""

import base64
import hashlib
import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from mooring.api import errors, times
from mooring.api.authentication_v1 import BoundObjectReference, TokenRequest, TokenRequestStatus, UserInfo
from mooring.api.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret, ServiceAccount, Volume
from mooring.api.meta_v1 import Resource
from mooring.api.storage_v1 import CSIDriver
from mooring.apiserver.access.nodes.restriction import token_refusal
from mooring.apiserver.messages import users
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.registry.storage.objects import Objects
from mooring.base.bounded_cache import BoundedCache
from mooring.base.clock import Clock

ISSUER = "https://kubernetes.default.svc.cluster.local"
_CLAIM = "kubernetes.io"
_DEFAULT_SECONDS = 3600
_REMEMBERED = 4096
_EXTRA = "authentication.kubernetes.io/"
_BOUND: dict[str, type[Resource]] = {"Pod": Pod, "Secret": Secret, "Node": Node}


class VerifiedToken(msgspec.Struct, frozen=True):
    """The user of a valid token, and the requested audiences that the token is for."""

    user: UserInfo
    audiences: tuple[str, ...]


class ServiceAccountTokens:
    """Issues and verifies service account tokens with the key of the data directory."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, objects: Objects, clock: Clock) -> None:
        self._key = key
        self.public_key = key.public_key()
        self._objects = objects
        self._clock = clock
        self._verified: BoundedCache[bytes, dict[str, Any]] = BoundedCache(_REMEMBERED)

    async def issue(self, namespace: str, name: str, request: TokenRequest) -> TokenRequest:
        """Return a TokenRequest with a token. Raise NotFound, BadRequest or Conflict for an unusable bound object."""
        account = await self._objects.get(ServiceAccount, name, namespace)
        if account is None:
            raise errors.not_found("serviceaccounts", name)
        seconds = request.spec.expiration_seconds or _DEFAULT_SECONDS
        private = {"namespace": namespace, "serviceaccount": _make_reference(account)}
        private |= await self._bound_claims(request.spec.bound_object_ref, namespace, name)
        now = self._clock.now()
        expires = now + timedelta(seconds=seconds)
        audiences = request.spec.audiences or [ISSUER]
        claims = {
            "aud": audiences,
            "exp": int(expires.timestamp()),
            "iat": int(now.timestamp()),
            "nbf": int(now.timestamp()),
            "iss": ISSUER,
            "jti": str(uuid.uuid4()),
            _CLAIM: private,
            "sub": users.service_account_name(namespace, name),
        }
        request.spec.audiences, request.spec.expiration_seconds = audiences, seconds
        request.status = TokenRequestStatus(
            token=sign_jwt(self._key, claims), expiration_timestamp=times.to_seconds(expires)
        )
        request.metadata.name, request.metadata.namespace = name, namespace
        request.metadata.creation_timestamp = times.to_seconds(now)
        return request

    async def check_node(self, user: UserInfo, namespace: str, name: str, request: TokenRequest) -> None:
        """Raise Forbidden if the user is a node and requests a token that none of its pods needs."""
        if users.node_name(user):
            bound = request.spec.bound_object_ref
            pod = await self._objects.get(Pod, bound.name, namespace) if bound and bound.kind == "Pod" else None
            audiences = await audiences_of(pod, self._objects) if pod else set()
            if refusal := token_refusal(user, request, pod, audiences):
                raise errors.forbidden("serviceaccounts", name, refusal)

    async def verify(self, token: str, audiences: Sequence[str]) -> VerifiedToken | str:
        """Return a token's user and those of `audiences` it is for; if it is invalid, the reason as text."""
        claims = self._verified_claims(token)
        if isinstance(claims, str):
            return claims
        now = self._clock.now().timestamp()
        if not claims.get("nbf", 0) <= now + 60 or now >= claims.get("exp", 0):
            return "the token has expired or is not valid yet"
        meant = tuple(audience for audience in audiences if audience in claims.get("aud", ()))
        if claims.get("iss") != ISSUER or not meant:
            return "the token is not meant for this server"
        private = claims.get(_CLAIM) or {}
        namespace, account = private.get("namespace", ""), private.get("serviceaccount") or {}
        found = await self._objects.get(ServiceAccount, account.get("name", ""), namespace)
        if found is None or found.metadata.uid != account.get("uid"):
            return "the service account of the token does not exist any more"
        for kind, object_type in _BOUND.items():
            if object_type is Node and private.get("pod"):
                continue  # the node of a pod is a claim that binds nothing
            if bound := private.get(kind.lower()):
                place = "" if object_type is Node else namespace
                obj = await self._objects.get(object_type, bound.get("name", ""), place)
                if obj is None or obj.metadata.uid != bound.get("uid"):
                    return f"the {kind.lower()} that the token is bound to does not exist any more"
        return VerifiedToken(_user_of(namespace, account, private, claims), meant)

    def _verified_claims(self, token: str) -> dict[str, Any] | str:
        digest = hashlib.sha256(token.encode()).digest()
        if known := self._verified.get(digest):
            return known
        try:
            claims = verify_jwt(self.public_key, token)
        except JwtError as error:
            return str(error)
        self._verified.put(digest, claims)
        return claims

    async def _bound_claims(self, wanted: BoundObjectReference | None, namespace: str, account: str) -> dict[str, Any]:
        if wanted is None:
            return {}
        object_type = _BOUND.get(wanted.kind)
        if object_type is None or wanted.api_version not in {"", "v1"}:
            raise errors.bad_request(f"cannot bind token to object of type {wanted.api_version}/{wanted.kind}")
        resource = f"{wanted.kind.lower()}s"
        found = await self._objects.get(object_type, wanted.name, "" if object_type is Node else namespace)
        if found is None:
            raise errors.not_found(resource, wanted.name)
        if wanted.uid and wanted.uid != found.metadata.uid:
            why = f"the UID in the bound object reference ({wanted.uid}) does not match the UID in record"
            raise errors.conflict(resource, wanted.name, why)
        if isinstance(found, Pod) and (found.spec.service_account_name or "default") != account:
            raise errors.bad_request(
                f"cannot bind token for serviceaccount {account!r} to pod running with different serviceaccount name."
            )
        bound = {wanted.kind.lower(): _make_reference(found)}
        if isinstance(found, Pod) and found.spec.node_name:
            node = await self._objects.get(Node, found.spec.node_name)
            bound |= {"node": _make_reference(node)} if node is not None else {}
        return bound


def _make_reference(obj: Resource) -> dict[str, str]:
    return {"name": obj.metadata.name, "uid": obj.metadata.uid}


def _user_of(namespace: str, account: dict[str, str], private: dict[str, Any], claims: dict[str, Any]) -> UserInfo:
    user = users.authenticated_user(
        users.service_account_name(namespace, account["name"]),
        account["uid"],
        users.service_account_groups(namespace),
    )
    user.extra[f"{_EXTRA}credential-id"] = [f"JTI={claims.get('jti', '')}"]
    for kind in ("pod", "node"):
        if bound := private.get(kind):
            user.extra[f"{_EXTRA}{kind}-name"] = [bound.get("name", "")]
            user.extra[f"{_EXTRA}{kind}-uid"] = [bound.get("uid", "")]
    return user


async def audiences_of(pod: Pod, objects: Objects) -> set[str]:
    """Return the audiences for which a pod's node may request tokens: of projected volumes and CSI drivers."""
    found: set[str] = set()
    for volume in pod.spec.volumes:
        for source in volume.projected.sources if volume.projected else ():
            if source.service_account_token:
                found.add(source.service_account_token.audience)
        driver = await _csi_driver_of(pod, volume, objects)
        if driver:
            known = await objects.get(CSIDriver, driver)
            found |= {request.audience for request in known.spec.token_requests} if known else set()
    return found


async def _csi_driver_of(pod: Pod, volume: Volume, objects: Objects) -> str:
    if volume.csi:
        return volume.csi.driver
    if volume.persistent_volume_claim:
        name = volume.persistent_volume_claim.claim_name
    elif volume.ephemeral:
        name = f"{pod.metadata.name}-{volume.name}"
    else:
        return ""
    claim = await objects.get(PersistentVolumeClaim, name, pod.metadata.namespace)
    bound = await objects.get(PersistentVolume, claim.spec.volume_name) if claim and claim.spec.volume_name else None
    return bound.spec.csi.driver if bound and bound.spec.csi else ""


CONFIGURATION, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"
_HEADERS = {"cache-control": "public, max-age=3600"}


class IssuerPages:
    """Serves OpenID discovery for service account tokens: issuer and public keys. `server` is the public URL."""

    def __init__(self, key: ec.EllipticCurvePublicKey, server: Callable[[], str]) -> None:
        self._key = key
        self._server = server

    def handle(self, request: Request) -> Response | None:
        """Return the response if the path is one of the two discovery pages; None for other paths."""
        match request.path.rstrip("/"):
            case "/.well-known/openid-configuration":
                configuration = {
                    "issuer": ISSUER,
                    "jwks_uri": f"{self._server()}{KEYS}",
                    "response_types_supported": ["id_token"],
                    "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": ["ES256"],
                }
                return Response(200, msgspec.json.encode(configuration), "application/json", dict(_HEADERS))
            case "/openid/v1/jwks":
                return Response(200, msgspec.json.encode(self._key_set()), "application/jwk-set+json", dict(_HEADERS))
        return None

    def _key_set(self) -> dict[str, Any]:
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


# -- JSON Web Tokens with ES256, the only supported algorithm

_SHA256 = ec.ECDSA(hashes.SHA256())
_WIDTH = 32
_MAX_TOKEN_LENGTH = 16 * 1024


class JwtError(ValueError):
    """A token is malformed or not signed with this server's key. The message never contains the token."""


def key_id(key: ec.EllipticCurvePublicKey) -> str:
    """Return the id of a public key that tokens have as `kid` in their header."""
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return base64url(hashlib.sha256(der).digest())


def sign_jwt(key: ec.EllipticCurvePrivateKey, claims: dict[str, Any]) -> str:
    """Return a JSON Web Token with these claims, signed with ES256."""
    header = {"alg": "ES256", "kid": key_id(key.public_key())}
    content = f"{base64url(msgspec.json.encode(header))}.{base64url(msgspec.json.encode(claims))}"
    r, s = decode_dss_signature(key.sign(content.encode(), _SHA256))
    return f"{content}.{base64url(r.to_bytes(_WIDTH, 'big') + s.to_bytes(_WIDTH, 'big'))}"


def verify_jwt(key: ec.EllipticCurvePublicKey, token: str) -> dict[str, Any]:
    """Return the claims of a token; raise JwtError if its form or signature is wrong. Expiry is not checked."""
    parts = token.split(".")
    if len(parts) != 3 or len(token) > _MAX_TOKEN_LENGTH:
        raise JwtError("it has not the form of a JSON Web Token")
    header, claims, signature = (_decode_base64url(part) for part in parts)
    if _json_object(header).get("alg") != "ES256" or len(signature) != 2 * _WIDTH:
        raise JwtError("it is not signed with ES256")
    numbers = int.from_bytes(signature[:_WIDTH], "big"), int.from_bytes(signature[_WIDTH:], "big")
    try:
        key.verify(encode_dss_signature(*numbers), f"{parts[0]}.{parts[1]}".encode(), _SHA256)
    except InvalidSignature:
        raise JwtError("the signature is not from this server") from None
    return _json_object(claims)


def _json_object(content: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise JwtError("a part of it is not a JSON object") from None


def base64url(content: bytes) -> str:
    """Encode bytes in unpadded URL-safe base64, as tokens and JSON Web Keys do."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def _decode_base64url(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise JwtError("a part of it is not base64url") from None
