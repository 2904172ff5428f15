"""What a new pod gets from its service account, and which accounts it may name."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import pytest

from admission_pods import Tree, causes, pod_of, request
from mooring.admission.pipeline import admit_create
from mooring.admission.strategy import NoCluster
from mooring.api import codec, errors
from mooring.api.core_v1 import LocalObjectReference, Pod, ServiceAccount
from mooring.api.meta_v1 import ObjectMeta

pytestmark = pytest.mark.req("S.1")
PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


def account(name: str, *, automount: bool | None = None, pulls: list[str] | None = None) -> ServiceAccount:
    return ServiceAccount(
        metadata=ObjectMeta(name=name, uid=f"uid-{name}"),
        automount_service_account_token=automount,
        image_pull_secrets=[LocalObjectReference(name=secret) for secret in pulls or []],
    )


ACCOUNTS = [account("default"), account("no-token", automount=False), account("puller", pulls=["registry"])]


class WithAccounts(NoCluster):
    def service_accounts(self, namespace: str) -> Mapping[str, ServiceAccount] | None:
        return {each.metadata.name: each for each in ACCOUNTS}


def admitted(spec: Tree | None = None, metadata: Tree | None = None) -> Pod:
    return admit_create(pod_of(spec, metadata), request(lookups=WithAccounts())).object


@dataclass(frozen=True)
class Case:
    name: str
    spec: Tree = field(default_factory=dict)
    account: str = "default"
    mounts: bool = True


CASES = [
    Case("a pod without an account has the default one and a token"),
    Case("the account can say that there is no token", {"serviceAccountName": "no-token"}, "no-token", mounts=False),
    Case(
        "the pod has the last word for a token",
        {"serviceAccountName": "no-token", "automountServiceAccountToken": True},
        "no-token",
    ),
    Case("the pod has the last word against a token", {"automountServiceAccountToken": False}, mounts=False),
    Case("the old name of the field counts", {"serviceAccount": "puller"}, "puller"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_new_pod_has_an_account_and_perhaps_its_token(case: Case) -> None:
    spec = admitted(case.spec).spec
    assert (spec.service_account_name, spec.service_account) == (case.account, case.account)
    assert [mount.mount_path for mount in spec.containers[0].volume_mounts] == ([PATH] if case.mounts else [])
    assert [volume.name for volume in spec.volumes] == [mount.name for mount in spec.containers[0].volume_mounts]


def test_the_volume_has_token_certificate_and_namespace_as_kubernetes_writes_them() -> None:
    volume = msgspec.json.decode(codec.encode(admitted().spec.volumes[0]))
    assert volume.pop("name").startswith("kube-api-access-")
    file = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    assert volume == {
        "projected": {
            "defaultMode": 420,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [file]}},
            ],
        }
    }


def test_pods_of_one_template_stay_identical() -> None:
    assert admitted().spec == admitted().spec


def test_what_is_mounted_at_that_place_already_stays() -> None:
    mounts = [{"name": "own", "mountPath": PATH}]
    containers = [{"name": "c", "image": "i", "volumeMounts": mounts}, {"name": "d", "image": "i"}]
    spec = admitted({"containers": containers, "volumes": [{"name": "own", "emptyDir": {}}]}).spec
    assert [mount.name for mount in spec.containers[0].volume_mounts] == ["own"]
    assert [volume.name for volume in spec.volumes] == ["own", spec.containers[1].volume_mounts[0].name]


def test_secrets_to_pull_images_come_from_the_account_unless_the_pod_has_its_own() -> None:
    theirs = admitted({"serviceAccountName": "puller"}).spec.image_pull_secrets
    own = admitted({"serviceAccountName": "puller", "imagePullSecrets": [{"name": "mine"}]}).spec.image_pull_secrets
    assert ([each.name for each in theirs], [each.name for each in own]) == (["registry"], ["mine"])


def test_a_projected_token_needs_no_name_because_the_account_comes_first() -> None:
    token = {"serviceAccountToken": {"path": "token"}}
    spec = admitted({"volumes": [{"name": "v", "projected": {"sources": [token]}}]}).spec
    assert spec.service_account_name == "default"


def test_an_account_that_does_not_exist_is_refused() -> None:
    with pytest.raises(errors.Forbidden) as refusal:
        admitted({"serviceAccountName": "nobody"})
    assert str(refusal.value) == (
        'pods "p" is forbidden: error looking up service account default/nobody: serviceaccount "nobody" not found'
    )


MIRROR = {"annotations": {"kubernetes.io/config.mirror": "abc"}}
TOKEN = {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
MIRRORS = [
    ({"serviceAccountName": "default"}, "a mirror pod may not reference service accounts"),
    ({"imagePullSecrets": [{"name": "s"}]}, "a mirror pod may not reference secrets"),
    ({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}, "a mirror pod may not reference secrets"),
    ({"volumes": [TOKEN]}, "a mirror pod may not use ServiceAccountToken volume projections"),
]


@pytest.mark.parametrize(("spec", "why"), MIRRORS, ids=["account", "pull secret", "secret volume", "token"])
def test_a_mirror_pod_has_neither_account_nor_secrets(spec: Tree, why: str) -> None:
    with pytest.raises(errors.Forbidden) as refusal:
        admitted({"nodeName": "n", **spec}, MIRROR)
    assert causes(refusal.value)[-1].endswith(why)


def test_without_accounts_pods_stay_as_they_are() -> None:
    spec = admit_create(pod_of(), request()).object.spec
    assert (spec.service_account_name, spec.volumes, spec.containers[0].volume_mounts) == ("", [], [])
