"""`mooring simulate` on the command line: what the page says it prints, exit codes, and calls that are wrong."""

import asyncio
import json
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from mooring.cli.main import mooring
from mooring.store.kv import Put
from mooring.store.sqlite import SqliteStore

pytestmark = pytest.mark.req("S.5")

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "simulate.md").read_text()
EXAMPLES = ROOT / "examples" / "simulate"
RECORDED = ROOT / "tests" / "conformance" / "data" / "api" / "requests.jsonl"


def simulate(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(mooring, ["simulate", *arguments], input=stdin)


@pytest.fixture
def examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of the examples, in the current directory."""
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(command: str) -> tuple[str, int]:
    """Return what a command of the page prints: those that go through a pipe to `head` and `tail`, as they would."""
    call, _, pipe = command.partition(" | ")
    words = shlex.split(call)
    if words[:2] != ["mooring", "simulate"]:
        return subprocess.run(["sh", "-c", command], check=True, capture_output=True, text=True).stdout, 0
    shown_error, quiet = "2>&1" in words, ">/dev/null" in words
    result = simulate(*(word for word in words[2:] if word not in ("2>&1", ">/dev/null")))
    text = ("" if quiet else result.stdout) + (result.stderr if shown_error else "")
    lines = text.splitlines(keepends=True)
    if pipe:
        tool, number = pipe.split(" -")
        lines = lines[: int(number)] if tool == "head" else lines[-int(number) :]
    return "".join(lines), result.exit_code


@pytest.mark.usefixtures("examples")
def test_commands_on_the_page_print_what_it_says() -> None:
    blocks = re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL)
    found = [each for block in blocks for each in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)]
    assert len(found) >= 6
    code = 0
    for command, output in found:
        if command == "echo $?":
            assert output == f"{code}\n"
            continue
        text, code = printed(command)
        assert text == output, command


def test_the_scenario_on_the_page_is_the_one_of_the_examples() -> None:
    assert (EXAMPLES / "evening.yaml").read_text() in PAGE


@pytest.mark.usefixtures("examples")
def test_the_python_on_the_page_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "docs/simulate.md", "exec"), {})


@dataclass(frozen=True)
class Called:
    name: str
    arguments: str
    code: int
    says: str = ""
    """On standard error, or on standard output when all is well."""


@pytest.mark.usefixtures("examples")
@pytest.mark.parametrize(
    "case",
    [
        Called("all is well", "--from cluster.yaml --add web.yaml --fail-if pending", 0, "3 placed"),
        Called(
            "a condition that holds", "--from cluster.yaml --drain worker-0 --fail-if evicted", 3, "Failed: 3 evicted"
        ),
        Called("a condition that does not", "--from cluster.yaml --drain worker-0 --fail-if evicted>3", 0),
        Called("a condition that means nothing", "--nodes 1 --fail-if luck", 2, '"luck" is no condition'),
        Called(
            "a node that is not there", "--from cluster.yaml --drain worker-9", 1, "there is no node worker-9; did you"
        ),
        Called("a file that is not there", "--nodes 1 --add nothing.yaml", 2, "--add: nothing.yaml: No such file"),
        Called("a manifest with a mistake", "--nodes 1 --add mistake.yaml", 1, 'unknown field "spec.replcas"'),
        Called("replicas of nothing", "--nodes 1 --drain node-0 --replicas 3", 2, "--replicas must follow the --add"),
        Called(
            "replicas that are no number",
            "--nodes 1 --add web.yaml --replicas many",
            2,
            "is not a number from 0 to 999,999,999",
        ),
        Called(
            "a taint without an effect", "--nodes 1 --taint node-0=a=b", 2, "is not of the form NODES=KEY=VALUE:EFFECT"
        ),
        Called("a label without a value", "--nodes 1 --label node-0=a", 2, "is not of the form NODES=KEY=VALUE"),
        Called(
            "something to remove that is not there", "--nodes 1 --remove deployment/x", 1, "there is no Deployment/x"
        ),
        Called("a kind that nobody knows", "--nodes 1 --remove gizmo/x", 2, "does not know the kind 'gizmo'"),
        Called(
            "an unknown kind to scale",
            "--nodes 1 --scale a/gizmo/x=3",
            2,
            "--scale: Mooring does not know the kind 'gizmo'",
        ),
        Called("two clusters", "--nodes 1 --from cluster.yaml", 2, "--nodes simulates a new cluster"),
        Called("until full of nothing", "--nodes 1 --until-full", 1, "no workload was added last"),
        Called("an unknown gate", "--nodes 1 --compare-with Magic=true", 2, "--compare-with"),
        Called(
            "nothing to compare with", "--nodes 1 --compare-with nothing.yaml", 2, "is neither a file nor of the form"
        ),
        Called("a template that is no node", "--nodes 1 --template web.yaml", 1, "not a Deployment"),
        Called("no cluster at all", "--kubeconfig nothing", 1, "nothing"),
        Called("a report where none can be", "--nodes 1 --html no/such/place.html", 1, "No such file or directory"),
    ],
    ids=lambda case: case.name,
)
def test_exit_codes_and_what_is_said(case: Called) -> None:
    Path("mistake.yaml").write_text(Path("web.yaml").read_text().replace("replicas:", "replcas:"))
    result = simulate(*shlex.split(case.arguments))
    assert result.exit_code == case.code, result.output
    assert case.says in (result.stderr if case.code else result.stdout)
    assert "Traceback" not in result.output


@pytest.mark.usefixtures("examples")
def test_the_order_of_the_changes_counts() -> None:
    """Pods that come before the drain are evicted; those that come after it never were there."""
    before = json.loads(simulate("--nodes", "2", "--add", "web.yaml", "--drain", "node-0", "-o", "json").stdout)
    after = json.loads(simulate("--nodes", "2", "--drain", "node-0", "--add", "web.yaml", "-o", "json").stdout)
    assert before["counts"]["evicted"] > 0
    assert after["counts"]["evicted"] == 0
    assert {each["node"] for each in after["placements"]} == {"node-1"}
    events = [moment["event"] for moment in before["timeline"] if moment["event"]]
    assert events == ["add deployment/web", "drain node-0"]


CROWD = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: important}
value: 1000
---
apiVersion: v1
kind: Node
metadata: {name: only}
status: {allocatable: {cpu: "1", memory: 1Gi, pods: "9"}}
---
apiVersion: v1
kind: Pod
metadata: {name: plain, namespace: default}
spec: {nodeName: only, containers: [{name: c, image: c, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: first, namespace: default}
spec:
  priorityClassName: important
  priority: 1000
  containers: [{name: c, image: c, resources: {requests: {cpu: "1"}}}]
"""


def test_a_scheduler_configuration_says_how_long_pods_wait(tmp_path: Path) -> None:
    """Who displaces another is tried again when its backoff is over."""
    config = tmp_path / "slow.yaml"
    kind = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    config.write_text(f"{kind}podInitialBackoffSeconds: 8\n")
    plain, slow = (
        json.loads(simulate("--from", "-", "-o", "json", *flags, stdin=CROWD).stdout)["placements"]
        for flags in ((), ("--scheduler-config", str(config)))
    )
    assert [each["pod"] for each in plain] == [each["pod"] for each in slow] == ["default/first"]
    assert 1 <= plain[0]["at"] < 8 <= slow[0]["at"]


def test_a_data_directory_is_a_cluster_too(tmp_path: Path) -> None:
    """Also while a server runs on it: here one holds its store open."""

    async def run() -> Result:
        store = await SqliteStore.open(tmp_path / "state")
        for each in yaml.safe_load_all(CROWD):
            meta = each["metadata"]
            key = "/".join(filter(None, (f"/registry/{each['kind'].lower()}s", meta.get("namespace"), meta["name"])))
            await store.write(Put(key, json.dumps(each).encode()))
        try:
            return await asyncio.to_thread(simulate, "--data-dir", str(tmp_path / "state"), "-o", "json")
        finally:
            await store.close()

    result = asyncio.run(run())
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["cluster"] == f"the data directory {tmp_path / 'state'}"
    assert (found["counts"]["running"], found["counts"]["preempted"]) == (1, 1)
    nothing = simulate("--data-dir", str(tmp_path))
    assert (nothing.exit_code, "is no data directory of Mooring" in nothing.stderr) == (1, True)


@pytest.mark.usefixtures("examples")
def test_every_change_has_a_flag() -> None:
    flags = (
        "--nodes 3 --template node.yaml --add web.yaml --replicas 4 --label extra-*=tier=gold --label extra-1=tier- "
        "--taint extra-0=hot=1:NoExecute --untaint extra-0=hot --cordon extra-1 --uncordon extra-1 --add-nodes 2 "
        "--remove-node extra-2 --add checkout.yaml --remove deploy/checkout --remove web.yaml -o json"
    )
    result = simulate(*shlex.split(flags))
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["counts"]["nodes"], found["counts"]["pods"]) == (4, 0)
    assert len([moment for moment in found["timeline"] if moment["event"]]) == 12


