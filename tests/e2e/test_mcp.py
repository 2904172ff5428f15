"""`mooring mcp` as an agent uses it: with the client of the official SDK, over standard input and output."""

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner

from mooring.cli.main import mooring
from mooring.cli.support import agent_answers

if TYPE_CHECKING:
    from mcp import Client

pytestmark = pytest.mark.req("I.4")
NODES = [("a", "6.1.0", "4"), ("b", "5.4.0", "4"), ("c", "5.4.0", "4")]
TOOLS = {
    "pending_overview",
    "explain_pod",
    "explain_manifest",
    "simulate",
    "audit_upgrade",
    "lint",
    "nodes_matching",
}


def node(name: str, kernel: str, cpu: str) -> dict[str, Any]:
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    metadata = {"name": name, "labels": {"kernel": kernel, "kubernetes.io/hostname": name}}
    status = {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": spec.pop("cpu", "1")}}}
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


PENDING = pod("web", nodeSelector={"kernel": "7.0.0"})
RUNNING = {**pod("db", nodeName="b", cpu="3"), "status": {"phase": "Running"}}


TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": pod("x")["spec"]}
ENDLESS = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "endless"},
    "spec": {"replicas": 1_000_000_000, "selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE},
}


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mcp") / "cluster.yaml"
    shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    objects = [shop, *(node(*each) for each in NODES), PENDING, RUNNING]
    path.write_text(yaml.safe_dump_all(objects))
    return path


@asynccontextmanager
async def agent(*flags: str) -> "AsyncIterator[Client]":
    from mcp import Client, StdioServerParameters, stdio_client  # takes as long as all other imports of these tests

    server = StdioServerParameters(command=sys.executable, args=["-m", "mooring", "mcp", *flags], env=dict(os.environ))
    async with Client(stdio_client(server)) as client:
        yield client


async def ask(client: "Client", tool: str, **arguments: Any) -> dict[str, Any]:
    found = await client.call_tool(tool, arguments)
    assert not found.is_error, found.content
    content: dict[str, Any] | None = found.structured_content
    assert content is not None
    return content


async def refused(client: "Client", tool: str, **arguments: Any) -> str:
    found = await client.call_tool(tool, arguments)
    assert found.is_error
    return " ".join(getattr(each, "text", "") for each in found.content)


