"""Programs on simulated nodes as people use them: `mooring up --programs`, kubectl, and the webhook of the examples."""

import base64
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from eventually import eventually
from free_ports import free_port
from kubectl_caller import KUBECTL, Kubectl
from mooring.apiserver.access.pki import Pki
from mooring.base.clock import SystemClock
from running_up import RunningUp, is_alive, running_up

EXAMPLES = Path(__file__).parents[2] / "examples" / "programs"
pytestmark = [pytest.mark.req("S.4"), pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl on this machine")]


def programs(folder: Path) -> Path:
    """Return the example's file, with a shell beside the webhook."""
    shutil.copytree(EXAMPLES, folder, dirs_exist_ok=True)
    file = folder / "programs.yaml"
    tree = yaml.safe_load(file.read_text())
    tree["programs"][0]["run"][0] = sys.executable
    tree["programs"].append({"image": "shell", "run": ["sh", "-c"]})
    file.write_text(yaml.safe_dump(tree))
    return file


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningUp]:
    folder = tmp_path_factory.mktemp("up")
    flags = ("--data-dir", str(folder / "data"), "--nodes", "1", "--programs", str(programs(folder / "programs")))
    with running_up(*flags) as running:
        yield running


@pytest.fixture
def kubectl(plane: RunningUp) -> Kubectl:
    return Kubectl(plane.kubeconfig)


def shell(name: str, script: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "shell", "args": [script], **spec.pop("container", {})}]
    metadata = {"name": name, "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


@pytest.mark.req("X.9")
def test_a_webhook_in_a_deployment_answers_for_its_service(kubectl: Kubectl, tmp_path: Path) -> None:
    pki = Pki(tmp_path, SystemClock())
    made = pki.server(["webhook.default.svc"])
    kubectl("create", "secret", "tls", "webhook", f"--cert={made.certificate_file}", f"--key={made.key_file}")
    manifests = (EXAMPLES / "webhook.yaml").read_text().replace("8443", str(free_port()))
    kubectl("apply", "-f", "-", stdin=manifests)
    kubectl("rollout", "status", "deployment/webhook", "--timeout=60s")
    kubectl.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "labels"},
            "webhooks": [
                {
                    "name": "labels.example.com",
                    "clientConfig": {
                        "service": {"name": "webhook", "namespace": "default"},
                        "caBundle": base64.b64encode(pki.authority.certificate).decode(),
                    },
                    "rules": [
                        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}
                    ],
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                }
            ],
        }
    )
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "refused", "labels": {"forbidden": "yes"}}}
    assert "denied the request: not here: refused" in kubectl("apply", "-f", "-", stdin=yaml.safe_dump(secret), code=1)
    assert "CREATE refused False" in kubectl("logs", "deployment/webhook")
    kubectl("create", "secret", "generic", "welcome")
    kubectl("delete", "validatingwebhookconfiguration", "labels")


def test_it_has_volumes_variables_and_a_token_by_which_it_knows_the_server(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "colours", "--from-literal=first=blue")
    account = "$MOORING_MOUNTS/var/run/secrets/kubernetes.io/serviceaccount"
    ask = (
        f"{sys.executable} -c \"import os, ssl, urllib.request as u; m = os.path.expandvars('{account}')\n"
        "c = ssl.create_default_context(cafile=m + '/ca.crt'); e = os.environ\n"
        "a = 'https://' + e['KUBERNETES_SERVICE_HOST'] + ':' + e['KUBERNETES_SERVICE_PORT'] + '/api'\n"
        "r = u.Request(a, headers={'Authorization': 'Bearer ' + open(m + '/token').read()})\n"
        'print(u.urlopen(r, context=c).status)"'
    )
    container = {
        "env": [
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "FIRST", "valueFrom": {"configMapKeyRef": {"name": "colours", "key": "first"}}},
        ],
        "volumeMounts": [{"name": "colours", "mountPath": "/etc/colours"}],
    }
    script = f"echo $NAME $FIRST; cat $MOORING_MOUNTS/etc/colours/first; echo; {ask}; sleep 600"
    volumes = [{"name": "colours", "configMap": {"name": "colours"}}]
    kubectl.apply(shell("reader", script, container=container, volumes=volumes))
    assert eventually(lambda: (said := kubectl("logs", "reader", code=None)).endswith("200\n") and said)
    assert kubectl("logs", "reader") == "reader blue\nblue\n200\n"
    assert kubectl("exec", "reader", "--", "sh", "-c", "echo $NAME; exit 0") == "reader\n"
    assert "exit code 7" in kubectl("exec", "reader", "--", "sh", "-c", "exit 7", code=7)
    done = kubectl.run("exec", "-i", "reader", "--", "cat", stdin="passed on\n")
    assert done.stdout == "passed on\n"
    assert "on this machine" in kubectl("port-forward", "pod/reader", "0:80", code=1)
    kubectl("delete", "pod", "reader", "--grace-period=1")


def test_exit_codes_and_restarts_are_those_of_the_program(kubectl: Kubectl) -> None:
    kubectl.apply(
        shell("fails", "echo once; exit 3", restartPolicy="Never"),
        shell("again", 'test "$N" || echo here; exit 4', restartPolicy="OnFailure"),
        shell("waits", "exit 0", restartPolicy="Never", volumes=[{"name": "v", "configMap": {"name": "later"}}]),
    )
    state = "{.status.phase} {.status.containerStatuses[0].state.terminated.exitCode}"
    eventually(lambda: kubectl("get", "pod", "fails", "-o", f"jsonpath={state}") == "Failed 3")
    assert kubectl("logs", "fails") == "once\n"
    restarts = (
        "jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].state.waiting.reason}"
    )
    eventually(lambda: kubectl("get", "pod", "again", "-o", restarts) == "1 CrashLoopBackOff")
    assert kubectl("logs", "again", "--previous") == "here\n"
    assert eventually(lambda: "FailedMount" in kubectl("get", "events", "--field-selector", "reason=FailedMount"))
    kubectl("create", "configmap", "later")
    eventually(lambda: kubectl("get", "pod", "waits", "-o", "jsonpath={.status.phase}") == "Succeeded")
    kubectl("delete", "pod", "fails", "again", "waits")


def test_programs_end_with_a_server_that_is_killed_and_begin_again_with_the_next(tmp_path: Path) -> None:
    file = programs(tmp_path / "programs")
    flags = ("--data-dir", str(tmp_path / "data"), "--nodes", "1", "--programs", str(file))
    with running_up(*flags) as plane:
        kubectl = Kubectl(plane.kubeconfig)
        kubectl.apply(shell("lives", "echo $$$$; exec sleep 600"))
        number = int(
            eventually(lambda: kubectl("logs", "lives", code=None).strip().isdigit() and kubectl("logs", "lives"))
        )
        assert is_alive(number)
        workers = plane.children()
        plane.stop(signal.SIGKILL)
        for each in workers:
            with suppress(ProcessLookupError):  # it may have noticed by itself
                os.kill(each, signal.SIGKILL)
        eventually(lambda: not is_alive(number))
    with running_up(*flags):
        restarts = "jsonpath={.status.containerStatuses[0].restartCount} {.status.phase}"
        eventually(lambda: kubectl("get", "pod", "lives", "-o", restarts) == "1 Running")