@pytest.mark.usefixtures("examples")
@pytest.mark.parametrize("output", ["json", "yaml", "csv", "wide"])
def test_the_same_call_prints_the_same_bytes(output: str) -> None:
    call = ("--nodes", "30", "--add", "web.yaml", "--replicas", "40", "--drain", "node-1?", "-o", output)
    first, second, other = simulate(*call), simulate(*call), simulate(*call, "--seed", "1")
    assert first.stdout_bytes == second.stdout_bytes
    assert first.stdout_bytes != other.stdout_bytes


@pytest.mark.usefixtures("examples")
def test_json_and_yaml_say_the_same() -> None:
    call = ("--from", "cluster.yaml", "--drain", "worker-0", "-o")
    assert json.loads(simulate(*call, "json").stdout) == yaml.safe_load(simulate(*call, "yaml").stdout)


@pytest.mark.usefixtures("examples")
def test_a_report_is_written_beside_what_is_printed() -> None:
    result = simulate("--scenario", "evening.yaml", "--html", "evening.html")
    assert result.exit_code == 0
    text = Path("evening.html").read_text()
    assert "An evening in the shop" in text
    assert text.count("<svg") >= 9


@pytest.mark.usefixtures("examples")
def test_a_cluster_can_come_through_a_pipe() -> None:
    result = simulate("--from", "-", "--drain", "worker-0", stdin=Path("cluster.yaml").read_text())
    assert "3 evicted" in result.stdout


