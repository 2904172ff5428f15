"""The views that answer questions (what if, versions, expressions) say what their commands say, and refuse nonsense."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dashboard_calls import dashboard, dumped, shop
from mooring.advisor.snapshot import Snapshot, dump
from mooring.base import component
from mooring.cli.main import mooring
from mooring.cli.support.cluster_source import scheduler_choice
from mooring.cli.support.simulation_settings import settings_of

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: more}
spec:
  replicas: 3
  selector: {matchLabels: {app: more}}
  template:
    metadata: {labels: {app: more}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "3"}}}]}
"""


def command(*words: str, code: int = 0) -> Any:
    run = CliRunner().invoke(mooring, [*words, "-o", "json"])
    assert run.exit_code == code, run.output
    return json.loads(run.stdout)


# -- what if


@pytest.mark.req("D.6", "D.8")
async def test_a_scenario_of_clicks_is_simulated_as_its_file_is(tmp_path: Path) -> None:
    path = dumped(shop(), tmp_path / "dump.json")
    running = component.resolve()
    settings = settings_of(running, scheduler_choice(running, None))
    steps: list[dict[str, str]] = [
        {"step": "drain", "nodes": "east-0"},
        {"step": "taint", "nodes": "west-*", "key": "sla", "value": "890", "effect": "NoExecute"},
        {"step": "label", "nodes": "east-1,east-2", "key": "kernel", "value": "7.1.0"},
        {"step": "addNodes", "number": "2"},
        {"step": "add", "objects": DEPLOYMENT, "number": "4"},
        {"step": "uncordon", "nodes": "east-0"},
    ]
    async with dashboard(Snapshot(f"the dump {path}", shop()), settings) as caller:
        scenario = ""
        for step in steps:
            made = (await caller.post("what-if/step?format=json", scenario=scenario, **step)).json
            assert made["problem"] == ""
            scenario = made["scenario"]
        shown = (await caller.post("what-if/run?format=json", scenario=scenario)).json
        page = (await caller.post("what-if/run", scenario=scenario)).text
        saved = (await caller.post("what-if/scenario", scenario=scenario)).body
        report = await caller.get(f"what-if/report/{_report(page)}")
    (tmp_path / "scenario.yaml").write_bytes(saved)
    said = command("simulate", "--from", str(path), "--scenario", str(tmp_path / "scenario.yaml"))
    assert shown == said
    assert "What would happen if: drain east-0" in page
    assert report.status == 200
    assert report.headers["content-disposition"] == 'attachment; filename="simulation.html"'


def _report(page: str) -> str:
    return page.partition("/what-if/report/")[2].partition('"')[0]


