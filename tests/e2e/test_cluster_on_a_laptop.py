"""A cluster of somewhere else on this machine: `mooring up --nodes` with a List, and `mooring up --from` a dump."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from eventually import eventually
from kubectl_caller import KUBECTL, Kubectl
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.snapshot.to_file import write_snapshot
from mooring.cli.main import mooring
from mooring.testing.builders import node, pod
from running_up import running_up

pytestmark = [pytest.mark.req("S.5"), pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on this machine")]


def listed(*nodes: Any) -> str:
    """Return what `kubectl get nodes -o json` prints."""
    items = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": each.metadata.name,
                "labels": each.metadata.labels,
                "uid": "u",
                "resourceVersion": "7",
            },
            "spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]},
            "status": {"allocatable": {"cpu": "7", "pods": "9"}, "capacity": {"cpu": "8", "pods": "9"}},
        }
        for each in nodes
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items})


def test_a_list_of_nodes_becomes_simulated_nodes(tmp_path: Path) -> None:
    (tmp_path / "nodes.json").write_text(listed(node("a", labels={"disk": "ssd"}), node("b")))
    with running_up("--ephemeral", "--nodes", str(tmp_path / "nodes.json"), "--single-process") as running:
        kubectl = Kubectl(running.kubeconfig)
        eventually(lambda: kubectl("get", "nodes", "-l", "disk=ssd", "-o", "jsonpath={..allocatable.cpu}") == "7")
        eventually(lambda: kubectl("get", "nodes", "-o", "jsonpath={..taints}") == "")


def test_a_dump_runs_here_and_can_be_changed(tmp_path: Path) -> None:
    objects = [
        node("a"),
        node("b"),
        pod("web", on="a", cpu="1", namespace="shop"),
        pod("huge", cpu="99", namespace="shop"),
    ]
    with (tmp_path / "prod.json").open("wb") as stream:
        write_snapshot(
            Snapshot("prod", objects, server={"version": {"major": "1", "minor": "33"}, "gates": {}}), stream
        )
    (tmp_path / "prod.json.gz").write_bytes(gzip.compress((tmp_path / "prod.json").read_bytes()))
    with running_up("--ephemeral", "--from", str(tmp_path / "prod.json.gz"), "--single-process") as running:
        kubectl = Kubectl(running.kubeconfig)
        assert '"minor":"33"' in kubectl("get", "--raw", "/version")
        web = ("get", "pod", "web", "-n", "shop", "-o", "jsonpath={.spec.nodeName} {.status.phase}")
        eventually(lambda: kubectl(*web) == "a Running")
        reason = (
            "get",
            "pod",
            "huge",
            "-n",
            "shop",
            "-o",
            "jsonpath={.status.conditions[?(@.type=='PodScheduled')].reason}",
        )
        eventually(lambda: kubectl(*reason) == "Unschedulable")
        done = CliRunner().invoke(mooring, ["explain", "-A", "--kubeconfig", str(running.kubeconfig)])
        assert "no node is that large, even empty" in done.stdout, done.output
        assert "Kubernetes 1.33" in done.stdout


def test_a_dump_does_not_go_into_a_directory_that_is_in_use(tmp_path: Path) -> None:
    with (tmp_path / "prod.json").open("wb") as stream:
        write_snapshot(Snapshot("prod", [node("a")]), stream)
    with running_up("--data-dir", str(tmp_path / "data"), "--nodes", "1", "--single-process"):
        pass
    done = CliRunner().invoke(
        mooring, ["up", "--data-dir", str(tmp_path / "data"), "--port", "0", "--from", str(tmp_path / "prod.json")]
    )
    assert "--from needs a new data directory" in done.output
