"""ClusterTrustBundles and APIServices: what may be written in them, and who may say whom to trust."""

import pytest

from admission_kinds import Create, Update, authority, example, shortened
from mooring.admission.certificates import validate_signer_name
from mooring.api import errors
from mooring.api.authentication_v1 import UserInfo
from mooring.api.field_path import Path
from mooring.api.rbac_v1 import PolicyRule
from mooring.apiserver.access.authz import Attributes, Decision
from mooring.apiserver.access.certificate_checks import CertificateChecks

pytestmark = pytest.mark.req("N.10")
ONE, TWO = authority("one"), authority("two")
OMITTED = 'spec.trustBundle: Invalid value: "<value omitted>": '
SIGNED = {"metadata": {"name": "example.com:a:roots"}, "spec": {"signerName": "example.com/a"}}


def bundle(text: str) -> dict[str, object]:
    return {"spec": {"trustBundle": text}}


CREATES = [
    Create("two authorities", "ClusterTrustBundle", bundle(f"whatever\n{ONE}\n{TWO}")),
    Create("of a signer", "ClusterTrustBundle", SIGNED),
    Create(
        "nobody to trust",
        "ClusterTrustBundle",
        bundle("no certificates"),
        [f"{OMITTED}at least one trust anchor must be provided"],
    ),
    Create(
        "the same one twice",
        "ClusterTrustBundle",
        bundle(ONE + TWO + ONE),
        [f"{OMITTED}duplicate trust anchor (indices [0 2])"],
    ),
    Create(
        "a key among them",
        "ClusterTrustBundle",
        bundle(ONE + ONE.replace("CERTIFICATE", "PRIVATE KEY")),
        [f"{OMITTED}entry 1 has bad block type: PRIVATE KEY"],
    ),
    Create(
        "somebody who is no authority",
        "ClusterTrustBundle",
        bundle(authority(ca=False)),
        [f"{OMITTED}entry 0 does not have the CA bit set"],
    ),
    Create(
        "no certificate in the block",
        "ClusterTrustBundle",
        bundle("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        [f"{OMITTED}entry 0 does not parse as X.509"],
    ),
    Create(
        "headers in a block",
        "ClusterTrustBundle",
        bundle(ONE.replace("-----\n", "-----\na: b\n\n", 1)),
        [f"{OMITTED}entry 0 has PEM block headers"],
    ),
    Create(
        "a name like a signer's",
        "ClusterTrustBundle",
        {"metadata": {"name": "a:b"}},
        ['metadata.name: Invalid value: "a:b": ClusterTrustBundle without signer name must not have ":" in its name'],
    ),
    Create(
        "another signer's name",
        "ClusterTrustBundle",
        {**SIGNED, "metadata": {"name": "example.com:b:roots"}},
        ['metadata.name: Invalid value: "example.com:b:roots": ClusterTrustBundle for signerName example.com/a must…'],
    ),
    Create(
        "a name that is not version and group",
        "APIService",
        {"metadata": {"name": "x"}},
        ['metadata.name: Invalid value: "x": must be `spec.version+"."+spec.group`: "v1.x.example.com"'],
    ),
    Create(
        "a local one with an authority",
        "APIService",
        {"spec": {"caBundle": "YQ==", "insecureSkipTLSVerify": True, "versionPriority": 0}},
        [
            "spec.versionPriority: Invalid value: 0: must be positive and less than 1000",
            'spec.caBundle: Invalid value: "1 bytes": local APIServices may not have a caBundle',
            "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have insecureSkipTLSVerify",
        ],
    ),
    Create(
        "a Service without a name",
        "APIService",
        {"spec": {"service": {"port": 0}}},
        [
            "spec.service.namespace: Required value",
            "spec.service.name: Required value",
            "spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
        ],
    ),
]


@pytest.mark.parametrize("case", CREATES, ids=lambda case: f"{case.kind} {case.id}")
def test_create(case: Create) -> None:
    assert shortened(case.validate(), case.problems) == case.problems


def test_the_signer_of_a_bundle_cannot_change() -> None:
    case = Update(
        "", "ClusterTrustBundle", SIGNED, {"spec": {"signerName": "example.com/b"}},
        ['spec.signerName: Invalid value: "example.com/b": field is immutable'],
    )  # fmt: skip
    name, *others = case.validate()
    assert "must be named with prefix example.com:b:" in name
    assert others == case.problems


class _Rights:
    """Allows one verb on one signer."""

    def __init__(self, signer: str) -> None:
        self._signer = signer

    def authorize(self, user: UserInfo, attributes: Attributes) -> Decision:
        return Decision((attributes.verb, attributes.resource, attributes.name) == ("attest", "signers", self._signer))

    async def prepare(self, user: UserInfo, attributes: Attributes) -> None: ...

    def rules(self, user: UserInfo, namespace: str) -> list[PolicyRule]:
        return []

    async def catch_up(self) -> None: ...


@pytest.mark.parametrize("signer", ["example.com/a", "example.com/*"])
def test_who_may_attest_for_a_signer_may_write_its_bundle(signer: str) -> None:
    CertificateChecks(_Rights(signer)).check(UserInfo(), example("ClusterTrustBundle", SIGNED), None, "")


def test_others_may_write_only_bundles_without_a_signer() -> None:
    checks = CertificateChecks(_Rights("example.com/b"))
    checks.check(UserInfo(), example("ClusterTrustBundle"), None, "")
    with pytest.raises(errors.Forbidden, match=r'user not permitted to attest for signerName "example\.com/a"'):
        checks.check(UserInfo(), example("ClusterTrustBundle", SIGNED), None, "")


def test_garbage_collection_needs_no_such_right() -> None:
    old, new = (example("ClusterTrustBundle", SIGNED) for _ in range(2))
    new.spec.trust_bundle = old.spec.trust_bundle
    new.metadata.finalizers = ["example.com/x"]
    CertificateChecks(_Rights("nobody/x")).check(UserInfo(), new, old, "")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("plain", "must be a fully qualified domain and path of the form 'example.com/signer-name'"),
        ("a.example/b/c", "must be a fully qualified domain and path of the form 'example.com/signer-name'"),
        ("local/b", "should be a domain with at least two segments separated by dots"),
        ("a_b.example/c", "validating label"),
        ("a.example/C", "validating label"),
    ],
)
@pytest.mark.req("N.5")
def test_a_signer_name_is_a_domain_and_a_path_wherever_one_is_named(name: str, message: str) -> None:
    path = Path("spec.signerName")
    assert any(message in str(error) for error in validate_signer_name(name, path))
    assert validate_signer_name("a.example/b", path) == []
