"""OpenID discovery: other systems can verify the tokens of service accounts."""

import base64
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from app_calls import ADMIN, Caller, running

pytestmark = pytest.mark.req("S.6")
CONFIGURATION, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"
ISSUER = "https://kubernetes.default.svc.cluster.local"


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def number(text: str | bytes) -> int:
    return int.from_bytes(decoded(text) if isinstance(text, str) else text, "big")


async def token(call: Caller) -> str:
    await call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "robot"}})
    path = "/api/v1/namespaces/default/serviceaccounts/robot/token"
    answer = await call("POST", path, {"spec": {"audiences": ["vault"]}})
    return str(answer.json["status"]["token"])


async def test_a_token_can_be_checked_with_what_the_pages_say(tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        call = Caller(server.app, ADMIN)
        said = await call("GET", CONFIGURATION)
        assert said.json == {
            "issuer": ISSUER,
            "jwks_uri": f"https://127.0.0.1:0{KEYS}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        }
        assert said.headers["content-type"] == "application/json"
        keys = await call("GET", KEYS)
        assert keys.headers["content-type"] == "application/jwk-set+json"
        assert keys.headers["cache-control"] == "public, max-age=3600"
        header, claims, signature = (await token(call)).split(".")
        key = next(each for each in keys.json["keys"] if each["kid"] == json.loads(decoded(header))["kid"])
        assert (key["kty"], key["crv"], key["use"], key["alg"]) == ("EC", "P-256", "sig", "ES256")
        public = ec.EllipticCurvePublicNumbers(number(key["x"]), number(key["y"]), ec.SECP256R1()).public_key()
        signed = decoded(signature)
        pair = encode_dss_signature(number(signed[:32]), number(signed[32:]))
        public.verify(pair, f"{header}.{claims}".encode(), ec.ECDSA(hashes.SHA256()))
        assert json.loads(decoded(claims))["iss"] == ISSUER


@pytest.mark.parametrize("path", [CONFIGURATION, KEYS])
async def test_service_accounts_may_read_them_and_others_need_a_role(path: str, tmp_path: Path) -> None:
    async with running(tmp_path) as server:
        call = Caller(server.app, ADMIN)
        robot = call.as_user("system:serviceaccount:default:robot", "system:serviceaccounts")
        assert (await robot("GET", path)).status == 200
        assert (await call.as_user("jane", "system:authenticated")("GET", path)).status == 403
        assert (await call.as_anonymous()("GET", path)).status in {401, 403}
        assert path in (await call("GET", "/")).json["paths"]
