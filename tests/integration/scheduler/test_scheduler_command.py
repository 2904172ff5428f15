"""`mooring scheduler` as a process of its own: health, metrics, PromQL of the proposals, and errors for wrong calls."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
import yaml
from click.testing import CliRunner

from mooring.api.core_v1 import Pod
from mooring.cli.commands.scheduler import scheduler
from mooring.client import Client, connect
from promql import evaluate
from running_server import RunningServer, running_server
from scheduler_objects import node, pod

PROMQL = {
    'scheduler_plugin_evaluation_total{plugin="TaintToleration"} > 0': None,
    'rate(scheduler_plugin_evaluation_total{plugin="TaintToleration", status=~"Unschedulable.*"}[5m]) > 0': None,
    'rate(scheduler_plugin_evaluation_total{plugin="TaintToleration", status="Success"}[5m]) > 0': None,
    # Where the proposal asks the extension-point histogram for a plugin, which Kubernetes does not label:
    'rate(scheduler_plugin_execution_duration_seconds_count{plugin="TaintToleration"}[5m])': None,
    'rate(scheduler_framework_extension_point_duration_seconds_count{extension_point="Filter"}[5m]) > 0': None,
    'increase(scheduler_schedule_attempts_total{result="scheduled", profile="mooring"}[5m])': 1,
    'increase(scheduler_schedule_attempts_total{result="unschedulable", profile="mooring"}[5m]) > 0': None,
    'scheduler_unschedulable_pods{plugin="TaintToleration", profile="mooring"} == 1': 1,
    'scheduler_pending_pods{queue="unschedulable"} == 1': 1,
    'scheduler_cache_size{type="nodes"} == 1': 1,
    'sum(scheduler_plugin_evaluation_total{plugin="TaintToleration",extension_point="Filter"})': 2,
    'mooring_cel_cache_size{cache="taint"}': None,
}
"""Queries of the proposals, and the one number that each gives; None where it is enough that there is something."""
BEFORE: dict[str, str] = {}
"""The metrics of a scheduler that had nothing to do yet, by where they are."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture(scope="module")
def url(server: RunningServer) -> Iterator[str]:
    """Where a scheduler that has bound one pod and refused another shows its metrics."""
    command = [sys.executable, "-m", "mooring", "scheduler", "--scheduler-name", "mooring", "--port", "0"]
    kubeconfig = str(server.data_dir / "scheduler.kubeconfig")
    with subprocess.Popen(
        [*command, "--kubeconfig", kubeconfig], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout is not None
            page = next(line for line in process.stdout if "metrics are at" in line).rpartition(" ")[2].strip()
            assert next(line for line in process.stdout if "is ready" in line)
            BEFORE[page] = _get(page, "/metrics")[1]
            asyncio.run(_schedule_two(server))
            yield page
        finally:
            process.send_signal(signal.SIGTERM)
            rest, _ = process.communicate(timeout=20)
    assert process.returncode == 0, rest


async def _schedule_two(server: RunningServer) -> None:
    async with connect(server.kubeconfig, user_agent="kubectl/v1.37.0") as client:
        made = await client.create(node("n1", taints=[("sla", "950", "NoSchedule")]))
        made.spec.taints = [taint for taint in made.spec.taints if taint.key == "sla"]
        await client.update(made)
        for name, least in (("bound", "900"), ("refused", "960")):
            toleration = {"key": "sla", "operator": "Gt", "value": least, "effect": "NoSchedule"}
            wanted = pod(name, scheduler="mooring", tolerations=[toleration])
            wanted.metadata.uid = ""
            await client.create(wanted)
        async with asyncio.timeout(20):
            while not await _is_settled(client):  # noqa: ASYNC110 - the server is asked, there is no event
                await asyncio.sleep(0.05)


async def _is_settled(client: Client) -> bool:
    bound = await client.get(Pod, "bound", "default")
    refused = await client.get(Pod, "refused", "default")
    return bool(bound.spec.node_name) and bool(refused.status.conditions)


def _get(url: str, path: str, method: str = "GET") -> tuple[int, str]:
    try:
        with urlopen(Request(f"{url}{path}", method=method), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_probes_find_it_well(url: str, path: str) -> None:
    assert _get(url, path) == (200, "ok")


def test_other_paths_and_methods_are_refused(url: str) -> None:
    assert _get(url, "/")[0] == 404
    assert _get(url, "/healthz", "POST")[0] == 405


def test_metrics_can_be_asked_for_by_name(url: str) -> None:
    named = _get(url, "/metrics?name[]=scheduler_schedule_attempts_total&name[]=scheduler_pending_pods")[1]
    families = [line.split()[2] for line in named.splitlines() if line.startswith("# TYPE")]
    assert families == ["scheduler_schedule_attempts_total", "scheduler_pending_pods"]
    assert _get(url, "/metrics?name[]=no_such_metric") == (200, "")


@pytest.mark.req("5471.10", "5471.11")
@pytest.mark.parametrize("query", PROMQL)
def test_queries_of_the_proposals_give_what_happened(url: str, query: str) -> None:
    found = evaluate(query, [(0.0, BEFORE[url]), (300.0, _get(url, "/metrics")[1])])
    assert found
    expected = PROMQL[query]
    assert expected is None or list(found.values()) == [expected]


def test_the_refused_pod_names_the_taint(server: RunningServer, url: str) -> None:
    async def message() -> str:
        async with connect(server.kubeconfig, user_agent="kubectl/v1.37.0") as client:
            return (await client.get(Pod, "refused", "default")).status.conditions[0].message

    assert asyncio.run(message()).startswith("0/1 nodes are available: 1 node(s) had untolerated taint {sla: 950}.")


# -- servers that cannot be used


def _foreign(tree: dict[str, Any]) -> None:
    """Another authority than that of the server's certificate."""
    tree["clusters"][0]["cluster"]["certificate-authority-data"] = tree["users"][0]["user"]["client-certificate-data"]


def _elsewhere(tree: dict[str, Any]) -> None:
    tree["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"


def _stranger(tree: dict[str, Any]) -> None:
    tree["users"][0]["user"] = {"token": "nobody-knows-it"}


@pytest.mark.parametrize(
    ("change", "words"),
    [(_foreign, "certificate is not trusted"), (_elsewhere, "Connection refused"), (_stranger, "Unauthorized")],
    ids=["a certificate that is not trusted", "no server", "a token that the server does not know"],
)
def test_a_server_that_cannot_be_used_is_named_and_tried_again_until_the_process_is_ended(
    server: RunningServer, tmp_path: Path, change: Callable[[dict[str, Any]], None], words: str
) -> None:
    tree = yaml.safe_load((server.data_dir / "scheduler.kubeconfig").read_text())
    change(tree)
    (tmp_path / "config").write_text(yaml.safe_dump(tree))
    command = [sys.executable, "-m", "mooring", "scheduler", "--port", "0", "--kubeconfig", str(tmp_path / "config")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        page = next(line for line in process.stdout if "metrics are at" in line).rpartition(" ")[2].strip()
        reported = [next(process.stdout) for _ in range(2)]
        assert (_get(page, "/livez")[0], _get(page, "/readyz")[0]) == (200, 503)
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=20)
    assert all(words in line for line in reported)
    assert (process.returncode, "Traceback" in rest) == (0, False)


# -- wrong calls

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
WRONG = [
    ("an unknown field", HEAD + "colour: red\n", (), 'unknown field "colour"'),
    (
        "a plugin that is not there",
        HEAD + "profiles: [{plugins: {multiPoint: {enabled: [{name: Nope}]}}}]\n",
        (),
        "Nope",
    ),
    (
        "two profiles and one name",
        HEAD + "profiles: [{schedulerName: a}, {schedulerName: b}]\n",
        ("--scheduler-name", "c"),
        "several",
    ),
    ("an empty name", HEAD, ("--scheduler-name", ""), "must not be empty"),
    ("a kubeconfig that is not there", HEAD, ("--kubeconfig", "/does/not/exist"), "cannot read the kubeconfig"),
    ("a context that is not there", HEAD, ("--context", "nope"), "nope"),
]


@pytest.mark.parametrize(("config", "flags", "words"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_a_wrong_call_says_what_is_wrong(
    server: RunningServer, tmp_path: Path, config: str, flags: tuple[str, ...], words: str
) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(config)
    kubeconfig = () if "--kubeconfig" in flags else ("--kubeconfig", str(server.kubeconfig))
    result = CliRunner().invoke(scheduler, ["--config", str(file), "--port", "-1", *kubeconfig, *flags])
    assert result.exit_code in (1, 2)
    assert words in result.output
    assert "Traceback" not in result.output
