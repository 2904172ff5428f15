"""What if: a scenario built by clicking, and its simulation with the states before and after.

The scenario is the file that `mooring simulate --scenario` takes: it stands on the page, every click adds a step to it,
and it can be saved, as can the report. The simulation is of the cluster as it stands, in a thread of its own; nothing
is written.
"""

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any

import yaml

from mooring.advisor.results import API_VERSION
from mooring.advisor.simulate import ScenarioError, Simulation, scenario_file, simulate
from mooring.advisor.simulate.html.markup import Markup, card, concat, tag
from mooring.advisor.simulate.html.page import page_title, render_sections, render_summary
from mooring.advisor.simulate.html.page import render_page as report_page
from mooring.advisor.simulate.scenario_file import EFFECTS, KIND
from mooring.dashboard.asking import Asked, File, Fragment, NotFoundError, Page
from mooring.dashboard.elements import choice, field, link, notice, soft, text_input

_KEPT = 4
"""The maximum number of simulations that are remembered for their reports."""
_MOST_NODES = 10_000


def _nodes(asked: Asked) -> list[str]:
    found = [name.strip() for name in asked.value("nodes").split(",") if name.strip()]
    if not found:
        raise ScenarioError("name the nodes: worker-1, or a pattern such as worker-*")
    return found


def _named_nodes_step(step: str, asked: Asked) -> dict[str, Any]:
    return {step: _nodes(asked)}


def _taint(step: str, asked: Asked) -> dict[str, Any]:
    entry = {"nodes": _nodes(asked), "key": asked.value("key"), "effect": asked.value("effect")}
    if step == "taint" and asked.value("value"):
        entry["value"] = asked.value("value")
    return {step: [entry]}


def _label(_: str, asked: Asked) -> dict[str, Any]:
    if not asked.value("key"):
        raise ScenarioError("name the key of the label")
    return {"label": [{"nodes": _nodes(asked), "labels": {asked.value("key"): asked.value("value") or None}}]}


def _add(_: str, asked: Asked) -> dict[str, Any]:
    try:
        objects = [each for each in yaml.safe_load_all(asked.value("objects")) if each is not None]
    except yaml.YAMLError as error:
        raise ScenarioError(f"the workload is no YAML: {error}") from error
    if not objects:
        raise ScenarioError("paste a workload: a Deployment, a Job, a Pod, ...")
    entry: dict[str, Any] = {"objects": objects}
    if asked.value("number"):
        entry["replicas"] = asked.number("number", 1)
    return {"add": [entry]}


_STEPS: dict[str, tuple[str, Callable[[str, Asked], dict[str, Any]]]] = {
    "drain": ("drain nodes", _named_nodes_step),
    "cordon": ("cordon nodes", _named_nodes_step),
    "uncordon": ("uncordon nodes", _named_nodes_step),
    "removeNodes": ("take nodes away", _named_nodes_step),
    "taint": ("taint nodes", _taint),
    "untaint": ("untaint nodes", _taint),
    "label": ("label nodes", _label),
    "addNodes": ("add nodes", lambda _, asked: {"addNodes": [{"count": asked.number("number", 1, _MOST_NODES)}]}),
    "add": ("add a workload", _add),
}
"""By name in the file: what it is called, and how it is made of the form."""


def with_step(text: str, name: str, asked: Asked) -> str:
    """Return a scenario file with a further step, made of the fields of the form. Raise `ScenarioError`."""
    tree = _tree(text)
    found = _STEPS.get(name)
    if found is None:
        raise ScenarioError(f"there is no step {name!r}: there are {', '.join(_STEPS)}")
    tree["steps"] = [*(tree.get("steps") or []), found[1](name, asked)]
    made = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)
    scenario_file.read_scenario(made)  # raises what is wrong with it
    return made


def _tree(text: str) -> dict[str, Any]:
    if not text.strip():
        return {"apiVersion": API_VERSION, "kind": KIND, "steps": []}
    try:
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ScenarioError(f"the scenario is no YAML: {error}") from error
    if not isinstance(tree, dict) or not isinstance(tree.get("steps") or [], list):
        raise ScenarioError("this is no scenario: it has no list of steps")
    return tree


async def run_simulation(asked: Asked, text: str) -> tuple[str, Simulation]:
    """Simulate a scenario file; return the name for its report, and the result. Raise `ScenarioError`."""
    scenario, wanted = scenario_file.read_scenario(text or yaml.safe_dump(_tree("")))
    if wanted != scenario_file.ClusterWanted():
        raise ScenarioError("cluster: the simulation is of the cluster that you see; leave it out")
    cluster = asked.cluster
    snapshot = await cluster.ask(lambda live: live.snapshot)
    result = await cluster.compute(partial(simulate, snapshot, scenario, cluster.settings))
    name = hashlib.sha256(f"{cluster.revision} {text}".encode()).hexdigest()[:16]
    cluster.simulations[name] = result
    while len(cluster.simulations) > _KEPT:
        cluster.simulations.popitem(last=False)
    return name, result


# -- the page


