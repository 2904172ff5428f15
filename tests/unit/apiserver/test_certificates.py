"""Certificates that nodes ask for: joining with a token, approval, signing, renewal, and what is refused."""

import base64
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from api_caller import Answer
from control_plane import ADMIN, ControlPlane, control_plane
from mooring.api import bootstrap_tokens
from mooring.api.authentication_v1 import UserInfo
from mooring.api.certificates_v1 import CLIENT, KUBELET_CLIENT, KUBELET_SERVING, CertificateSigningRequest
from mooring.api.core_v1 import Secret
from mooring.apiserver.messages import users
from mooring.apiserver.messages.http import Request
from mooring.apiserver.streams.parameters import KubeletOptions
from mooring.testing.clock import settle

pytestmark = pytest.mark.req("N.5")

URL = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
NODE = UserInfo(username="system:node:n1", groups=["system:nodes", "system:authenticated"])
JANE = UserInfo(username="jane", groups=["system:authenticated"])
BASIC = ("digital signature", "key encipherment")
NAME = ("system:node:n1", ("system:nodes",))


@pytest.fixture
async def plane() -> AsyncIterator[ControlPlane]:
    names = ("certificatesigningrequest-approving", "certificatesigningrequest-cleaner", "token-cleaner")
    async with control_plane(*names) as running:
        yield running


