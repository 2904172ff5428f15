"""What pages show is what commands print, whatever the objects are called."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dashboard_calls import Caller, dashboard, dumped, shop
from mooring.advisor.snapshot import Snapshot
from mooring.api.core_v1 import Pod
from mooring.cli.main import mooring
from mooring.testing.builders import node, pod

PAGES = (
    "",
    "pending",
    "pending/help/pod/default/huge",
    "pods",
    "pods/default/huge",
    "pods/default/web-0",
    "nodes",
    "what-if",
    "upgrade",
    "versions",
    "expressions",
)
HOSTILE = "<script>alert('x')</script>\"&' onload=x"


def command(*words: str) -> Any:
    """Return what a command prints as JSON."""
    run = CliRunner().invoke(mooring, [*words, "-o", "json"])
    assert run.exit_code == 0, run.output
    return json.loads(run.stdout)


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += [name for name, _ in attrs]


@pytest.mark.req("D.2", "D.8")
async def test_the_overview_begins_as_a_simulation_does(tmp_path: Path) -> None:
    said = command("simulate", "--from", str(dumped(shop(), tmp_path / "dump.json")), "--keep-pending")
    async with dashboard(Snapshot("the test", shop())) as caller:
        shown = await caller.data()
    assert shown["utilisation"] == said["utilisation"]["before"]
    counts = said["counts"]
    assert (shown["nodes"], shown["running"], shown["pending"]) == (
        counts["nodes"],
        counts["running"],
        counts["pending"],
    )


@pytest.mark.req("D.2")
async def test_the_map_groups_nodes_by_any_label() -> None:
    async with dashboard(Snapshot("the test", shop())) as caller:
        zones = await caller.data()
        kernels = await caller.data(by="kernel", show="state")
        nothing = await caller.data(by="no-such-label")
    assert {group["value"]: len(group["nodes"]) for group in zones["groups"]} == {"east": 3, "west": 2}
    assert [group["value"] for group in kernels["groups"]] == ["5.4.0", "6.1.0"]
    assert [group["value"] for group in nothing["groups"]] == ["(no such label)"]


@pytest.mark.req("D.3")
async def test_pods_that_do_not_run_are_grouped_by_cause() -> None:
    async with dashboard(Snapshot("the test", [*shop(), pod("huge-2", cpu="100")])) as caller:
        shown = (await caller.data("pending"))["overview"]
        helps = (await caller.get("pending/help/pod/default/huge")).text
    assert shown["pods"] == 4
    first = shown["groups"][0]
    assert (first["pods"], first["cause"]) == (2, "NoNodeLargeEnough")
    assert "3 Insufficient cpu" in first["message"]
    assert "tried again when a node is added" in helps
    gated = next(each for each in shown["groups"] if each["cause"] == "SchedulingGated")
    assert [each["name"] for each in gated["members"]] == ["gated"]


@pytest.mark.req("D.3")
async def test_unrelated_pods_of_their_own_are_not_one_group() -> None:
    def claiming(name: str) -> Pod:
        return pod(name, spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]})

    pods = [
        pod("gated", spec={"schedulingGates": [{"name": "example.com/wait"}]}),
        pod("other", spec={"schedulerName": "volcano"}),
        claiming("one"),
        claiming("two"),
    ]
    async with dashboard(Snapshot("the test", [node("a"), *pods])) as caller:
        shown = (await caller.data("pending"))["overview"]
    assert {(each["cause"], each["members"][0]["name"]) for each in shown["groups"]} == {
        ("SchedulingGated", "gated"),
        ("OtherScheduler", "other"),
        ("MissingClaim", "one"),
        ("MissingClaim", "two"),
    }


@pytest.mark.req("D.3")
async def test_the_list_is_filtered_by_namespace_owner_and_words() -> None:
    selecting = pod("c", spec={"nodeSelector": {"disk": "ssd"}})
    pods = [pod("a", cpu="100"), pod("b", cpu="200", namespace="shop"), selecting]
    async with dashboard(Snapshot("the test", [node("n"), *pods])) as caller:
        for query, name in (({"namespace": "shop"}, "b"), ({"owner": "c"}, "c"), ({"search": "disk"}, "c")):
            shown = (await caller.data("pending", **query))["overview"]
            assert [group["members"][0]["name"] for group in shown["groups"]] == [name], query


@pytest.mark.req("D.3", "D.4", "D.8")
@pytest.mark.parametrize("name", ["huge", "new-kernel", "gated", "web-0", "batch-1"])
async def test_a_pod_is_explained_as_the_command_does(name: str, tmp_path: Path) -> None:
    path = dumped(shop(), tmp_path / "dump.json")
    said = command("explain", "pod", f"default/{name}", "--from", str(path))
    async with dashboard(Snapshot(said["origin"], shop())) as caller:
        for _ in range(2):  # the second question has the same answer: the engine is left as it was
            assert (await caller.data(f"pods/default/{name}"))["explanation"] == said
            assert await caller.data(f"pending/help/pod/default/{name}") == said


@pytest.mark.req("D.4")
@pytest.mark.parametrize("bound", ["", "a"], ids=["pending", "bound"])
async def test_a_pod_of_another_scheduler_has_a_page(bound: str) -> None:
    objects = [node("a"), pod("p", spec={"schedulerName": "other", "nodeName": bound})]
    async with dashboard(Snapshot("the test", objects)) as caller:
        shown = await caller.data("pods/default/p")
        page = await caller.get("pods/default/p")
    assert shown["matrix"]["rows"] == []
    assert page.status == 200
    assert "the scheduler other" in page.text


@pytest.mark.req("D.4")
async def test_the_matrix_has_every_plugin_that_refuses_a_node() -> None:
    async with dashboard(Snapshot("the test", shop())) as caller:
        shown = (await caller.data("pods/default/new-kernel"))["matrix"]
        page = (await caller.get("pods/default/new-kernel")).text
    assert shown["filters"] == ["TaintToleration", "NodeAffinity"]
    rows = {row["node"]: row for row in shown["rows"]}
    assert set(rows["west-0"]["refusals"]) == {"TaintToleration", "NodeAffinity"}
    assert "node.labels['kernel'] is '6.1.0'" in rows["east-0"]["refusals"]["NodeAffinity"]
    assert "taint sla=940:NoExecute is not tolerated" in page


@pytest.mark.req("D.4")
async def test_expressions_are_shown_with_the_value_of_every_part() -> None:
    async with dashboard(Snapshot("the test", shop())) as caller:
        shown = await caller.data("pods/default/new-kernel", on="west-1")
    (expression,) = shown["expressions"]
    outcomes = {part["text"]: part["outcome"] for part in expression["parts"]}
    assert outcomes["'kernel' in node.labels"] == "true"
    assert outcomes["semver.compare(node.labels['kernel'], '>=7.0')"] == "false"
    assert outcomes["node.labels['kernel']"] == "'5.4.0'"


@pytest.mark.req("D.4")
async def test_tolerations_are_held_against_every_taint() -> None:
    async with dashboard(Snapshot("the test", shop())) as caller:
        tolerating = (await caller.data("pods/default/batch-0"))["taints"]
        other = (await caller.data("pods/default/huge"))["taints"]
    assert [(each["taint"], each["nodes"], each["by"]) for each in tolerating] == [
        ("sla=940:NoExecute", 2, "sla Gt 900 for NoExecute")
    ]
    assert [each["by"] for each in other] == [""]


@pytest.mark.req("D.5", "D.8")
@pytest.mark.parametrize("value", ["950", "940", "900", "899", "no number"])
async def test_who_would_have_to_go_is_who_a_simulation_evicts(value: str, tmp_path: Path) -> None:
    limited = {"key": "sla", "operator": "Gt", "value": "910", "effect": "NoExecute", "tolerationSeconds": 30}
    objects = [*shop(), pod("patient", on="east-0", spec={"tolerations": [limited]}), pod("stubborn", on="east-0")]
    path = dumped(objects, tmp_path / "dump.json")
    for name in ("east-0", "west-0"):
        said = command("simulate", "--from", str(path), "--keep-pending", "--taint", f"{name}=sla={value}:NoExecute")
        async with dashboard(Snapshot("the test", objects)) as caller:
            shown = await caller.data(f"nodes/{name}/eviction", key="sla", value=value, effect="NoExecute")
        assert {each["pod"]: each["after"] for each in shown["leaving"]} == {
            each["pod"]: round(each["at"]) for each in said["evicted"]
        }


@pytest.mark.req("D.5")
async def test_a_node_shows_its_pods_its_taints_and_who_tolerates_them() -> None:
    async with dashboard(Snapshot("the test", shop())) as caller:
        shown = await caller.data("nodes/west-0")
        page = (await caller.get("nodes/west-0")).text
    assert [each["name"] for each in shown["pods"]] == ["default/batch-0", "default/batch-1", "default/batch-2"]
    (taint,) = shown["taints"]
    assert taint["toleratedBy"] == {"sla Gt 900 for NoExecute": 3}
    assert (taint["least"], taint["number"], taint["most"]) == (890, 940, 950)
    assert 'type="range"' in page


@pytest.mark.req("D.2", "D.5")
async def test_nodes_are_found_by_name_and_label_the_fullest_first() -> None:
    async with dashboard(Snapshot("the test", shop())) as caller:
        found = (await caller.data("nodes", label="kernel=6.1.0", sort="cpu"))["found"]
        named = (await caller.data("nodes", q="west"))["found"]
    assert [each["name"] for each in found] == ["east-0", "east-1", "east-2"]
    assert [round(each["amounts"][0]["part"], 2) for each in found] == [0.5, 0.5, 0.25]
    assert [each["name"] for each in named] == ["west-0", "west-1"]


@pytest.mark.req("D.1")
@pytest.mark.parametrize("path", PAGES)
async def test_names_can_be_anything(path: str) -> None:
    objects = [
        node(HOSTILE, zone=HOSTILE),
        pod(HOSTILE, cpu="1", on=HOSTILE),
        pod("huge", cpu="1000", metadata={"labels": {"x": HOSTILE}}),
        pod("web-0", on=HOSTILE),
    ]
    async with dashboard(Snapshot(HOSTILE, objects)) as caller:
        text = (await caller.get(path)).text
    parsed = _Elements()
    parsed.feed(text)
    assert parsed.names.count("script") == (1 if "<html" in text else 0)
    assert not [name for name in parsed.attributes if name.startswith("on") or name == "style"]


@pytest.mark.req("D.1")
async def test_every_link_leads_somewhere() -> None:
    async with dashboard(Snapshot("the test", shop())) as caller:
        seen: dict[str, int] = {}
        waiting = [""]
        while waiting and len(seen) < 60:
            path = waiting.pop(0)
            if path in seen:
                continue
            answer = await caller.send("GET", f"/a-token-of-tests/{path.partition('?')[0]}",
                                       query=path.partition("?")[2], headers={"host": "127.0.0.1:8123"})  # fmt: skip
            seen[path] = answer.status
            if answer.headers["content-type"].startswith("text/html"):
                links = re.sub(r'<form[^>]*method="post".*?</form>', "", answer.text, flags=re.DOTALL)
                found = re.findall(r'(?:href|src|data-src|action)="/a-token-of-tests/([^"#]*)', links)
                waiting += [each.replace("&amp;", "&") for each in found]
    assert {path: status for path, status in seen.items() if status != 200} == {}


async def _text(caller: Caller, path: str) -> str:
    return (await caller.get(path)).text


@pytest.mark.req("D.1")
async def test_what_may_not_be_read_is_said_on_every_page() -> None:
    missing = {"persistentvolumes": "not allowed: persistentvolumes is forbidden"}
    async with dashboard(Snapshot("the test", shop(), missing=missing)) as caller:
        for path in ("", "pending", "pods", "pods/default/huge", "nodes", "nodes/east-0", "what-if", "versions"):
            assert "persistentvolumes are left out: not allowed" in await _text(caller, path)


@pytest.mark.req("D.1")
async def test_an_error_about_a_missing_pod_names_pods_that_exist() -> None:
    async with dashboard(Snapshot("the test", shop())) as caller:
        answer = await caller.get("pods/default/hugh")
    assert answer.status == 404
    assert "huge" in answer.text


@pytest.mark.req("D.3", "D.8")
async def test_the_list_of_pending_pods_gives_the_reasons_that_the_command_gives(tmp_path: Path) -> None:
    path = str(dumped(shop(), tmp_path / "dump.json"))
    counts = command("simulate", "--from", path, "--keep-pending")["counts"]
    async with dashboard(Snapshot("the test", shop())) as caller:
        shown = await caller.data("pending")
    found = shown["overview"]
    assert found["pods"] == sum(group["pods"] for group in found["groups"]) == counts["pending"]
    for group in found["groups"]:
        for member in group["members"]:
            said = command("explain", "pod", f"{member['namespace']}/{member['example']}", "--from", path)
            assert (group["cause"], group["summary"]) == (said["cause"], said["summary"])


@pytest.mark.req("D.4", "D.8")
@pytest.mark.parametrize("name", ["huge", "new-kernel", "web-0"])
async def test_the_matrix_says_of_every_node_what_the_command_says(name: str, tmp_path: Path) -> None:
    said = command("explain", "pod", f"default/{name}", "--from", str(dumped(shop(), tmp_path / "dump.json")))
    async with dashboard(Snapshot("the test", shop())) as caller:
        shown = (await caller.data(f"pods/default/{name}"))["matrix"]
    rows = {row["node"]: row for row in shown["rows"]}
    for verdict in said["nodes"]:
        row = rows[verdict["node"]]
        assert row["feasible"] == verdict["feasible"]
        refused_by = [verdict["plugin"], *verdict["alsoRefusedBy"]] if not verdict["feasible"] else []
        assert set(row["refusals"]) == set(refused_by)
        assert not refused_by or row["refusals"][verdict["plugin"]] == verdict["detail"]
    for scored in said["scores"]:
        assert rows[scored["node"]]["total"] == scored["total"]
    assert shown["feasible"] == said["feasibleNodes"]


@pytest.mark.req("D.5", "D.8")
async def test_a_node_is_as_full_as_a_simulation_says(tmp_path: Path) -> None:
    said = command("simulate", "--from", str(dumped(shop(), tmp_path / "dump.json")), "--keep-pending")
    async with dashboard(Snapshot("the test", shop())) as caller:
        listed = {each["name"]: each for each in (await caller.data("nodes"))["found"]}
        alone = {name: await caller.data(f"nodes/{name}") for name in listed}
    assert listed.keys() == {each["name"] for each in said["nodes"]}
    for each in said["nodes"]:
        for shown in (listed[each["name"]], alone[each["name"]]):
            assert {amount["resource"]: round(amount["part"], 4) for amount in shown["amounts"]} == each["before"]
        assert len(alone[each["name"]]["pods"]) == each["pods"]


@pytest.mark.req("E.1")
async def test_the_upgrade_is_checked_as_the_command_checks_it(tmp_path: Path) -> None:
    path = dumped(shop(), tmp_path / "dump.json")
    run = CliRunner().invoke(
        mooring, ["upgrade-check", "--from", str(path), "--from-version", "1.36", "--to", "1.37", "-o", "json"]
    )
    said = json.loads(run.stdout)
    async with dashboard(Snapshot("the test", shop())) as caller:
        shown = await caller.data("upgrade/check", start="1.36", to="1.37")
    assert (shown["verdict"], shown["reasons"]) == (said["verdict"], said["reasons"])
    assert shown["rollout"]["nodes"] == said["rollout"]["nodes"]


@pytest.mark.req("E.1")
@pytest.mark.parametrize(("start", "to"), [("x", "1.37"), ("1.36", "9.9"), ("", "")])
async def test_a_release_that_is_not_known_is_a_sentence(start: str, to: str) -> None:
    async with dashboard(Snapshot("the test", shop())) as caller:
        assert (await caller.data("upgrade/check", start=start, to=to))["problem"]
