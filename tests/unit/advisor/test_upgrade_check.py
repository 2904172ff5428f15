"""`mooring.advisor.upgrade`: every node drained in virtual time, hazards, remedies and the verdict."""

import base64
import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mooring.advisor.releases import Crossing
from mooring.advisor.simulate import Settings
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.upgrade import (
    DrainOptions,
    Rollout,
    UpgradeRequest,
    check_upgrade,
    drain_all,
    helm_manifests,
    reports,
)
from mooring.advisor.upgrade.check import find_kubelet_skew, find_local_data
from mooring.advisor.upgrade.drains import pools_of
from mooring.advisor.upgrade.page import render_page
from mooring.advisor.upgrade.results import UpgradeCheck
from mooring.api import codec
from mooring.api.apps_v1 import DaemonSet, Deployment, ReplicaSet
from mooring.api.core_v1 import Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret
from mooring.api.meta_v1 import Resource
from mooring.api.policy_v1 import PodDisruptionBudget
from mooring.cli.main import mooring
from mooring.testing import builders

pytestmark = pytest.mark.req("E.1")


def deployment(name: str, replicas: int, cpu: str = "500m") -> Deployment:
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return builders.made(Deployment, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


def together(name: str, replicas: int, **spec: Any) -> list[Resource]:
    """Return a Deployment, its ReplicaSet, and its pods, which all run on the node `n0`."""
    web = deployment(name, replicas)
    owned = {"controller": True, "apiVersion": "apps/v1"}
    web.spec.template.spec.node_selector = spec.get("nodeSelector", {})
    web.metadata.uid = "d"
    labels = {"app": name, "pod-template-hash": "1"}
    tree = codec.to_tree(web)["spec"]["template"]
    tree["metadata"]["labels"] = labels
    meta: dict[str, Any] = {"name": f"{name}-1", "namespace": "default", "uid": "r", "labels": labels}
    meta["ownerReferences"] = [{**owned, "kind": "Deployment", "name": name, "uid": "d"}]
    sets = builders.made(
        ReplicaSet,
        {"metadata": meta, "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": tree}},
    )
    pods = []
    for number in range(replicas):
        meta = {"name": f"{name}-1-{number}", "namespace": "default", "uid": f"p{number}", "labels": labels}
        meta["ownerReferences"] = [{**owned, "kind": "ReplicaSet", "name": f"{name}-1", "uid": "r"}]
        pods.append(builders.made(Pod, {"metadata": meta, "spec": {**tree["spec"], "nodeName": "n0"}}))
    return [web, sets, *pods]


def budget(name: str, **spec: Any) -> PodDisruptionBudget:
    selector = {"matchLabels": {"app": name}}
    tree = {"metadata": {"name": name, "namespace": "default"}, "spec": {"selector": selector, **spec}}
    return builders.made(PodDisruptionBudget, tree)


def nodes(number: int, **more: Any) -> list[Node]:
    return [builders.node(f"n{index}", **more) for index in range(number)]


def drained(*objects: Resource, **options: Any) -> Rollout:
    return drain_all(Snapshot("a test", objects), DrainOptions(**options), Settings())


@dataclass(frozen=True)
class Case:
    objects: list[Resource]
    options: dict[str, Any]
    unfinished: list[str]
    pending: int
    seconds: float