async def page(asked: Asked) -> Page:
    """Answer `/what-if?scenario=YAML`: the form to build a scenario."""
    text = asked.value("scenario")
    body = concat(
        soft("Nothing is done to the cluster: this is what would happen. Build a scenario, then run it."),
        tag(
            "form",
            tag("div", _scenario(asked, text), id="scenario-box"),
            _builder(asked),
            tag("p", tag("button", "Run it", type="submit", class_="main", formaction=asked.links.to("what-if", "run"),
                         data_into="outcome")),
            class_="what-if",
            method="post",
            action=asked.links.to("what-if", "run"),
            data_into="outcome",
            data_address=asked.links.to("what-if"),
        ),
        tag("div", id="outcome", aria_live="polite"),
    )  # fmt: skip
    return Page("What would happen if?", body, {"scenario": text}, "what-if")


def _scenario(asked: Asked, text: str, problem: str = "") -> Markup:
    steps = []
    if text and not problem:
        try:
            found, _ = scenario_file.read_scenario(text)
            steps = [tag("li", _describe_change(change)) for step in found.steps for change in step.changes]
        except ScenarioError as error:
            problem = str(error)
    return concat(
        notice(problem) if problem else "",
        tag("ol", *steps, aria_label="Steps") if steps else soft("No steps yet."),
        tag(
            "details",
            tag("summary", "The scenario as a file"),
            tag("label", tag("span", "For mooring simulate --scenario", class_="soft"),
                tag("textarea", text, name="scenario", rows="12", spellcheck="false")),
            tag("button", "Save the file", type="submit", formaction=asked.links.to("what-if", "scenario"),
                data_file=""),
        ),
    )  # fmt: skip


def _describe_change(change: Any) -> str:
    words = {"AddNodes": "add nodes", "RemoveNodes": "take away nodes", "Add": "add", "Remove": "remove"}
    name = words.get(type(change).__name__, type(change).__name__.lower())
    if hasattr(change, "objects"):
        what = ", ".join(f"{each.kind} {each.metadata.name}" for each in change.objects)
        return f"{name} {what}" + (f", {change.replicas} replicas" if change.replicas is not None else "")
    parts = [name, ", ".join(getattr(change, "nodes", ())), str(getattr(change, "number", ""))]
    taint = getattr(change, "taint", None)
    if taint is not None:
        parts.append(f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}")
    elif hasattr(change, "key"):
        value = getattr(change, "value", None)
        parts.append(change.key if value is None else f"{change.key}={value}")
    return " ".join(part for part in parts if part)


def _builder(asked: Asked) -> Markup:
    kinds = [(name, text) for name, (text, _) in _STEPS.items()]
    return tag(
        "fieldset",
        tag("legend", "Add a step"),  # the style sheet shows the fields that the chosen step has
        tag(
            "div",
            field("What", choice("step", kinds, asked.value("step", "drain"))),
            field("Nodes: names or patterns, with commas", text_input("nodes", asked.value("nodes")), "of-nodes"),
            field("Key of a taint or label", text_input("key", asked.value("key")), "of-key"),
            field("Value", text_input("value", asked.value("value")), "of-value"),
            field("Effect of a taint", choice("effect", [(each, each) for each in EFFECTS], "NoExecute"), "of-effect"),
            field("Number of nodes or replicas", text_input("number", "", inputmode="numeric"), "of-number"),
            class_="chooser",
        ),
        tag("details", tag("summary", "Paste a workload as YAML"),
            tag("label", tag("span", "Deployment, Job, Pod and so on", class_="soft"),
                tag("textarea", "", name="objects", rows="8", spellcheck="false")), class_="of-objects", open=""),
        tag("button", "Add the step", type="submit", formaction=asked.links.to("what-if", "step"),
            data_into="scenario-box"),
    )  # fmt: skip


async def step(asked: Asked) -> Fragment:
    """Answer `POST /what-if/step`: the scenario of the form with one more step."""
    text = asked.value("scenario")
    try:
        made = with_step(text, asked.value("step"), asked)
    except ScenarioError as error:
        return Fragment(_scenario(asked, text, str(error)), {"scenario": text, "problem": str(error)})
    return Fragment(_scenario(asked, made), {"scenario": made, "problem": ""})


async def run(asked: Asked) -> Fragment:
    """Answer `POST /what-if/run`: the simulation of the scenario of the form."""
    try:
        name, result = await run_simulation(asked, asked.value("scenario"))
    except ScenarioError as error:
        return Fragment(notice(str(error)), {"problem": str(error)})
    report = link(asked.links.to("what-if", "report", name), "Save the report")
    body = concat(card(page_title(result), render_summary(result), tag("p", report)), *render_sections(result))
    return Fragment(body, result)


async def scenario(asked: Asked) -> File:
    """Answer `POST /what-if/scenario`: the scenario of the form as a file to save."""
    return File("scenario.yaml", asked.value("scenario").encode(), "application/yaml; charset=utf-8")


async def report(asked: Asked) -> File:
    """Answer `/what-if/report/NAME`: the report of one of the last simulations as an HTML file."""
    (name,) = asked.path
    result = asked.cluster.simulations.get(name)
    if result is None:
        raise NotFoundError("this simulation is forgotten: run it again")
    return File("simulation.html", report_page(result).encode(), "text/html; charset=utf-8")
