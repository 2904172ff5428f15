"""Volumes as folders: which a container may write to, and that nothing leads out of them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mooring.api import codec
from mooring.api.core_v1 import Pod
from mooring.api.volume_files import MissingError
from mooring.client import Client
from mooring.controllers.programs.volumes import ReferencedObjectReader, Volumes

pytestmark = pytest.mark.req("S.4")


@dataclass(frozen=True)
class Case:
    name: str
    volume: dict[str, Any]
    read_only: bool = False
    mount: dict[str, Any] = field(default_factory=dict)


CASES = [
    Case("an emptyDir is written to", {"emptyDir": {}}),
    Case("an emptyDir that is mounted read-only is not", {"emptyDir": {}}, True, {"readOnly": True}),
    Case("a hostPath is a folder of the simulated node, and written to", {"hostPath": {"path": "/data"}}),
    Case("a claim is written to", {"persistentVolumeClaim": {"claimName": "data"}}),
    Case("a ConfigMap is not written to", {"configMap": {"name": "c"}}, True),
    Case("a Secret is not written to", {"secret": {"secretName": "s"}}, True),
    Case("a projected volume is not written to", {"projected": {"sources": []}}, True),
]


def pod(volume: dict[str, Any], mount: dict[str, Any]) -> Pod:
    container = {"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/mnt", **mount}]}
    tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "uid": "u"},
        "spec": {"nodeName": "node-0", "containers": [container], "volumes": [{"name": "v", **volume}]},
    }
    return codec.decode_own(codec.encode(tree), Pod)


@pytest.fixture
def volumes(tmp_path: Path) -> Volumes:
    no_client: Client = None  # type: ignore[assignment] # no object is asked for
    return Volumes(tmp_path, ReferencedObjectReader(no_client))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_made_of_objects_cannot_be_written_to(case: Case, volumes: Volumes, tmp_path: Path) -> None:
    made = pod(case.volume, case.mount)
    (mount,) = volumes.build_mounts(made, made.spec.containers[0], {})
    assert (mount.path, mount.read_only) == ("/mnt", case.read_only)
    assert mount.source.is_relative_to(tmp_path)


async def test_pods_of_a_node_share_its_paths(volumes: Volumes) -> None:
    made = pod({"hostPath": {"path": "/data"}}, {})
    await volumes.write(made)
    (mount,) = volumes.build_mounts(made, made.spec.containers[0], {})
    (mount.source / "left").write_text("here")
    made.metadata.uid = "another"
    (other,) = volumes.build_mounts(made, made.spec.containers[0], {})
    assert (other.source / "left").read_text() == "here"
    made.spec.node_name = "node-1"
    (elsewhere,) = volumes.build_mounts(made, made.spec.containers[0], {})
    assert elsewhere.source != mount.source


@pytest.mark.parametrize("mount", [{"subPath": "../x"}, {"subPath": "/etc"}, {"subPathExpr": "$(UP)/x"}], ids=str)
def test_a_path_below_a_volume_does_not_lead_out_of_it(mount: dict[str, Any], volumes: Volumes) -> None:
    made = pod({"emptyDir": {}}, mount)
    with pytest.raises(MissingError, match="leads out of the volume"):
        volumes.build_mounts(made, made.spec.containers[0], {"UP": ".."})


@pytest.mark.parametrize(
    ("link", "target", "reported"),
    [
        ("x", "/etc", "leads out of the volume"),
        ("x", "../../..", "leads out of the volume"),
        ("x", "x", "x"),
        ("x", "file/below", "x"),
    ],
    ids=["the machine's folder", "a folder above", "a circle", "below a file"],
)
async def test_a_link_that_a_program_left_does_not_lead_out_of_its_volume(
    link: str, target: str, reported: str, volumes: Volumes
) -> None:
    whole = pod({"emptyDir": {}}, {})
    await volumes.write(whole)
    (mount,) = volumes.build_mounts(whole, whole.spec.containers[0], {})
    (mount.source / "file").touch()
    (mount.source / link).symlink_to(target)
    made = pod({"emptyDir": {}}, {"subPath": link})
    with pytest.raises(MissingError, match=reported):
        volumes.build_mounts(made, made.spec.containers[0], {})


async def test_a_path_below_a_volume_may_have_variables(volumes: Volumes) -> None:
    made = pod({"emptyDir": {}}, {"subPathExpr": "$(NAME)/logs"})
    await volumes.write(made)
    (mount,) = volumes.build_mounts(made, made.spec.containers[0], {"NAME": "web"})
    assert mount.source.parts[-2:] == ("web", "logs")
