"""The Helm chart with the real helm: lint, schema, templates; and what it installs runs, on `mooring up --programs`."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from tools import manifests

from eventually import eventually
from free_ports import free_ports
from kubectl_caller import KUBECTL, Kubectl
from mooring.cli.main import mooring
from running_up import running_up

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "chart"
HELM = shutil.which("helm", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
pytestmark = [pytest.mark.req("I.3"), pytest.mark.skipif(HELM is None, reason="there is no helm on this machine")]
PARTS = ("bridge", "scheduler", "exporter", "dashboard", "audit")
ALL = ("bridge.policy=true", "bridge.apiServers={10.0.0.0/28}", *(f"{part}.enabled=true" for part in PARTS))
MONITORING = tuple(f"exporter.{name}=true" for name in ("serviceMonitor", "prometheusRule", "grafanaDashboard"))
NAMESPACE = "mooring-system"
PORTS = ("9443", "10251", "10253", "10254", "8001")
STOCK = ",".join(
    f"{gate}=false"
    for gate in (
        "TaintTolerationComparisonOperators",
        "TolerationAffinitySemverOperators",
        "TaintTolerationNodeAffinityCEL",
    )
)
WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations:
        constraints.mooring.dev/node-affinity: |
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
            - matchExpressions: [{key: kernel, operator: SemverGt, values: ["6.0"]}]
    spec:
      containers: [{name: c, image: i}]
"""
"""No gate: the webhook adds it."""
IN_CLUSTER = """\
#!/bin/bash
# Runs the command with the token of its pod, as the image does where the files are at their places.
set -e
account=$MOORING_MOUNTS/var/run/secrets/kubernetes.io/serviceaccount
export KUBECONFIG=$MOORING_MOUNTS/tmp/kubeconfig
cat > "$KUBECONFIG" <<END
apiVersion: v1
kind: Config
clusters:
- name: c
  cluster:
    server: "https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT"
    certificate-authority: $account/ca.crt
users: [{{name: u, user: {{tokenFile: $account/token}}}}]
contexts: [{{name: x, context: {{cluster: c, user: u}}}}]
current-context: x
END
exec {python} -m mooring "${{@/=\\/etc\\//=$MOORING_MOUNTS/etc/}}"
"""


def helm(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    assert HELM
    command = [HELM, *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **environment}
    )


def template(*values: str, namespace: str = NAMESPACE) -> list[dict[str, Any]]:
    done = helm("template", "mooring", CHART, "-n", namespace, *(word for each in values for word in ("--set", each)))
    assert done.returncode == 0, done.stderr
    return [tree for tree in yaml.safe_load_all(done.stdout) if tree]


def identities(trees: list[dict[str, Any]]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(tree["kind"], tree["metadata"]["name"]): tree for tree in trees}


@pytest.mark.parametrize("values", [(), (*ALL, *MONITORING)], ids=["as it is", "with everything"])
def test_helm_finds_nothing_wrong(values: tuple[str, ...]) -> None:
    done = helm("lint", "--strict", CHART, *(word for each in values for word in ("--set", each)))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ("bridge.replicas=0", "bridge.replicas"),
        ("bridge.replica=2", "bridge"),
        ("image.tag=latest", "image.tag"),
        ("image.digest=abc", "image.digest"),
        ("bridge.apiServers={everywhere}", "bridge.apiServers.0"),
        ("scheduler.name=default-scheduler", "scheduler.name"),
        ("audit.failIf=always", "audit.failIf"),
        ("extra=1", "(root)"),
    ],
)
def test_values_that_make_no_sense_are_refused_with_the_field(value: str, field: str) -> None:
    done = helm("template", "mooring", CHART, "--set", value)
    assert done.returncode == 1
    assert f"- {field}: " in done.stderr