@pytest.mark.usefixtures("examples")
def test_ctrl_c_prints_what_is_known(tmp_path: Path) -> None:
    """With a terminal for standard error: a line shows how far it is, and the first Ctrl-C ends it."""
    command = [sys.executable, "-m", "mooring", "simulate", "--nodes", "5000", "--add", "web.yaml", "--until-full"]
    ours, theirs = pty.openpty()
    with (tmp_path / "out").open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=theirs)
    os.close(theirs)
    shown = b""
    until = time.monotonic() + 60
    while "░".encode() not in shown and "█".encode() not in shown and time.monotonic() < until:
        shown += os.read(ours, 4096)
    process.send_signal(signal.SIGINT)
    code = process.wait(60)
    os.close(ours)
    text = (tmp_path / "out").read_text()
    assert code == 130, text
    assert "pods run" in shown.decode()
    assert "on 5000 nodes" in text
    assert "at least" in text or "INTERRUPTED" in text


# -- large clusters

PODS = 50_000 if os.environ.get("MOORING_FULL") else 5_000
MEASURED = """
import resource, sys, time
from mooring.cli.main import mooring
before = time.process_time()
try:
    mooring.main(sys.argv[1:], standalone_mode=False)
except SystemExit as end:
    assert not end.code, end.code
print(time.process_time() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, file=sys.stderr)
"""


@pytest.mark.usefixtures("examples")
def test_five_thousand_nodes_take_seconds_and_little_memory() -> None:
    """In full 50,000 pods: less than 30 s and 1.5 GB. Time of the processor, because tests share theirs."""
    Path("small.yaml").write_text(Path("web.yaml").read_text().replace("1500m", "100m"))
    call = ["simulate", "--nodes", "5000", "--add", "small.yaml", "--replicas", str(PODS), "-o", "json"]
    command = [sys.executable, "-c", MEASURED, *call, "--html", "report.html"]
    process = subprocess.run(command, check=True, capture_output=True, text=True, timeout=110)
    seconds, megabytes = map(float, process.stderr.splitlines()[-1].split())
    assert json.loads(process.stdout)["counts"]["placed"] == PODS
    assert seconds < 30
    assert megabytes < 1500
    assert Path("report.html").stat().st_size < 4_000_000


# -- a real cluster


def _recorded() -> list[dict[str, object]]:
    """Return what a Kubernetes server answered to creates, as a dump would show it."""
    found = []
    for line in RECORDED.read_text().splitlines():
        body = json.loads(line)["response"].get("body")
        if isinstance(body, dict) and body.get("kind") not in (None, "Status") and body.get("metadata", {}).get("name"):
            found.append(body)
    return found


def test_a_dump_of_a_real_cluster_can_be_simulated(tmp_path: Path) -> None:
    objects = _recorded()
    assert {"Pod", "Node"} <= {str(each["kind"]) for each in objects}
    dump = tmp_path / "cluster.json"
    dump.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    result = simulate("--from", str(dump), "--add-nodes", "3", "--drain", "*", "--uncordon", "*", "-o", "json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["counts"]["nodes"] >= 4
    assert found["counts"]["running"] + found["counts"]["pending"] == found["counts"]["pods"] > 0
    assert all(group["message"] for group in found["pending"])


def test_the_report_is_written_also_when_the_reader_of_the_output_is_gone(tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    command = [sys.executable, "-m", "mooring", "simulate", "--nodes", "2", "--html", str(report)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout
        process.stdout.close()
    assert report.read_text().endswith("</html>\n")