def request_for(
    common_name: str, organizations: tuple[str, ...] = (), dns: tuple[str, ...] = (), uri: str = "", key: Any = None
) -> bytes:
    """Return a request for a certificate, as PEM."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organizations]
    subject = x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    names: list[x509.GeneralName] = [x509.DNSName(each) for each in dns]
    names += [x509.UniformResourceIdentifier(uri)] if uri else []
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def csr(pem: bytes, signer: str = KUBELET_CLIENT, *usages: str, name: str = "csr", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": base64.b64encode(pem).decode(),
            "signerName": signer,
            "usages": [*(usages or (*BASIC, "client auth"))],
            **spec,
        },
    }


async def call(plane: ControlPlane, user: UserInfo, method: str, url: str, body: Any = None) -> Answer:
    sent = b"" if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    request = Request(method=method, path=url, headers=headers, body=sent, user=user)
    response = await plane.server.app.respond(request)
    assert isinstance(response.body, bytes)
    return Answer(response.status, response.body)


async def decided(plane: ControlPlane, name: str = "csr") -> dict[str, Any]:
    """Return the status of a request when controllers and signer have had their turn."""
    await settle(300)
    await plane.run(2)
    status: dict[str, Any] = (await call(plane, ADMIN, "GET", f"{URL}/{name}")).body["status"]
    return status


def certificate(status: dict[str, Any]) -> x509.Certificate:
    return x509.load_pem_x509_certificate(base64.b64decode(status["certificate"]))


def life(made: x509.Certificate) -> timedelta:
    """How long a certificate is good from when it was signed: it begins a little before."""
    return made.not_valid_after_utc - made.not_valid_before_utc - timedelta(minutes=5)


def conditions(status: dict[str, Any]) -> dict[str, str]:
    return {entry["type"]: entry["reason"] for entry in status.get("conditions", [])}


async def token(plane: ControlPlane, *groups: str, seconds: float = 3600, **data: str) -> str:
    """Return a new bootstrap token."""
    made = bootstrap_tokens.new_token()
    secret = bootstrap_tokens.secret_for(made, groups, plane.clock.now() + timedelta(seconds=seconds), "a test")
    secret.data |= {name.replace("_", "-"): value.encode() for name, value in data.items()}
    await plane.client.create(secret)
    return made


async def test_a_node_joins_with_a_token_and_renews_its_certificate(plane: ControlPlane) -> None:
    shown = await token(plane, users.JOINING_NODES)
    joining = await plane.server.app.authenticator.user_of_token(shown)
    assert joining is not None
    assert joining.username == f"system:bootstrap:{shown[:6]}"
    answer = await call(plane, joining, "POST", URL, csr(request_for(*NAME)))
    assert answer.body["spec"]["username"] == joining.username
    status = await decided(plane)
    assert conditions(status) == {"Approved": "AutoApproved"}
    made = certificate(status)
    assert made.subject.rfc4514_string() == "CN=system:node:n1,O=system:nodes"
    made.verify_directly_issued_by(x509.load_pem_x509_certificate(plane.server.authority))
    assert [*made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value] == [ExtendedKeyUsageOID.CLIENT_AUTH]
    await call(plane, NODE, "POST", URL, csr(request_for(*NAME), KUBELET_CLIENT, *BASIC, "client auth", name="again"))
    assert "certificate" in await decided(plane, "again")


async def test_a_key_of_the_kubelets_kind_is_signed_too(plane: ControlPlane) -> None:
    key = rsa.generate_private_key(65537, 2048)
    await call(plane, NODE, "POST", URL, csr(request_for(*NAME, key=key), expirationSeconds=3600))
    made = certificate(await decided(plane))
    assert made.public_key() == key.public_key()
    assert life(made) == timedelta(hours=1)


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ({}, timedelta(hours=24)),
        ({"expirationSeconds": 3600}, timedelta(hours=1)),
        ({"expirationSeconds": 600}, timedelta(minutes=10)),
        ({"expirationSeconds": 864_000}, timedelta(hours=24)),
    ],
    ids=["nothing", "less", "the least", "more"],
)
async def test_certificates_last_as_long_as_the_server_says_or_less(asked: dict[str, Any], given: timedelta) -> None:
    kubelets = KubeletOptions(signing_duration=timedelta(hours=24))
    async with control_plane("certificatesigningrequest-approving", kubelets=kubelets) as plane:
        await call(plane, NODE, "POST", URL, csr(request_for(*NAME), **asked))
        assert life(certificate(await decided(plane))) == given


@dataclass
class Waits:
    name: str
    user: UserInfo
    request: dict[str, Any]


NOT_JOINING = UserInfo(username="system:bootstrap:abc", groups=["system:bootstrappers", "system:authenticated"])


@pytest.mark.parametrize(
    "case",
    [
        Waits("somebody without the right", ADMIN, csr(request_for(*NAME), KUBELET_SERVING, *BASIC, "server auth")),
        Waits("a client that is no kubelet", ADMIN, csr(request_for("jane"), CLIENT)),
        Waits("a kubelet with names", ADMIN, csr(request_for(*NAME, dns=("n1",)))),
        Waits("a kubelet of another group", ADMIN, csr(request_for("system:node:n1", ("system:masters",)))),
        Waits("a kubelet with other usages", ADMIN, csr(request_for(*NAME), KUBELET_CLIENT, "client auth")),
        Waits(
            "a serving certificate", NODE, csr(request_for(*NAME, dns=("n1",)), KUBELET_SERVING, *BASIC, "server auth")
        ),
        Waits("another signer", ADMIN, csr(request_for("x"), "example.com/own")),
    ],
    ids=lambda case: case.name,
)
async def test_what_no_rule_approves_waits_for_an_approver(plane: ControlPlane, case: Waits) -> None:
    assert (await call(plane, case.user, "POST", URL, case.request)).code == 201
    assert await decided(plane) == {}


async def approve(plane: ControlPlane, user: UserInfo, kind: str = "Approved") -> Answer:
    found = (await call(plane, ADMIN, "GET", f"{URL}/csr")).body
    entry = {"type": kind, "status": "True", "reason": "Test", "message": "by a test"}
    found["status"]["conditions"] = [*found["status"].get("conditions", []), entry]
    return await call(plane, user, "PUT", f"{URL}/csr/approval", found)


async def test_what_a_user_approves_is_signed(plane: ControlPlane) -> None:
    await call(plane, NODE, "POST", URL, csr(request_for(*NAME, dns=("n1",)), KUBELET_SERVING, *BASIC, "server auth"))
    assert (await approve(plane, ADMIN)).code == 200
    made = certificate(await decided(plane))
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["n1"]
    assert "mutually exclusive" in (await approve(plane, ADMIN, "Denied")).message


async def test_what_is_denied_is_not_signed(plane: ControlPlane) -> None:
    await call(plane, ADMIN, "POST", URL, csr(request_for("jane"), CLIENT))
    await approve(plane, ADMIN, "Denied")
    assert "certificate" not in await decided(plane)


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        (csr(request_for(*NAME), KUBELET_SERVING, *BASIC, "server auth"), "DNS or IP subjectAltName is required"),
        (csr(request_for(*NAME, dns=("a",), uri="spiffe://x"), KUBELET_SERVING, *BASIC, "server auth"), "URI subject"),
        (csr(request_for("n1", ("system:nodes",))), "does not begin with system:node:"),
        (csr(request_for("jane"), CLIENT, "server auth"), "invalid usage for client certificate: server auth"),
        (csr(request_for("jane"), CLIENT, "digital signature"), "missing required usage"),
    ],
)
async def test_what_is_approved_against_the_rules_of_its_signer_fails(
    plane: ControlPlane, request_: dict[str, Any], why: str
) -> None:
    assert (await call(plane, ADMIN, "POST", URL, request_)).code == 201
    await approve(plane, ADMIN)
    status = await decided(plane)
    assert "certificate" not in status
    assert [entry for entry in status["conditions"] if entry["type"] == "Failed" and why in entry["message"]]


async def test_approving_and_signing_take_rights_of_their_own(plane: ControlPlane) -> None:
    rights = [{"apiGroups": ["certificates.k8s.io"], "resources": ["*"], "verbs": ["get", "create", "update"]}]
    await grant(plane, rights)
    await call(plane, JANE, "POST", URL, csr(request_for("jane"), CLIENT))
    assert f'not permitted to approve requests with signerName "{CLIENT}"' in (await approve(plane, JANE)).message
    await approve(plane, ADMIN)
    await call(plane, JANE, "POST", URL, csr(request_for("x"), "example.com/own", name="own"))
    found = (await call(plane, ADMIN, "GET", f"{URL}/own")).body
    found["status"]["certificate"] = base64.b64encode(plane.server.authority).decode()
    assert "not permitted to sign" in (await call(plane, JANE, "PUT", f"{URL}/own/status", found)).message
    await grant(plane, [{**rights[0], "resources": ["signers"], "resourceNames": ["example.com/*"], "verbs": ["sign"]}])
    assert (await call(plane, JANE, "PUT", f"{URL}/own/status", found)).code == 200


async def grant(plane: ControlPlane, rules: list[dict[str, Any]]) -> None:
    group, name = "rbac.authorization.k8s.io", f"granted-{len(json.dumps(rules))}"
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "subjects": [{"kind": "User", "apiGroup": group, "name": "jane"}],
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
    }
    for resource, tree in (("clusterroles", role), ("clusterrolebindings", binding)):
        assert (await call(plane, ADMIN, "POST", f"/apis/{group}/v1/{resource}", tree)).code == 201


@dataclass
class Refused:
    name: str
    request: dict[str, Any]
    message: str
    user: UserInfo = field(default_factory=lambda: ADMIN)


BROKEN = request_for("x")[:-60] + b"\n-----END CERTIFICATE REQUEST-----\n"


@pytest.mark.parametrize(
    "case",
    [
        Refused("no PEM", csr(b"hello"), "spec.request: Invalid value: "),
        Refused("another PEM", csr(b"-----BEGIN CERTIFICATE-----\nx"), "PEM block type must be CERTIFICATE REQUEST"),
        Refused("half a request", csr(BROKEN), "spec.request: Invalid value"),
        Refused(
            "an unknown usage", csr(request_for("x"), CLIENT, "flying"), 'spec.usages[0]: Unsupported value: "flying"'
        ),
        Refused("a usage twice", csr(request_for("x"), CLIENT, "any", "any"), "spec.usages[1]: Duplicate value"),
        Refused("no signer", csr(request_for("x"), ""), "spec.signerName: Required value"),
        Refused("a signer without a domain", csr(request_for("x"), "own"), "of the form 'example.com/signer-name'"),
        Refused("a signer of one word", csr(request_for("x"), "own/x"), "at least two segments separated by dots"),
        Refused(
            "a signer in capitals", csr(request_for("x"), "example.com/Own"), 'validating label "Own": a lowercase'
        ),
        Refused("too short a life", csr(request_for("x"), CLIENT, expirationSeconds=599), "less than 600 seconds"),
        Refused("masters", csr(request_for("x", ("system:masters",)), CLIENT), "system:masters group is not allowed"),
        Refused("another node", csr(request_for("system:node:n2", ("system:nodes",))), "CN=system:node:n1", NODE),
    ],
    ids=lambda case: case.name,
)
async def test_a_request_is_refused(plane: ControlPlane, case: Refused) -> None:
    answer = await call(plane, case.user, "POST", URL, case.request)
    assert answer.code in {403, 422}
    assert case.message in answer.message


async def test_what_was_asked_for_never_changes(plane: ControlPlane) -> None:
    made = (await call(plane, ADMIN, "POST", URL, csr(request_for("jane"), CLIENT))).body
    changed = {**made, "spec": {**made["spec"], "username": "somebody", "groups": ["system:masters"]}}
    changed["status"] = {"certificate": base64.b64encode(plane.server.authority).decode()}
    assert (await call(plane, ADMIN, "PUT", f"{URL}/csr", changed)).body["spec"] == made["spec"]
    entry = {"type": "Approved", "status": "True", "reason": "x", "message": "x"}
    by_status = {**made, "status": {"conditions": [entry]}}
    assert (
        "updates may not add a condition" in (await call(plane, ADMIN, "PUT", f"{URL}/csr/status", by_status)).message
    )


async def test_a_node_does_not_approve_its_own_serving_certificate(plane: ControlPlane) -> None:
    await call(plane, NODE, "POST", URL, csr(request_for(*NAME, dns=("n1",)), KUBELET_SERVING, *BASIC, "server auth"))
    assert (await approve(plane, NODE)).code == 403


@dataclass
class BadToken:
    name: str
    data: dict[str, str] = field(default_factory=dict)
    seconds: float = 3600
    shown: str = ""


@pytest.mark.parametrize(
    "case",
    [
        BadToken("expired", seconds=-1),
        BadToken("with an end that cannot be read", {"expiration": "soon"}),
        BadToken("not for signing in", {"usage_bootstrap_authentication": "false"}),
        BadToken("with another group", {"auth_extra_groups": "system:masters"}),
        BadToken("of another id", {"token_id": "zzzzzz"}),
        BadToken("with another secret", shown="0123456789abcdef"),
    ],
    ids=lambda case: case.name,
)
async def test_a_token_is_nobodys(plane: ControlPlane, case: BadToken) -> None:
    made = await token(plane, seconds=case.seconds, **case.data)
    shown = f"{made[:7]}{case.shown}" if case.shown else made
    assert await plane.server.app.authenticator.user_of_token(shown) is None


async def test_a_token_ends_with_its_secret_and_expired_ones_are_cleared_away(plane: ControlPlane) -> None:
    short, long = await token(plane, seconds=60), await token(plane, seconds=600)
    await plane.run(120)
    assert await plane.names(Secret, "kube-system") == [f"bootstrap-token-{long[:6]}"]
    authenticator = plane.server.app.authenticator
    assert await authenticator.user_of_token(short) is None
    assert await authenticator.user_of_token(long) is not None
    await plane.client.delete(Secret, f"bootstrap-token-{long[:6]}", "kube-system")
    assert await authenticator.user_of_token(long) is None


async def test_old_requests_are_cleared_away(plane: ControlPlane) -> None:
    await call(plane, NODE, "POST", URL, csr(request_for(*NAME)))
    await call(plane, ADMIN, "POST", URL, csr(request_for("jane"), CLIENT, name="waiting"))
    await decided(plane)
    for hours, left in ((0.9, ["csr", "waiting"]), (0.2, ["waiting"]), (24, [])):
        await plane.stop()
        plane.clock.advance(hours * 3600)
        await plane.start()
        await settle(300)
        assert await plane.names(CertificateSigningRequest) == left
