"""`python -m benchmarks scheduler_perf` on a directory of workloads in upstream's form, written here."""

from pathlib import Path

import pytest
from benchmarks import scheduler_perf

CONFIG = """
- name: Basic
  defaultPodTemplatePath: ../templates/pod.yaml
  workloadTemplate:
  - {opcode: createNodes, countParam: $nodes, nodeTemplatePath: ../templates/node.yaml}
  - {opcode: createNamespaces, prefix: apps, count: 2}
  - {opcode: createPods, countParam: $pods, namespace: apps-0, collectMetrics: true}
  workloads:
  - {name: small, labels: [short], threshold: 5, params: {nodes: 2, pods: 6}}
- name: Events
  defaultPodTemplatePath: ../templates/large-pod.yaml
  workloadTemplate:
  - {opcode: createNodes, count: 1, nodeTemplatePath: ../templates/node.yaml}
  - {opcode: startCollectingMetrics, namespaces: [late]}
  - {opcode: createPods, count: 2, namespace: late, skipWaitToCompletion: true}
  - {opcode: barrier, stageRequirement: Attempted}
  - {opcode: createAny, templatePath: ../templates/large-node.yaml}
  - {opcode: barrier}
  - {opcode: stopCollectingMetrics}
  workloads:
  - {name: a-node-helps}
- name: Gangs
  workloadTemplate: [{opcode: createPodGroups}]
  workloads: [{name: any}]
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {generateName: pod-}
spec:
  priority: 10
  containers: [{name: pause, image: pause, resources: {requests: {cpu: %s}}}]
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {%s}
status:
  capacity: {pods: "110", cpu: "%s", memory: 32Gi}
  conditions: [{type: Ready, status: "True"}]
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "topic").mkdir()
    (tmp_path / "templates").mkdir()
    (tmp_path / "topic" / "performance-config.yaml").write_text(CONFIG)
    for name, text in {
        "pod": POD % "10m",
        "large-pod": POD % "6",
        "node": NODE % ("generateName: node-", 4),
        "large-node": NODE % ("name: large", 32),
    }.items():
        (tmp_path / "templates" / f"{name}.yaml").write_text(text)
    return tmp_path


@pytest.mark.req("V.5")
def test_workloads_run_on_mooring_beside_their_thresholds(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert scheduler_perf.run([str(directory), "--topics", "topic", "--timeout", "60"]) == 0
    lines = capsys.readouterr().out.splitlines()
    basic = next(line for line in lines if "Basic/small" in line)
    assert basic.split()[2] == "5", "the threshold of the file"
    assert "/s of 6" in basic
    assert any("Events/a-node-helps" in line and "/s of 2" in line for line in lines)
    assert "not run: Gangs/any: opcode createPodGroups" in lines


@pytest.mark.req("V.5")
def test_workloads_are_selected_by_name_and_label(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert scheduler_perf.run([str(directory), "--topics", "topic", "--labels", "short", "--list"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["Basic/small"]
    assert scheduler_perf.run([str(directory), "--topics", "topic", "--test", "Ev", "--list"]) == 0
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines()] == ["Events/a-node-helps"]


@pytest.mark.req("V.5")
def test_a_directory_without_workloads_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert scheduler_perf.run([str(tmp_path)]) == 2
    assert "cannot read the workloads" in capsys.readouterr().err
