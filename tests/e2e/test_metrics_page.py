"""docs/metrics.md lists what the pages of a running control plane have, and its questions find their answers there."""

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from free_ports import free_port
from promql import evaluate
from running_up import running_up

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
PODS: dict[str, dict[str, Any]] = {
    "bound": {"containers": [{"name": "c", "image": "i"}]},
    "refused": {"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"nowhere": "at-all"}},
}
NO_ANSWER = {
    "whether a controller is in a hot loop after a rollback": "nothing was refused",
    "requests that fail": "none did",
    "which policies refuse requests": "there are none",
    "webhooks that fail, and let requests pass": "there are none",
}
"""The questions that give nothing in such a cluster, and why."""
BY_CHANCE = {"how often taints refuse nodes": "a node that is new has a taint for a moment"}
_QUESTION = re.compile(r"^\| ([^|`]+) \| `([^`]+)` \|$", re.MULTILINE)
_ROW = re.compile(r"^\| `(\w+)` \| (\w+) \|", re.MULTILINE)
_TYPE = re.compile(r"^# TYPE (\w+) (\w+)$", re.MULTILINE)


@dataclass
class Pages:
    """The metrics of a control plane: before it had anything to do, and when it had bound one pod and not another."""

    before: str
    after: str


@pytest.fixture(scope="module")
def pages() -> Iterator[Pages]:
    port = free_port()
    with running_up("--ephemeral", "--nodes", "1", "--metrics-port", str(port)) as plane:
        kubectl = ["kubectl", "--kubeconfig", str(plane.kubeconfig)]

        def read() -> str:
            command = [*kubectl, "get", "--raw", "/metrics"]
            server = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                workers: str = answer.read().decode()
            return server + workers

        before = read()
        for name, spec in PODS.items():
            made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
            subprocess.run([*kubectl, "create", "-f", "-"], check=True, input=json.dumps(made), text=True)
        for condition, name in (("Ready", "bound"), ("PodScheduled=false", "refused")):
            wait = ["wait", f"--for=condition={condition}", "--timeout=30s", f"pod/{name}"]
            subprocess.run([*kubectl, *wait], check=True)
        yield Pages(before, read())


@pytest.mark.req("5471.10")
def test_every_metric_is_described_and_no_other(pages: Pages) -> None:
    described = _ROW.findall(PAGE.read_text())
    assert sorted(set(_TYPE.findall(pages.after))) == sorted(described)


@pytest.mark.req("5471.11")
def test_questions_of_the_page_have_the_answers_that_they_should_have(pages: Pages) -> None:
    """A cluster that is well, with one pod that fits nowhere: what asks for trouble finds none."""
    questions = dict(_QUESTION.findall(PAGE.read_text().partition("## Questions")[2]))
    scrapes = [(0.0, pages.before), (300.0, pages.after)]
    answered = {what for what, query in questions.items() if evaluate(query, scrapes)}
    assert NO_ANSWER.keys() <= questions.keys()
    assert set(questions) - answered - BY_CHANCE.keys() == set(NO_ANSWER)
    waiting = evaluate(questions["which plugin keeps pods waiting"], scrapes)
    assert waiting[frozenset({("plugin", "NodeAffinity")})] == 1
    assert sum(evaluate(questions["pods bound a second"], scrapes).values()) == pytest.approx(1 / 300)