CASES = {
    "nodes with room are drained one after the other": Case([*nodes(3), deployment("web", 4)], {}, [], 0, 360),
    "two at a time take half as long": Case([*nodes(4), deployment("web", 4)], {"max_unavailable": 2}, [], 0, 240),
    "a budget that allows no disruption blocks its node": Case(
        [*nodes(2), deployment("db", 1), budget("db", minAvailable=1)], {"timeout_seconds": 600}, ["n1"], 0, 720
    ),
    "a blocked node is emptied by force": Case(
        [*nodes(2), deployment("db", 1), budget("db", minAvailable=1)], {"force_seconds": 300}, [], 0, 540
    ),
    "a full cluster leaves pods pending only while a node is away": Case(
        [*nodes(2), deployment("web", 2, "3")], {}, [], 0, 240
    ),
    "new nodes before old ones keep every pod placed": Case(
        [*nodes(2), deployment("web", 2, "3")], {"surge": 1}, [], 0, 240
    ),
    "a new node and a missing one at a time": Case(
        [*nodes(4), deployment("web", 4)], {"surge": 1, "max_unavailable": 1}, [], 0, 240
    ),
    "only named nodes are drained": Case([*nodes(3), deployment("web", 3)], {"only": frozenset({"n1"})}, [], 0, 120),
    "a cluster without nodes has nothing to drain": Case([deployment("web", 1)], {}, [], 0, 0),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_drains_end_as_expected(case: Case) -> None:
    result = drained(*case.objects, **case.options)
    assert [each.node for each in result.unfinished] == case.unfinished
    assert sum(each.pods for each in result.pending) == case.pending
    assert result.seconds == case.seconds
    assert result.is_complete


def test_a_budget_delays_a_drain_until_the_replacement_is_ready() -> None:
    result = drained(*nodes(2), deployment("web", 4), budget("web", minAvailable=3), start_seconds=30)
    assert [each.seconds for each in result.blocks] == [30, 30, 60, 90], "one pod after the other"
    assert result.unfinished == ()


def test_start_times_are_measured_from_the_pods_of_a_workload() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": True}
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:30Z"},
    ]
    pod = builders.made(
        Pod,
        {
            "metadata": {"name": "web-1-a", "namespace": "default", "uid": "p", "ownerReferences": [owner]},
            "spec": {"nodeName": "n0", "containers": [{"name": "c", "image": "app:1"}]},
            "status": {"phase": "Running", "conditions": conditions},
        },
    )
    result = drained(*nodes(2), pod)
    assert [(each.workload, each.longest_seconds) for each in result.interruptions] == [
        ("ReplicaSet default/web-1", 90.0)
    ]


