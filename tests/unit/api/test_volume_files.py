"""The files of volumes that are made of objects: what a kubelet would write, and what keeps a pod waiting."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from mooring.api import codec
from mooring.api.authentication_v1 import TokenRequestSpec
from mooring.api.certificates_v1 import ClusterTrustBundle, ClusterTrustBundleSpec
from mooring.api.core_v1 import (
    ConfigMap,
    Container,
    Pod,
    PodCertificateProjection,
    PodSpec,
    ResourceRequirements,
    Secret,
    Volume,
)
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.quantity import Quantity
from mooring.api.volume_files import File, MissingError, files_of, pem

pytestmark = [pytest.mark.req("N.8"), pytest.mark.anyio]
POD = Pod(
    metadata=ObjectMeta(name="web", namespace="shop", uid="u", labels={"b": "2", "a": "1"}),
    spec=PodSpec(
        containers=[
            Container(
                name="c",
                resources=ResourceRequirements(
                    limits={"cpu": Quantity.parse("1500m"), "memory": Quantity.parse("64Mi")}
                ),
            )
        ]
    ),
)


def bundle(name: str, *certificates: bytes, signer: str = "", **labels: str) -> ClusterTrustBundle:
    text = "junk\n" + "".join(pem("CERTIFICATE", each) for each in certificates)
    spec = ClusterTrustBundleSpec(signer_name=signer, trust_bundle=text)
    return ClusterTrustBundle(metadata=ObjectMeta(name=name, labels=labels), spec=spec)


class Objects:
    """A source with a few objects."""

    async def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        found = ConfigMap(data={"a": "1", "b": "2"}, binary_data={"c": b"\xff"})
        return found if (namespace, name) == ("shop", "settings") else None

    async def secret(self, namespace: str, name: str) -> Secret | None:
        return Secret(data={"key": b"\x00"}) if (namespace, name) == ("shop", "secret") else None

    async def token(self, pod: Pod, spec: TokenRequestSpec) -> str:
        assert spec.bound_object_ref is not None
        return f"{pod.metadata.name} {spec.audiences} {spec.expiration_seconds} {spec.bound_object_ref.uid}"

    async def trust_bundles(self) -> Sequence[ClusterTrustBundle]:
        return [
            bundle("one", b"x" * 60),
            bundle("two", b"y", b"z", signer="a.com/s", env="test"),
            bundle("three", b"z", signer="a.com/s"),
        ]

    async def certificate(self, pod: Pod, volume: str, wanted: PodCertificateProjection) -> tuple[bytes, bytes]:
        return f"key of {pod.metadata.name} in {volume}\n".encode(), wanted.signer_name.encode()


def pems(*certificates: bytes) -> bytes:
    return "".join(pem("CERTIFICATE", each) for each in sorted(certificates, key=base64.b64encode)).encode()


@dataclass(frozen=True)
class Case:
    name: str
    volume: dict[str, Any]
    files: dict[str, File] = field(default_factory=dict)


def projected(*sources: dict[str, Any], **other: Any) -> dict[str, Any]:
    return {"projected": {"sources": list(sources), **other}}


def trust(**wanted: Any) -> dict[str, Any]:
    return projected({"clusterTrustBundle": {"path": "ca.pem", **wanted}})


CASES = [
    Case(
        "all keys of a ConfigMap",
        {"configMap": {"name": "settings"}},
        {"a": File(b"1"), "b": File(b"2"), "c": File(b"\xff")},
    ),
    Case(
        "chosen keys with modes",
        {
            "configMap": {
                "name": "settings",
                "defaultMode": 0o400,
                "items": [{"key": "a", "path": "x/a"}, {"key": "b", "path": "b", "mode": 0o755}],
            }
        },
        {"x/a": File(b"1", 0o400), "b": File(b"2", 0o755)},
    ),
    Case("a ConfigMap that may be missing", {"configMap": {"name": "none", "optional": True}}),
    Case(
        "a key that may be missing",
        {"configMap": {"name": "settings", "optional": True, "items": [{"key": "z", "path": "z"}]}},
    ),
    Case("a Secret", {"secret": {"secretName": "secret"}}, {"key": File(b"\x00")}),
    Case(
        "fields of the pod",
        {
            "downwardAPI": {
                "items": [
                    {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
                    {"path": "cpu", "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"}},
                    {
                        "path": "memory",
                        "resourceFieldRef": {"containerName": "c", "resource": "limits.memory", "divisor": "1Mi"},
                    },
                ]
            }
        },
        {"labels": File(b'a="1"\nb="2"'), "cpu": File(b"2"), "memory": File(b"64")},
    ),
    Case(
        "several sources, of which the last counts",
        projected(
            {"configMap": {"name": "settings"}}, {"secret": {"name": "secret", "items": [{"key": "key", "path": "a"}]}}
        ),
        {"a": File(b"\x00"), "b": File(b"2"), "c": File(b"\xff")},
    ),
    Case(
        "a token for somebody",
        projected(
            {"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 600}}, defaultMode=0o440
        ),
        {"token": File(b"web ['vault'] 600 u", 0o440)},
    ),
    Case("a bundle by name", trust(name="one"), {"ca.pem": File(pems(b"x" * 60))}),
    Case(
        "bundles of a signer, each certificate once",
        trust(signerName="a.com/s", labelSelector={}),
        {"ca.pem": File(pems(b"y", b"z"))},
    ),
    Case(
        "bundles by label",
        trust(signerName="a.com/s", labelSelector={"matchLabels": {"env": "test"}}),
        {"ca.pem": File(pems(b"y", b"z"))},
    ),
    Case(
        "no selector chooses no bundle, which may be so",
        trust(signerName="a.com/s", optional=True),
        {"ca.pem": File(b"")},
    ),
    Case("a bundle that may be missing", trust(name="none", optional=True), {"ca.pem": File(b"")}),
    Case(
        "a certificate of the pod",
        projected(
            {
                "podCertificate": {
                    "signerName": "s",
                    "keyType": "ED25519",
                    "credentialBundlePath": "all.pem",
                    "keyPath": "key.pem",
                }
            }
        ),
        {"all.pem": File(b"key of web in v\ns"), "key.pem": File(b"key of web in v\n")},
    ),
]
MISSING = [
    Case('configmap "none" not found', {"configMap": {"name": "none"}}),
    Case(
        "references non-existent config key: z",
        {"configMap": {"name": "settings", "items": [{"key": "z", "path": "z"}]}},
    ),
    Case('secret "none" not found', projected({"secret": {"name": "none"}})),
    Case('clustertrustbundle.certificates.k8s.io "none" not found', trust(name="none")),
    Case("matched zero ClusterTrustBundles", trust(signerName="a.com/s")),
]


def volume(tree: dict[str, Any]) -> Volume:
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"volumes": [{"name": "v", **tree}]}}
    return codec.decode_own(codec.encode(pod), Pod).spec.volumes[0]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_files_hold_what_a_kubelet_would_write(case: Case) -> None:
    assert await files_of(Objects(), POD, volume(case.volume)) == case.files


@pytest.mark.parametrize("case", MISSING, ids=lambda case: case.name)
async def test_what_must_be_there_and_is_not_keeps_the_pod_waiting(case: Case) -> None:
    with pytest.raises(MissingError, match=case.name):
        await files_of(Objects(), POD, volume(case.volume))


async def test_other_volumes_are_not_made_of_objects() -> None:
    assert await files_of(Objects(), POD, volume({"emptyDir": {}})) is None
