"""Of which server a dump is: as `mooring dump` noted it, as real nodes let us assume, or of none."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from mooring.advisor.audit.options import component_of_snapshot
from mooring.advisor.snapshot import Snapshot, dump
from mooring.base.known_gates import SEMVER_OPERATORS

pytestmark = pytest.mark.req("U.4")
POD: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": []}}


def node(image: str) -> dict[str, Any]:
    info = {"kubeletVersion": "v1.35.2", "osImage": image}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "1"}, "status": {"nodeInfo": info}}


def read(folder: Path, *items: dict[str, Any], **head: Any) -> Snapshot:
    path = folder / "dump.yaml"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "missing": {}, "items": list(items), **head}))
    return dump([path])


@pytest.mark.parametrize(
    ("items", "head", "known"),
    [
        ([POD], {}, False),
        ([POD, node("Simulated Linux")], {}, False),
        ([POD, node("Debian GNU/Linux 12")], {}, True),
        ([POD], {"server": {"version": {"major": "1", "minor": "37"}, "gates": {}}}, True),
    ],
    ids=["manifests", "nodes that Mooring plays", "real nodes", "what mooring dump wrote"],
)
def test_a_dump_is_of_a_server_or_of_none(
    items: list[dict[str, Any]], head: dict[str, Any], known: bool, tmp_path: Path
) -> None:
    assert (component_of_snapshot(read(tmp_path, *items, **head)) is not None) is known


def test_real_nodes_mean_stock_kubernetes_in_the_version_of_the_newest_kubelet(tmp_path: Path) -> None:
    found = component_of_snapshot(read(tmp_path, node("Debian GNU/Linux 12")))
    assert found is not None
    running, notes = found
    assert str(running.versions.emulation) == "1.35"
    assert "it is taken as Kubernetes 1.35" in " ".join(notes)


@pytest.mark.parametrize("on", [True, False])
def test_gates_that_a_dump_notes_count(on: bool, tmp_path: Path) -> None:
    version = {"major": "1", "minor": "37", "goVersion": "python3.13"}
    server = {"version": version, "gates": {SEMVER_OPERATORS: on}}
    found = component_of_snapshot(read(tmp_path, POD, server=server))
    assert found is not None
    assert found[0].gates.enabled(SEMVER_OPERATORS) is on