def test_a_pod_with_a_local_volume_waits_for_its_node() -> None:
    required = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n0"]}
    volume = builders.made(
        PersistentVolume,
        {
            "metadata": {"name": "pv"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "local": {"path": "/data"},
                "claimRef": {"namespace": "default", "name": "data", "uid": "c"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [required]}]}},
            },
            "status": {"phase": "Bound"},
        },
    )
    claim = builders.made(
        PersistentVolumeClaim,
        {
            "metadata": {
                "name": "data",
                "namespace": "default",
                "uid": "c",
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            },
            "spec": {"volumeName": "pv", "accessModes": ["ReadWriteOnce"], "storageClassName": ""},
            "status": {"phase": "Bound"},
        },
    )
    web = deployment("db", 1)
    web.spec.template.spec.volumes = builders.pod(
        "x", spec={"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}
    ).spec.volumes
    result = drained(*nodes(2), volume, claim, web)
    assert [(each.workload, each.seconds) for each in result.delayed] == [("Deployment default/db", 120.0)]
    assert result.interruptions[0].longest_seconds == 130.0


def test_pods_of_daemon_sets_stay_on_their_node() -> None:
    container = {"name": "c", "image": "agent:1"}
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
    agent = builders.made(DaemonSet, {"metadata": {"name": "agent", "namespace": "default"}, "spec": spec})
    result = drained(*nodes(3), agent)
    assert (result.moves, result.daemon_pods, result.unfinished) == ((), 3, ())


@pytest.mark.req("E.4")
@pytest.mark.parametrize(
    ("labels", "chosen", "pools"),
    [
        pytest.param({}, "", ["nodes"], id="nodes without labels are one pool"),
        pytest.param({"eks.amazonaws.com/nodegroup": "gpu"}, "", ["gpu", "nodes"], id="a provider's label"),
        pytest.param({"team": "a"}, "team", ["a", "nodes"], id="a label that was chosen"),
    ],
)
def test_pools_are_found_by_label(labels: dict[str, str], chosen: str, pools: list[str]) -> None:
    found = pools_of([builders.node("x"), builders.node("y", labels=labels)], chosen)
    assert list(found) == pools


# -- hazards


def running_pod(**spec: Any) -> Pod:
    return builders.pod("alone", spec={"nodeName": "n0", **spec})


HAZARDS: dict[str, tuple[Callable[[], Pod], list[str]]] = {
    "a pod without a controller is lost": (running_pod, ["no controller"]),
    "an emptyDir is deleted": (
        lambda: running_pod(volumes=[{"name": "scratch", "emptyDir": {}}]),
        ["no controller", "emptyDir volume scratch"],
    ),
    "an emptyDir in memory is no data": (
        lambda: running_pod(volumes=[{"name": "shm", "emptyDir": {"medium": "Memory"}}]),
        ["no controller"],
    ),
    "a hostPath stays on the node": (
        lambda: running_pod(volumes=[{"name": "h", "hostPath": {"path": "/var/data"}}]),
        ["no controller", "/var/data"],
    ),
}


@pytest.mark.parametrize(("pod", "problems"), HAZARDS.values(), ids=HAZARDS.keys())
def test_local_data_is_named(pod: Callable[[], Pod], problems: list[str]) -> None:
    found = [each.problem for each in find_local_data(Snapshot("a test", [*nodes(1), pod()]))]
    assert len(found) == len(problems)
    assert all(text in problem for problem, text in zip(found, problems, strict=True))


def test_kubelets_are_checked_at_every_release_on_the_way() -> None:
    old = builders.node("old")
    old.status.node_info.kubelet_version = "v1.32.3"
    found = list(find_kubelet_skew([old], Crossing.between("1.34", "1.37")))
    assert [(each.release, each.nodes) for each in found] == [("1.36", ("old",)), ("1.37", ("old",))]


@pytest.mark.parametrize(
    ("kubelet", "start", "end", "verdict"),
    [
        pytest.param("v1.36.1", "1.36", "1.37", "passes", id="as new as the API server"),
        pytest.param("v1.31.0", "1.31", "1.37", "passes with warnings", id="the steps upgrade the nodes in time"),
        pytest.param("v1.30.0", "1.35", "1.36", "does not pass", id="too old for the next release"),
        pytest.param("v1.37.0", "1.37", "1.36", "passes with warnings", id="the nodes go down first"),
        pytest.param("v1.30.0", "1.37", "1.36", "does not pass", id="too old for the older release"),
    ],
)
def test_kubelets_stop_an_upgrade_when_its_steps_do_not_move_them_in_time(
    kubelet: str, start: str, end: str, verdict: str
) -> None:
    members = nodes(3)
    for node in members:
        node.status.node_info.kubelet_version = kubelet
    assert checked(*members, deployment("web", 4), crossing=Crossing.between(start, end)).verdict == verdict


def test_what_must_change_in_objects_is_among_what_to_change_before() -> None:
    web = deployment("web", 2)
    web.api_version, web.metadata.uid = "apps/v1", "u"
    web.spec.template.spec.hostname_override = "web"
    result = checked(*nodes(2), web, crossing=Crossing.between("1.37", "1.33"))
    (patch,) = [each for each in result.remedies if "/spec/template/spec/hostnameOverride" in each.command]
    assert (patch.command.partition(" -n")[0], "HostnameOverride" in patch.effect) == ("kubectl patch", True)


# -- the whole check


def checked(*objects: Resource, **more: Any) -> Any:
    drains = DrainOptions(timeout_seconds=600)
    subject = UpgradeRequest(Snapshot("a test", objects), Crossing.between("1.36", "1.37"), drains, Settings())
    return check_upgrade(replace(subject, **more))


def test_a_cluster_with_room_passes() -> None:
    result = checked(*nodes(3), deployment("web", 4))
    assert (result.verdict, result.reasons) == ("passes", ())


def test_a_blocked_drain_is_found_with_a_verified_remedy() -> None:
    result = checked(*nodes(3), deployment("db", 2), budget("db", minAvailable=2))
    assert result.verdict == "does not pass"
    remedy = result.remedies[0]
    assert remedy.command == "kubectl -n default scale deployment/db --replicas=3"
    assert remedy.is_verified
    again = checked(*nodes(3), deployment("db", 3), budget("db", minAvailable=2))
    assert again.rollout.unfinished == ()


def test_a_budget_that_follows_the_replicas_is_relaxed_instead() -> None:
    result = checked(*nodes(3), deployment("db", 2), budget("db", maxUnavailable=0))
    assert "patch pdb db" in result.remedies[0].command
    assert result.remedies[0].is_verified


def pending_remedies(result: UpgradeCheck) -> list[tuple[str, bool]]:
    return [(each.command, each.is_verified) for each in result.remedies if "pending" in each.problem]


def test_pods_that_end_pending_beside_a_blocked_node_need_only_what_lets_the_drain_pass() -> None:
    full = [*nodes(2), deployment("big", 2, "2500m"), deployment("db", 1, "1"), budget("db", minAvailable=1)]
    result = checked(*full)
    assert [each.workload for each in result.rollout.pending] == ["Deployment default/big"]
    assert pending_remedies(result) == [("kubectl -n default scale deployment/db --replicas=2", True)]


def test_pods_that_end_pending_get_a_surge_that_was_played() -> None:
    """Both pods move to the node that does not support a new pod of theirs, and no node takes the large pod."""
    stuck = deployment("db", 1, "1")
    stuck.spec.template.metadata.labels["more"] = "x"
    twice = budget("db", minAvailable=1)
    third = budget("db", maxUnavailable=0)
    third.metadata.name = "again"
    result = checked(*nodes(2), deployment("big", 2, "2500m"), stuck, twice, third)
    assert pending_remedies(result) == [("mooring upgrade-check --to 1.37 --surge 1", True)]


def test_the_changes_of_several_budgets_are_played_together() -> None:
    apps = [deployment("a", 2), budget("a", minAvailable=2), deployment("b", 2), budget("b", minAvailable="100%")]
    result = checked(*nodes(3), *apps)
    assert {each.command.partition(" --type")[0] for each in result.remedies if each.is_verified} == {
        "kubectl -n default patch pdb a",
        "kubectl -n default patch pdb b",
    }


def test_a_pod_of_two_budgets_blocks_until_one_of_them_goes() -> None:
    twice = budget("db", maxUnavailable=1)
    twice.metadata.name = "again"
    result = checked(*nodes(3), deployment("db", 2), budget("db", maxUnavailable=1), twice)
    assert "several disruption budgets select" in result.remedies[0].problem
    assert (result.remedies[0].command, result.remedies[0].is_verified) == ("kubectl -n default delete pdb db", True)
    assert result.verdict == "does not pass"


@pytest.mark.parametrize(
    ("objects", "commands"),
    [
        pytest.param(
            [*nodes(2), deployment("db", 1)],
            [("kubectl -n default scale deployment/db --replicas=2", True)],
            id="a second replica for a single pod",
        ),
        pytest.param(
            [builders.node("n0", cpu="8"), builders.node("n1", labels={"only": "n1"}), *together("db", 2)],
            [("kubectl -n default create pdb db-one-at-a-time --selector=app=db --max-unavailable=1", True)],
            id="a budget for replicas on one node",
        ),
        pytest.param(
            [*nodes(2), *together("db", 1, nodeSelector={"kubernetes.io/hostname": "n0"})],
            [("kubectl -n default scale deployment/db --replicas=2", False)],
            id="no change helps pods that only one node takes",
        ),
    ],
)
def test_a_workload_without_a_ready_pod_is_a_warning_with_a_change_that_was_played(
    objects: list[Resource], commands: list[tuple[str, bool]]
) -> None:
    result = checked(*objects)
    assert result.verdict == "passes with warnings"
    assert [(each.command, each.is_verified) for each in result.remedies] == commands


def test_a_rollback_that_would_lose_a_field_is_found() -> None:
    web = deployment("web", 2)
    web.spec.template.spec.tolerations = builders.pod(
        "x", spec={"tolerations": [{"key": "sla", "operator": "Gt", "value": "900"}]}
    ).spec.tolerations
    result = checked(*nodes(2), web, crossing=Crossing.between("1.34", "1.37"), goes_back=True)
    assert result.up.worst_severity() != result.back.worst_severity()
    assert any("way back" in reason for reason in result.reasons)


def helm_secret(revision: int, manifest: str, data: bytes | None = None, **more: Any) -> Secret:
    tree = {"name": "shop", "namespace": "default", "version": revision, "manifest": manifest, **more}
    release = json.dumps(tree).encode()
    packed = base64.b64encode(gzip.compress(release)) if data is None else data
    tree = {"metadata": {"name": f"sh.helm.release.v1.shop.v{revision}", "namespace": "default"}}
    secret = builders.made(Secret, {**tree, "type": "helm.sh/release.v1"})
    secret.data = {"release": packed}
    return secret


MANIFEST = """
apiVersion: {version}
kind: PodDisruptionBudget
metadata: {{name: x, namespace: default}}
spec: {{minAvailable: 1}}
"""


def test_helm_releases_are_checked_at_their_newest_revision() -> None:
    old, new = MANIFEST.format(version="policy/v1"), MANIFEST.format(version="policy/v1beta1")
    found, notes = helm_manifests(Snapshot("a test", [helm_secret(9, old), helm_secret(10, new)]))
    assert notes == ()
    assert found is not None
    assert [each.api_version for each in found.raw()] == ["policy/v1beta1"]


def test_the_name_of_a_helm_release_is_no_path_and_its_namespace_is_that_of_its_objects(tmp_path: Path) -> None:
    hostile = str(tmp_path / "written")
    manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
    found, _ = helm_manifests(Snapshot("a test", [helm_secret(1, manifest, name=hostile, namespace="shop")]))
    assert found is not None
    assert [(each.file, each.namespace) for each in found.raw()] == [(f"Helm release shop/{hostile}", "shop")]
    assert not list(tmp_path.iterdir())


def test_uninstalled_helm_releases_and_those_of_hooks_alone_are_left_out() -> None:
    gone = helm_secret(1, MANIFEST.format(version="policy/v1beta1"), info={"status": "uninstalled"})
    found, notes = helm_manifests(Snapshot("a test", [gone, helm_secret(1, "", name="hooks")]))
    assert found is None
    assert notes == ("no Helm releases are stored in the cluster",)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"!!", "not read", id="no base64"),
        pytest.param(base64.b64encode(b"text"), "not read", id="no gzip"),
        pytest.param(base64.b64encode(gzip.compress(b"[]")), "not read", id="no release"),
        pytest.param(base64.b64encode(gzip.compress(b"x" * 70_000_000)), "larger than", id="a bomb"),
    ],
)
def test_a_broken_helm_release_is_a_note(data: bytes, reason: str) -> None:
    found, notes = helm_manifests(Snapshot("a test", [helm_secret(1, "", data)]))
    assert found is None
    assert reason in notes[0]


