"""`mooring exporter` beside a running control plane, its alerts in a real Prometheus, and its Grafana dashboard."""

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

import outside_data
from eventually import eventually
from free_ports import free_port
from kubectl_caller import KUBECTL, Kubectl
from running_up import running_up

pytestmark = pytest.mark.req("I.5")
CHART = Path(__file__).parents[2] / "deploy" / "chart"
ALERTS = CHART / "files" / "alerts.yaml"
PROMETHEUS, PROMTOOL = outside_data.prometheus("prometheus"), outside_data.prometheus("promtool")
with_prometheus = pytest.mark.skipif(PROMETHEUS is None, reason="there is no Prometheus on this machine")
GROUP = '{namespace="shop",owner="Deployment/web",plugin="NodeAffinity",remedy="patch Node"}'


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


@contextmanager
def exporting(kubeconfig: Path) -> Iterator[str]:
    """Yield the address of an exporter that has measured."""
    port = free_port()
    command = [sys.executable, "-m", "mooring", "exporter", "--kubeconfig", str(kubeconfig), "--port", str(port)]
    with subprocess.Popen([*command, "--interval", "200ms"]) as process:
        try:
            eventually(lambda: _answers(f"http://127.0.0.1:{port}/readyz"), 60)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()
            assert process.wait(20) == 0


def _answers(url: str) -> bool:
    try:
        return bool(_fetch(url))
    except OSError:
        return False


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """Prometheus with the alerts of the chart, which do not wait before they fire."""
    rules = folder / "alerts.yaml"
    rules.write_text(re.sub(r"for: \w+", "for: 0s", ALERTS.read_text()))
    config = {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "400ms", "evaluation_interval": "500ms"},
        "rule_files": [str(rules)],
        "scrape_configs": [{"job_name": "mooring", "static_configs": [{"targets": [target]}]}],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    assert PROMETHEUS
    port = free_port()
    flags = [f"--config.file={folder / 'prometheus.yaml'}", f"--storage.tsdb.path={folder / 'data'}"]
    command = [PROMETHEUS, *flags, f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    with subprocess.Popen(command) as process:
        try:
            eventually(lambda: _answers(f"http://127.0.0.1:{port}/-/ready"), 60)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(20)


def firing(url: str) -> set[str]:
    alerts = json.loads(_fetch(f"{url}/api/v1/alerts"))["data"]["alerts"]
    return {each["labels"]["alertname"] for each in alerts if each["state"] == "firing"}


def deployment(name: str, **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    body = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": body}


@pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on this machine")
def test_metrics_follow_a_live_cluster_and_alerts_fire_and_resolve(tmp_path: Path) -> None:
    full = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "7"}}}]}
    with running_up("--ephemeral", "--single-process", "--nodes", "2") as plane:
        kubectl = Kubectl(plane.kubeconfig, "shop")
        kubectl("create", "namespace", "shop")
        with exporting(plane.kubeconfig) as target:
            kubectl.apply(deployment("web", nodeSelector={"disk": "nvme"}), deployment("full", **full))
            pending = f"mooring_pending_pods{GROUP} 2.0"
            page = eventually(lambda: text if pending in (text := _fetch(f"http://{target}/metrics")) else "")
            assert f"mooring_unsatisfiable_pods{GROUP} 2.0" in page
            if PROMETHEUS is None:
                return  # the summary of the run says so
            with prometheus(tmp_path, target) as url:
                expected = {"PodsPending", "ConstraintUnsatisfiable", "ResourceNearlyRequested"}
                eventually(lambda: firing(url) == expected)
                kubectl("label", "nodes", "--all", "disk=nvme")
                eventually(lambda: firing(url) == {"ResourceNearlyRequested"})
                kubectl("delete", "deployment", "full")
                eventually(lambda: firing(url) == set())
                plane.stop()
                eventually(lambda: firing(url) == {"MooringExporterStale"})


def _rule_test(name: str, series: str, values: str, moments: dict[str, bool]) -> dict[str, Any]:
    """Return a test for promtool: whether the alert fires at each moment."""
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": series, "values": values}],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{name}",alertstate="firing"}}) or vector(0)',
                "eval_time": moment,
                "exp_samples": [{"labels": "{}", "value": int(fires)}],
            }
            for moment, fires in moments.items()
        ],
    }


@with_prometheus
def test_every_alert_waits_fires_and_resolves_in_its_time(tmp_path: Path) -> None:
    pods = 'mooring_{}_pods{{namespace="shop",owner="Deployment/web",plugin="NodeAffinity",remedy="patch Node"}}'
    tests = [
        _rule_test("PodsPending", pods.format("pending"), "3x30 0x30", {"14m": False, "16m": True, "35m": False}),
        _rule_test(
            "ConstraintUnsatisfiable",
            pods.format("unsatisfiable"),
            "3x30 0x30",
            {"4m": False, "6m": True, "35m": False},
        ),
        _rule_test(
            "PodPendingForHours",
            "mooring_oldest_pending_pod_seconds",
            "14000+60x30 0x10",
            {"8m": False, "16m": True, "35m": False},
        ),
        _rule_test(
            "ResourceNearlyRequested",
            'mooring_nodes{resource="cpu",requested="over 95%"}',
            "10x40 0x10",
            {"29m": False, "31m": True, "45m": False},
        ),
        _rule_test(
            "MooringExporterStale", "mooring_exporter_connected", "0x20 1x20", {"4m": False, "6m": True, "25m": False}
        ),
    ]
    rules = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    assert {each["alert"] for each in rules} == {each["name"] for each in tests}
    path = tmp_path / "tests.yaml"
    path.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": tests}))
    assert PROMTOOL
    for command in (["check", "rules", str(ALERTS)], ["test", "rules", str(path)]):
        done = subprocess.run([PROMTOOL, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_alerts_and_panels_ask_only_for_metrics_that_the_exporter_has() -> None:
    source = (Path(__file__).parents[2] / "src" / "mooring" / "dashboard" / "exporter.py").read_text()
    served = set(re.findall(r'"(mooring_\w+)"', source))
    for name in ("alerts.yaml", "grafana.json"):
        asked = set(re.findall(r"\bmooring_\w+", (CHART / "files" / name).read_text()))
        assert asked <= served, name


def test_the_grafana_dashboard_has_panels_that_do_not_overlap() -> None:
    found = json.loads((CHART / "files" / "grafana.json").read_text())
    cells: set[tuple[int, int]] = set()
    for panel in found["panels"]:
        at = panel["gridPos"]
        covered = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not covered & cells, panel["title"]
        assert at["x"] + at["w"] <= 24, panel["title"]
        assert panel["targets"], panel["title"]
        cells |= covered
    assert len({panel["id"] for panel in found["panels"]}) == len(found["panels"])
