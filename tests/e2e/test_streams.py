"""Logs, commands and ports on simulated nodes, with the clients that people have: kubectl, the official one, kr8s."""

import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import kr8s
import kubernetes
import pytest
from kubernetes import stream

from eventually import eventually
from free_ports import free_port
from kubectl_caller import KUBECTL, Kubectl
from running_up import running_up

pytestmark = [
    pytest.mark.req("N.8", "N.7"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # the official client leaves sockets
]
official: Any = kubernetes  # its functions have no types
P = "simulation.mooring.dev/"
PODS = f"""
apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations:
    {P}logs: "one\\ntwo\\nthree\\n"
    {P}exec: '[{{command: "psql *", stdout: "1 row\\n"}}, {{command: boom, stderr: "no!\\n", exitCode: 42}}]'
    {P}files: '{{/etc/app.conf: "debug: true\\n"}}'
    {P}http: "hello\\n"
spec:
  containers: [{{name: c, image: nginx, ports: [{{containerPort: 80}}]}}]
---
apiVersion: v1
kind: Pod
metadata:
  name: crashing
  annotations: {{{P}run-seconds: "1", {P}failure-probability: "1", {P}exit-code: "3"}}
spec:
  containers: [{{name: c, image: nginx}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: talking}}
spec:
  containers: [{{name: c, image: busybox, command: [sh, -c, "echo first; sleep 1; echo second; sleep 10000"]}}]
"""


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with running_up("--data-dir", str(tmp_path_factory.mktemp("up")), "--nodes", "1", "--single-process") as plane:
        kubectl = Kubectl(plane.kubeconfig)
        if KUBECTL is not None:
            kubectl("apply", "-f", "-", stdin=PODS)
            kubectl("wait", "--for=condition=Ready", "pod/web", "pod/talking", "--timeout=30s")
        yield plane.kubeconfig


@pytest.fixture
def kubectl(kubeconfig: Path) -> Kubectl:
    if KUBECTL is None:
        pytest.skip("there is no kubectl on this machine")
    return Kubectl(kubeconfig)


def test_kubectl_reads_logs(kubectl: Kubectl) -> None:
    assert kubectl("logs", "web") == "one\ntwo\nthree\n"
    assert kubectl("logs", "web", "--tail=1") == "three\n"
    assert kubectl("logs", "web", "--timestamps", "--tail=1").endswith("Z three\n")
    assert kubectl("logs", "web", "--since=1s") in {"", "one\ntwo\nthree\n"}  # as old as the pod is by now
    assert "previous terminated container" in kubectl("logs", "web", "--previous", code=1)


def test_kubectl_follows_what_a_command_prints(kubectl: Kubectl) -> None:
    assert KUBECTL is not None
    command = [KUBECTL, "--kubeconfig", str(kubectl.kubeconfig), "logs", "-f", "talking"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        assert [following.stdout.readline() for _ in range(2)] == ["first\n", "second\n"]
        following.terminate()


def test_kubectl_reads_what_the_run_before_logged(kubectl: Kubectl) -> None:
    restarts = partial(kubectl, "get", "pod", "crashing", "-o", "jsonpath={..restartCount}")
    eventually(lambda: int(restarts() or 0) > 0, 40)
    assert kubectl("logs", "crashing", "--previous").endswith("exited with code 3\n")


def test_kubectl_runs_commands(kubectl: Kubectl) -> None:
    assert kubectl("exec", "web", "--", "psql", "-c", "select") == "1 row\n"
    done = kubectl.run("exec", "web", "--", "boom")
    assert (done.returncode, done.stdout, done.stderr.startswith("no!\n")) == (42, "", True)
    assert kubectl("exec", "-i", "web", "--", "cat", stdin="typed") == "typed"
    assert "container z is not valid for pod web" in kubectl("exec", "web", "-c", "z", "--", "true", code=1)


def test_kubectl_copies_files_out(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("cp", "web:/etc/app.conf", str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_text() == "debug: true\n"
    assert "takes no others" in kubectl("cp", str(tmp_path / "copy"), "web:/tmp/copy", code=2)


@pytest.mark.parametrize("websockets", ["true", "false"], ids=["WebSocket", "SPDY"])
def test_kubectl_forwards_ports_and_runs_commands_in_either_protocol(
    kubectl: Kubectl, websockets: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECTL_PORT_FORWARD_WEBSOCKETS", websockets)
    monkeypatch.setenv("KUBECTL_REMOTE_COMMAND_WEBSOCKETS", websockets)
    assert KUBECTL is not None
    command = [KUBECTL, "--kubeconfig", str(kubectl.kubeconfig), "port-forward", "pod/web", ":80"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forwarding:
        assert forwarding.stdout is not None
        port = int(forwarding.stdout.readline().split(":")[1].split()[0])
        for _ in range(2):
            with urlopen(f"http://127.0.0.1:{port}/") as answer:
                assert answer.read() == b"hello\n"
        forwarding.terminate()
    done = kubectl.run("exec", "-i", "web", "--", "sh", stdin="echo out\necho err >&2\nexit 9\n")
    assert (done.returncode, done.stdout, done.stderr.splitlines()[0]) == (9, "out\n", "err")


def test_kubectl_goes_through_proxies(kubectl: Kubectl) -> None:
    assert kubectl("get", "--raw", "/api/v1/namespaces/default/pods/web/proxy/index.html") == "hello\n"
    assert kubectl("get", "--raw", "/api/v1/nodes/node-0/proxy/healthz") == "ok"


# -- client libraries


@pytest.fixture
def core(kubeconfig: Path) -> Iterator[Any]:
    with official.config.new_client_from_config(str(kubeconfig)) as api:
        yield official.client.CoreV1Api(api)
        api.rest_client.pool_manager.clear()  # or the garbage collector complains in another test


def test_the_official_client_reads_logs_and_runs_commands(core: Any) -> None:
    assert core.read_namespaced_pod_log("web", "default", tail_lines=2) == "two\nthree\n"
    script = "echo to stdout; echo to stderr >&2"
    answer = stream.stream(
        core.connect_get_namespaced_pod_exec, "web", "default", command=["/bin/sh", "-c", script], **_streams()
    )
    assert set(answer.splitlines()) == {"to stdout", "to stderr"}


def test_the_official_client_talks_to_a_shell(core: Any) -> None:
    shell = stream.stream(
        core.connect_get_namespaced_pod_exec,
        "web",
        "default",
        command=["/bin/sh"],
        **_streams(stdin=True),
        _preload_content=False,
    )
    shell.write_stdin("echo one\n")
    assert shell.readline_stdout(timeout=10) == "one"
    shell.write_stdin("echo two >&2\n")
    assert shell.readline_stderr(timeout=10) == "two"
    shell.write_stdin("exit 5\n")
    shell.run_forever(timeout=10)
    assert shell.returncode == 5
    shell.close()


def test_the_official_client_forwards_ports(core: Any) -> None:
    forwarded = stream.portforward(core.connect_get_namespaced_pod_portforward, "web", "default", ports="80")
    connection = forwarded.socket(80)
    connection.setblocking(True)
    connection.sendall(b"GET / HTTP/1.1\r\nhost: web\r\nconnection: close\r\n\r\n")
    received = b""
    while data := connection.recv(1024):
        received += data
    assert received.endswith(b"\r\n\r\nhello\n")
    assert forwarded.error(80) is None
    connection.close()
    forwarded.websocket.close()


def _streams(*, stdin: bool = False) -> dict[str, bool]:
    return {"stderr": True, "stdin": stdin, "stdout": True, "tty": False}


@pytest.mark.filterwarnings("ignore:Kubernetes version v1.37.0 is not supported")  # kr8s names versions it has seen
async def test_kr8s_reads_logs_runs_commands_and_forwards_ports(kubeconfig: Path) -> None:
    api = await kr8s.asyncio.api(kubeconfig=str(kubeconfig))
    pod = await kr8s.asyncio.objects.Pod.get("web", api=api)
    assert [line async for line in pod.logs()] == ["one", "two", "three"]
    done = await pod.exec(["sh", "-c", "echo out; exit 3"], check=False)
    assert (done.stdout, done.returncode) == (b"out\n", 3)
    async with pod.portforward(remote_port=80, local_port=free_port()) as port:
        import httpx

        async with httpx.AsyncClient() as client:
            assert (await client.get(f"http://127.0.0.1:{port}/")).text == "hello\n"