def test_the_reports_name_the_verdict_and_the_remedy() -> None:
    result = checked(*nodes(3), deployment("db", 2), budget("db", minAvailable=2))
    text = "\n".join(reports.format_lines(result, lambda line, _tone: line))
    for written in (text, reports.format_markdown(result), render_page(result)):
        assert "does not pass" in written
        assert "kubectl -n default scale deployment/db --replicas=3" in written
    assert "<svg" in render_page(result)
    assert result.tree()["verdict"] == "does not pass"


def test_names_from_the_cluster_are_escaped_in_markdown_and_html() -> None:
    web = deployment("db", 1)
    hostile = builders.node("a|<b>")
    written = (
        reports.format_markdown(checked(hostile, builders.node("n"), web)),
        render_page(checked(hostile, builders.node("n"), web)),
    )
    assert "| a\\|&lt;b> |" in written[0]
    assert "a|<b>" not in written[1]


# -- the commands

UNREADABLE = {
    "a file without objects": ("empty.yaml", b"", "there are no objects"),
    "a truncated gzip": ("dump.json.gz", gzip.compress(b'{"kind": "List"}' * 99)[:30], "ended before the end"),
    "no YAML": ("broken.yaml", b"{", "broken.yaml"),
}


@pytest.mark.parametrize("command", [["upgrade-check", "--to", "1.37"], ["plan", "-f"]])
@pytest.mark.parametrize(("name", "content", "reason"), UNREADABLE.values(), ids=UNREADABLE.keys())
def test_a_cluster_that_cannot_be_read_is_no_verdict(
    command: list[str], name: str, content: bytes, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    manifest = tmp_path / "web.yaml"
    manifest.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n")
    words = [*command, *([str(manifest)] if command[0] == "plan" else []), "--from", str(path)]
    result = CliRunner().invoke(mooring, words)
    assert result.exit_code == 2
    assert reason in result.output


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (["--to", "1.99"], "--to=1.99 is out of range"),
        (["--to", "1.37", "--surge", "-1"], "-1 is not in the range"),
        (["--to", "1.37", "--max-unavailable", "0"], "drains no node without --surge"),
    ],
)
def test_wrong_flags_are_named(flags: list[str], reason: str) -> None:
    cluster = Path(__file__).parents[3] / "examples" / "upgrade" / "drain.yaml"
    result = CliRunner().invoke(mooring, ["upgrade-check", "--from", str(cluster), *flags])
    assert (result.exit_code, reason in result.output) == (2, True)