def test_the_versions_are_that_of_the_distribution() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = re.findall(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert [chart["version"], chart["appVersion"]] == version * 2


def test_the_reader_is_what_rights_prints_and_the_manifests_for_kustomize_are_those_of_the_chart() -> None:
    assert [path.name for path, text in manifests.rendered() if path.read_text() != text] == [], "run `make manifests`"
    assert KUBECTL, "needs kubectl"
    made = subprocess.run([KUBECTL, "kustomize", ROOT / "deploy" / "bridge"], capture_output=True, check=True).stdout
    from_kustomize = identities(list(yaml.safe_load_all(made)))
    from_helm = identities(template("exporter.enabled=false", namespace="mooring-bridge"))
    del from_kustomize["Namespace", "mooring-bridge"], from_helm["ClusterRole", "mooring-reader"]
    assert from_kustomize == from_helm


@pytest.mark.parametrize("part", PARTS)
def test_each_part_is_switched_by_itself_and_needs_nothing_of_the_others(part: str) -> None:
    found = template(*(f"{each}.enabled={str(each == part).lower()}" for each in PARTS))
    workloads = {tree["metadata"]["name"] for tree in found if tree["kind"] in ("Deployment", "CronJob")}
    assert workloads == {f"mooring-{part}"}
    names = identities(found)
    for tree in found:
        if tree["kind"] in ("ClusterRoleBinding", "RoleBinding"):
            role = tree["roleRef"]
            assert role["name"].startswith("system:") or (role["kind"], role["name"]) in names
            assert [("ServiceAccount", each["name"]) in names for each in tree["subjects"]] == [True]


def _pods(trees: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for tree in trees:
        spec = tree["spec"]["jobTemplate"]["spec"] if tree["kind"] == "CronJob" else tree.get("spec", {})
        if "template" in spec:
            yield tree["metadata"]["name"], spec["template"]["spec"]


def test_what_is_started_is_a_right_call_with_a_read_only_root() -> None:
    pods = dict(_pods(template(*ALL)))
    assert set(pods) == {f"mooring-{part}" for part in PARTS}
    for spec in pods.values():
        (container,) = spec["containers"]
        name, *flags = container["args"]
        command = mooring.get_command(click.Context(mooring), name)
        assert command is not None
        flags = [flag for flag in flags if not flag.startswith("--config=")]  # its file is in the pod
        command.make_context(name, flags)
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert spec["securityContext"]["runAsNonRoot"] is True


@pytest.mark.parametrize("part", ["bridge", "scheduler"])
def test_parts_that_matter_have_two_copies_and_a_budget(part: str) -> None:
    found = identities(template(*ALL))
    assert found["Deployment", f"mooring-{part}"]["spec"]["replicas"] == 2
    assert found["PodDisruptionBudget", f"mooring-{part}"]["spec"]["minAvailable"] == 1


@dataclass
class Release:
    """The chart on a control plane that runs its image as a program, with ports that are free here."""

    kubectl: Kubectl
    folder: Path

    def helm(self, *words: str | Path) -> str:
        flags = ("-n", NAMESPACE, "--kubeconfig", self.kubectl.kubeconfig)
        done = helm(*words, *flags, HELM_CACHE_HOME=str(self.folder), HELM_DATA_HOME=str(self.folder))
        assert done.returncode == 0, done.stdout + done.stderr + self._state()
        return done.stdout

    def _state(self) -> str:
        """Return what runs, and the last lines that it logged."""
        own = Kubectl(self.kubectl.kubeconfig, NAMESPACE)
        logs = (own("logs", f"deployment/mooring-{part}", "--tail=5", code=None) for part in PARTS)
        return "\n".join((own("get", "pods"), own("get", "events"), *logs))

    def put(self, verb: str, *values: str) -> str:
        """`helm install` or `helm upgrade`, until all is ready."""
        given = [word for value in values for word in ("--set", value)]
        renderer = ("--post-renderer", self.folder / "ports.sh")
        return self.helm(verb, "mooring", CHART, *given, *renderer, "--wait", "--timeout", "90s")

    def bundles(self) -> set[str]:
        """Return the authorities that webhooks trust."""
        kinds = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
        found = self.kubectl.get(kinds)["items"]
        return {hook["clientConfig"].get("caBundle", "") for each in found for hook in each["webhooks"]}


@pytest.fixture
def release(tmp_path: Path) -> Iterator[Release]:
    assert KUBECTL, "needs kubectl"
    changes = " ".join(f"-e s/{old}/{new}/g" for old, new in zip(PORTS, free_ports(len(PORTS)), strict=True))
    for name, text in {
        "ports.sh": f"#!/bin/sh\nexec sed {changes}\n",
        "in-cluster.sh": IN_CLUSTER.format(python=sys.executable),
    }.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    programs = [{"image": "registry.invalid/kube-mooring:*", "run": [str(tmp_path / "in-cluster.sh")]}]
    (tmp_path / "programs.yaml").write_text(yaml.safe_dump({"programs": programs}))
    flags = ("--data-dir", str(tmp_path / "data"), "--nodes", "2", "--programs", str(tmp_path / "programs.yaml"))
    with running_up(*flags, "--bind-address", "0.0.0.0", "--feature-gates", STOCK) as plane:
        kubectl = Kubectl(plane.kubeconfig)
        kubectl("create", "namespace", NAMESPACE)
        kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
        yield Release(kubectl, tmp_path)


def test_one_helm_install_brings_version_constraints_to_a_stock_cluster(release: Release) -> None:
    kubectl = release.kubectl
    notes = release.put("install", "bridge.replicas=1")
    assert "The bridge: write constraints into annotations of pods." in notes
    (bundle,) = eventually(lambda: set() if "" in (found := release.bundles()) else found)

    kubectl("label", "nodes", "node-1", "kernel=6.1.0")
    kubectl("apply", "-f", "-", stdin=WEB)
    kubectl("rollout", "status", "deployment/web", "--timeout=30s")
    places = kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.nodeName}").split()
    assert set(places) == {"node-1"}

    release.put(
        "upgrade",
        "bridge.replicas=1",
        "scheduler.enabled=true",
        "scheduler.replicas=1",
        "dashboard.enabled=true",
        "audit.enabled=true",
    )
    assert release.bundles() == {bundle}
    history = json.loads(release.helm("history", "mooring", "-o", "json"))
    assert [each["status"] for each in history] == ["superseded", "deployed"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "second"}}
    kubectl.apply({**pod, "spec": {"schedulerName": "mooring", "containers": [{"name": "c", "image": "i"}]}})
    kubectl("wait", "pod/second", "--for=condition=Ready", "--timeout=30s")
    own = Kubectl(kubectl.kubeconfig, NAMESPACE)
    eventually(lambda: "http://127.0.0.1:" in own("logs", "deployment/mooring-dashboard"))
    own("create", "job", "tonight", "--from=cronjob/mooring-audit")
    own("wait", "job/tonight", "--for=condition=Complete", "--timeout=60s")

    release.helm("uninstall", "mooring", "--wait")
    left = own("get", "deployments,cronjobs,services,serviceaccounts", "-o", "name").split()
    assert [name for name in left if "mooring" in name] == []
