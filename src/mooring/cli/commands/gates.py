"""`mooring gates`: list the feature gates at a version and their states."""

import click

from mooring.base.component import Component
from mooring.base.gate_history import kubernetes_gates
from mooring.base.gates import GateState, Stage
from mooring.cli.support.flags import component_flags
from mooring.cli.support.output import output_option, print_data, print_table

_COLOUR = {Stage.ALPHA: "yellow", Stage.BETA: "cyan", Stage.GA: "green", Stage.DEPRECATED: "red"}


@click.command()
@component_flags
@output_option("table", "wide", "json", "yaml")
def gates(running: Component, output: str) -> None:
    """List the feature gates at a version: stage, default, whether locked, and whether on with these flags.

    The column KUBERNETES shows the gate in that release of Kubernetes; some gates are in no release.

    \b
    Examples:
      mooring gates --emulation-version 1.36
      mooring gates --feature-gates TaintTolerationNodeAffinityCEL=false -o json
    """
    states = sorted(running.gates.states.values(), key=lambda state: state.gate.name)
    data = [_as_data(state, running) for state in states]
    if output in ("json", "yaml"):
        print_data(data, output)
        return
    columns = ["stage", "since", "default", "locked", "enabled", "kubernetes", *(["about"] if output == "wide" else [])]
    rows = [[str(each["name"]), *(_format_cell(column, each[column]) for column in columns)] for each in data]
    print_table(["GATE", *(column.upper() for column in columns)], rows)


def release_difference(state: GateState, running: Component) -> str:
    """Return how the emulated Kubernetes release has a gate: `same`, its stage and default, or not at all."""
    theirs = kubernetes_gates().get(state.gate.name)
    if theirs is None:
        return "in no release"
    spec = theirs.at(running.versions.emulation)
    if spec is None or spec.stage is Stage.REMOVED:
        return "not there"
    same = (spec.stage, spec.default) == (state.spec.stage, state.spec.default)
    return "same" if same else f"{spec.stage}, {'on' if spec.default else 'off'}"


def _as_data(state: GateState, running: Component) -> dict[str, object]:
    return {
        "name": state.gate.name,
        "stage": str(state.spec.stage),
        "since": str(state.spec.since),
        "default": state.default,
        "locked": state.locked,
        "enabled": state.enabled,
        "forced": state.is_forced,
        "needs": list(state.gate.needs),
        "about": state.gate.about,
        "kubernetes": release_difference(state, running),
    }


def _format_cell(column: str, value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if column == "stage":
        return click.style(text, fg=_COLOUR.get(Stage(text)))
    return click.style(text, fg="green") if column == "enabled" and value else text