@pytest.mark.req("D.6")
@pytest.mark.parametrize(
    ("form", "problem"),
    [
        ({"step": "drain", "nodes": " "}, "name the nodes"),
        ({"step": "taint", "nodes": "a", "key": "", "effect": "NoExecute"}, "steps[0].taint[0].key: is missing"),
        ({"step": "taint", "nodes": "a", "key": "k", "effect": "Sometimes"}, "is none of NoSchedule"),
        ({"step": "label", "nodes": "a"}, "name the key"),
        ({"step": "add", "objects": "{"}, "the workload is no YAML"),
        ({"step": "add", "objects": ""}, "paste a workload"),
        ({"step": "explode"}, "there is no step"),
        ({"step": "drain", "nodes": "a", "scenario": "- 1"}, "this is no scenario"),
        ({"step": "drain", "nodes": "a", "scenario": "{"}, "the scenario is no YAML"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_an_impossible_step_is_reported_and_the_scenario_stays(form: dict[str, str], problem: str) -> None:
    async with dashboard(Snapshot("the test", shop())) as caller:
        answer = (await caller.post("what-if/step?format=json", **{"scenario": "", **form})).json
    assert problem in answer["problem"]
    assert answer["scenario"] == form.get("scenario", "")


@pytest.mark.req("D.6")
async def test_a_scenario_of_nodes_that_are_not_there_is_refused_in_a_sentence() -> None:
    async with dashboard(Snapshot("the test", shop())) as caller:
        made = (await caller.post("what-if/step?format=json", scenario="", step="drain", nodes="mars")).json
        answer = (await caller.post("what-if/run?format=json", scenario=made["scenario"])).json
        forgotten = await caller.get("what-if/report/none")
    assert "mars" in answer["problem"]
    assert forgotten.status == 404


# -- versions and gates


@pytest.mark.req("D.7", "D.8")
@pytest.mark.parametrize(
    ("flags", "query", "code"),
    [
        ((), {}, 0),
        (("--to-emulation-version", "1.36"), {"to": "1.36"}, 1),
        (("--disable-gate", "TaintTolerationComparisonOperators"), {"off": "TaintTolerationComparisonOperators"}, 1),
        (("--to-min-compatibility", "1.34"), {"compat": "1.34"}, 1),
    ],
    ids=["an inventory", "another version", "a gate off", "an older reader"],
)
async def test_versions_say_what_an_audit_says(
    flags: tuple[str, ...], query: dict[str, str], code: int, tmp_path: Path
) -> None:
    path = dumped(shop(), tmp_path / "dump.json")
    said = command("audit", "--from", str(path), *flags, code=code)
    run = CliRunner().invoke(mooring, ["gates", "-o", "json"])
    async with dashboard(dump([path])) as caller:
        shown = await caller.data("versions/audit", **query)
        gates = (await caller.data("versions"))["gates"]
    assert shown == said
    assert {each["name"]: each["enabled"] for each in gates} == {
        each["name"]: each["enabled"] for each in json.loads(run.stdout)
    }


@pytest.mark.req("D.7")
async def test_a_question_about_versions_that_cannot_be_is_refused_in_a_sentence() -> None:
    async with dashboard(Snapshot("the test", shop())) as caller:
        answer = await caller.data("versions/audit", to="1.99")
    assert "1.99" in answer["problem"]


# -- expressions


@pytest.mark.req("D.7", "D.8")
@pytest.mark.parametrize(
    ("env", "expression", "matches"),
    [
        ("node", "node.labels['kernel'] == '6.1.0'", 3),
        ("node", "'kernel' in node.labels && semver.compare(node.labels['kernel'], '<6.0')", 2),
        ("node", "node.labels.exists(k, k.startsWith('topology'))", 5),
        ("taint", "taint.key == 'sla' && int(taint.value) > 900", 2),
        ("taint", "taint.value == 'x'", 0),
    ],
)
async def test_an_expression_is_evaluated_as_by_the_command(env: str, expression: str, matches: int) -> None:
    said = command("cel", "check", "--env", env, expression)
    cost = command("cel", "cost", "--env", env, expression)
    async with dashboard(Snapshot("the test", shop())) as caller:
        shown = await caller.data("expressions/try", kind=env, expression=expression)
    assert (shown["valid"], shown["type"], shown["maxCost"]) == (said["valid"], said["type"], said["maxCost"])
    assert (shown["minCost"], shown["costLimit"]) == (cost["minCost"], cost["costLimit"])
    assert shown["matches"] == matches


@pytest.mark.req("D.7")
async def test_what_is_wrong_stands_below_its_place() -> None:
    expression = "node.labels['rack'] > 5"
    said = command("cel", "check", "--env", "node", expression, code=1)
    async with dashboard(Snapshot("the test", shop())) as caller:
        shown = await caller.data("expressions/try", kind="node", expression=expression)
        page = (await caller.get("expressions/try", kind="node", expression=expression)).text
    assert shown["issues"] == said["issues"]
    assert f"\n{' ' * expression.index('>')}^" in page


@pytest.mark.req("D.7")
async def test_nodes_that_do_not_match_are_shown_with_the_reason() -> None:
    async with dashboard(Snapshot("the test", shop())) as caller:
        shown = await caller.data("expressions/try", kind="semver", key="kernel", expression=">=6.0")
        wrong = await caller.data("expressions/try", kind="semver", key="kernel", expression=">=six")
        missing = await caller.data("expressions/try", kind="semver", key="rack", expression=">=1")
    assert [(each["matches"], each["count"]) for each in shown["outcomes"]] == [(True, 3), (False, 2)]
    assert "node.labels['kernel'] is '5.4.0'" in shown["outcomes"][1]["why"]
    assert wrong["valid"] is False
    assert "no such key: rack" in missing["outcomes"][0]["why"]


@pytest.mark.req("D.7")
@pytest.mark.parametrize("expression", ["", "(" * 2000, "node.", "\x00", "a" * 10_001])
async def test_hostile_expressions_get_an_answer(expression: str) -> None:
    async with dashboard(Snapshot("the test", shop())) as caller:
        answer = await caller.get("expressions/try", kind="node", expression=expression)
    assert answer.status in (200, 400)