async def test_every_tool_only_reads_and_says_what_it_takes_and_answers(dump: Path) -> None:
    async with agent("--from", str(dump)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == TOOLS
    for tool in tools.values():
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint
        assert tool.description
        assert tool.output_schema is not None
        assert len(json.dumps(tool.output_schema)) < 4_000


async def test_an_agent_learns_why_a_pod_is_pending_and_what_would_fix_it(dump: Path) -> None:
    async with agent("--from", str(dump)) as client:
        everything = await ask(client, "pending_overview")
        (cause,) = everything["causes"]
        assert (everything["pods"], cause["pods"], cause["owners"]) == (1, 1, ["Pod shop/web"])
        assert cause["remedy"]["commands"]
        other = await ask(client, "pending_overview", namespace="other")
        assert (other["causes"], other["notes"]) == ([], ["there is no namespace 'other'"])
        found = await ask(client, "explain_pod", name="web", namespace="shop")
        assert (found["state"], found["nodes"], found["feasible_nodes"]) == ("Unschedulable", 3, 0)
        assert {each["plugin"] for each in found["reasons"]} == {"NodeAffinity"}
        assert any("kubectl label node" in command for each in found["remedies"] for command in each["commands"])

        matching = await ask(client, "nodes_matching", expression="node.labels['kernel'] == '6.1.0'")
        assert (matching["nodes"], matching["matching"], matching["names"]) == (3, 1, ["a"])
        assert matching["why_not"][0]["nodes"] == 2

        fits = await ask(client, "explain_manifest", manifest=json.dumps(pod("small")))
        assert fits["state"] == "Schedulable"
        simulated = await ask(client, "simulate", add_manifest=json.dumps(pod("big", cpu="3")), drain="b")
        assert (simulated["evicted"], simulated["pending"], simulated["nodes"]) == (1, 1, 3)
        assert "node affinity" in simulated["pending_reasons"][0]["message"]


async def test_an_agent_audits_and_lints(dump: Path) -> None:
    toleration = {"key": "sla", "operator": "Gt", "value": "950", "effect": "NoSchedule"}
    async with agent("--from", str(dump)) as client:
        found = await ask(
            client, "lint", manifest=json.dumps(pod("p", tolerations=[toleration])), kubernetes_version="1.33"
        )
        assert found["errors"] >= 1
        assert found["findings"][0]["object"] == "Pod shop/p"
        clean = await ask(client, "audit_upgrade", from_version="1.35", to_version="1.36")
        assert clean["errors"] == 0


MISTAKES: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("explain_pod", {"name": "nothing", "namespace": "shop"}, 'there is no pod "nothing" in the namespace shop'),
    ("explain_pod", {"name": "x", "kind": "--plugins=/"}, "--plugins=/"),
    ("explain_pod", {"name": "x", "namespace": "--help"}, "--help"),
    ("explain_manifest", {"manifest": "{"}, "<stdin>:1: not read"),
    ("explain_manifest", {"manifest": "x" * 1_000_001}, "the limit is 1000000"),
    ("simulate", {"drain": "--help"}, "--help"),
    ("audit_upgrade", {"to_version": "9.9"}, "--from-version"),
    ("audit_upgrade", {"to_version": "9.9", "from_version": "1.36"}, "9.9"),
    ("lint", {"manifest": "kind: Pod", "kubernetes_version": "1.2"}, "1.2"),
    ("nodes_matching", {"expression": "node.labl"}, "undefined field"),
    ("nodes_matching", {"expression": "1 + 1"}, "must evaluate to bool"),
    ("explain_pod", {}, "name"),
    ("explain_pod", {"name": "x" * 1_000_000}, "the limit is 10000"),
    ("pending_overview", {"namespace": "a\0b"}, "null character"),
    ("nodes_matching", {"expression": "(" * 9_000}, "expression recursion limit exceeded"),
    ("nodes_matching", {"expression": "a" * 100_000}, "the limit is 10000"),
    ("simulate", {"add_manifest": json.dumps(ENDLESS)}, "wants 1,000,000,000 pods; the limit is 1,000,000"),
)


async def test_mistakes_and_flags_in_place_of_names_are_answered_with_a_sentence(dump: Path) -> None:
    async with agent("--from", str(dump)) as client:
        for tool, arguments, expected in MISTAKES:
            said = await refused(client, tool, **arguments)
            assert expected in said, (tool, arguments)
            assert "Traceback" not in said, (tool, arguments)
            assert len(said) < 1_000, (tool, arguments)


def test_answers_are_bounded_however_large_the_cluster_is() -> None:
    long = "x" * 10_000
    refusal = {"plugin": "NodeAffinity", "count": 1, "detail": long}
    change = {"command": "y" * 5_000}
    suggestion = {"summary": long, "changes": [change], "node": "n", "caveat": long}
    tree = {
        "subject": {"kind": "Pod", "namespace": "shop", "name": "p"},
        "state": "Unschedulable",
        "summary": long,
        "totalNodes": 5_000,
        "feasibleNodes": 0,
        "refusals": [refusal] * 1_000,
        "suggestions": [suggestion] * 50,
        "facts": [long] * 100,
    }
    found = agent_answers.explanation(agent_answers.cut_strings(tree))
    assert len(found.reasons) == agent_answers.MAX_REASONS
    assert len(found.remedies) == agent_answers.MAX_REMEDIES
    assert found.remedies[0].commands == []  # half of a command would be harmful
    assert len(str(found)) < 40_000
    many = [{"rule": "R", "severity": "info", "object": long, "field": long, "message": long}] * 500
    many.append({"rule": "E", "severity": "error", "object": "o", "message": "m"})
    listed = agent_answers.findings(agent_answers.cut_strings(many))
    assert len(str(listed)) < 80_000
    assert (listed.errors, listed.infos, len(listed.findings)) == (1, 500, agent_answers.MAX_FINDINGS)
    assert listed.findings[0].rule == "E"


def test_without_the_sdk_the_command_names_the_extra(monkeypatch: pytest.MonkeyPatch, dump: Path) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    done = CliRunner().invoke(mooring, ["mcp", "--from", str(dump)])
    assert done.exit_code == 1
    assert "pip install 'kube-mooring[mcp]'" in done.output
