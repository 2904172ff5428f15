"""`mooring lint --cluster`: manifests are validated by a live server's versions, gates, APIs and objects."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mooring.cli.main import mooring
from mooring.testing.control_plane import RunningControlPlane

pytestmark = pytest.mark.req("S.5")
NO_WORKERS = ("scheduler", "controllers", "nodes")
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: web}]"
GT = POD + ", tolerations: [{key: sla, operator: Gt, value: '5'}]}\n"
OBJECTS = """\
apiVersion: v1
kind: Node
metadata: {name: n1}
spec: {taints: [{key: sla, value: high, effect: NoSchedule}]}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: example.com/fast
"""
CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: claim}
spec: {devices: {requests: [{name: a, exactly: {deviceClassName: %s}}]}}
"""
VOLUME_CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claim}
spec: {accessModes: [ReadWriteOnce], storageClassName: %s, resources: {requests: {storage: 1Gi}}}
"""


@pytest.fixture(scope="module")
def newest() -> Iterator[RunningControlPlane]:
    with RunningControlPlane(without=NO_WORKERS) as plane:
        plane.create(OBJECTS)
        yield plane


@pytest.fixture(scope="module")
def older() -> Iterator[RunningControlPlane]:
    with RunningControlPlane(
        without=NO_WORKERS, emulation_version="1.36", runtime_config="storage.k8s.io/v1beta1=true"
    ) as plane:
        yield plane


def lint(plane: RunningControlPlane, text: str, *words: str) -> Result:
    return CliRunner().invoke(
        mooring, ["lint", "--cluster", "--kubeconfig", str(plane.kubeconfig), *words, "-"], input=text
    )


CASES = {
    "a taint that is no number": (GT, "M030 Pod web: spec.tolerations[0]: 1 of 1 values of the taint"),
    "a class that is there": (CLAIM % "gpu", "0 errors, 0 warnings"),
    "a class that is not": (CLAIM % "cpu", 'exactly.deviceClassName: the cluster has no DeviceClass "cpu"'),
    "a storage class that is there": (VOLUME_CLAIM % "fast", "0 errors, 0 warnings"),
    "a storage class that is not": (
        VOLUME_CLAIM % "slow",
        'spec.storageClassName: the cluster has no StorageClass "slow"',
    ),
    "a namespace that is not": (GT.replace("{name: web}", "{name: web, namespace: x}"), 'no namespace "x"'),
    "a priority that every cluster has": (
        POD + ", tolerations: [{operator: Exists}], priorityClassName: system-node-critical}",
        "0 errors, 0 warnings",
    ),
    "a custom resource that is not there": (
        "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n",
        "the cluster does not serve example.com/v1 Widget",
    ),
    "an API version that is switched off": (
        "apiVersion: resource.k8s.io/v1beta1\nkind: DeviceClass\nmetadata: {name: d}\n",
        "the cluster does not serve resource.k8s.io/v1beta1 DeviceClass; it has resource.k8s.io/v1",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_manifests_are_compared_with_the_cluster(newest: RunningControlPlane, name: str) -> None:
    text, expected = CASES[name]
    result = lint(newest, text)
    assert expected in result.output


def test_the_versions_of_the_server_decide(newest: RunningControlPlane, older: RunningControlPlane) -> None:
    assert lint(newest, GT).exit_code == 0
    refused = lint(older, GT)
    assert refused.exit_code == 1
    assert 'Unsupported value: "Gt"' in refused.output


def test_flags_decide_where_they_are_given(older: RunningControlPlane) -> None:
    assert lint(older, GT, "--emulation-version", "1.37").exit_code == 0


def test_an_api_that_is_switched_on_is_served(older: RunningControlPlane) -> None:
    text = "apiVersion: storage.k8s.io/v1beta1\nkind: VolumeAttributesClass\nmetadata: {name: v}\ndriverName: d\n"
    assert "M005" not in lint(older, text).output


SEMVER = POD + ", tolerations: [{key: kernel, operator: SemverGt, value: 5.10.0}]}\n"
EXPRESSION = POD + ", tolerations: [{expression: \"taint.key == 'a'\"}]}\n"


@pytest.mark.req("U.4")
@pytest.mark.parametrize("text", [GT, SEMVER, EXPRESSION], ids=["Gt", "SemverGt", "expression"])
def test_a_dump_of_a_stock_cluster_is_no_server_of_new_constraints(text: str, tmp_path: Path) -> None:
    dump = tmp_path / "cluster.yaml"
    dump.write_text(
        "apiVersion: v1\nkind: Node\nmetadata: {name: n}\nstatus: {nodeInfo: {kubeletVersion: v1.37.0}}\n"
        "spec: {taints: [{key: kernel, value: 6.1.0, effect: NoSchedule}, {key: sla, value: '9', effect: NoSchedule}]}"
    )
    words = ["lint", "--cluster-from", str(dump)]
    refused = CliRunner().invoke(mooring, [*words, "-"], input=text)
    assert refused.exit_code == 1
    assert "spec.tolerations[0]" in refused.output
    named = CliRunner().invoke(mooring, [*words, "--emulation-version", "1.37", "-"], input=text)
    assert named.exit_code == 0, named.output
