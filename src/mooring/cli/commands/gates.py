"""`mooring gates`: the feature gates there are at a version, and how each stands."""

import click

from mooring.base.component import Component
from mooring.base.gates import GateState, Stage
from mooring.cli.support.component_flags import component_flags
from mooring.cli.support.output import output_option, print_data, print_table

_COLOUR = {Stage.ALPHA: "yellow", Stage.BETA: "cyan", Stage.GA: "green", Stage.DEPRECATED: "red"}


@click.command()
@component_flags
@output_option("table", "wide", "json", "yaml")
def gates(running: Component, output: str) -> None:
    """List the feature gates at a version: stage, default, whether locked, and whether on with these flags.

    \b
    Examples:
      mooring gates --emulation-version 1.36
      mooring gates --feature-gates TaintTolerationNodeAffinityCEL=false -o json
    """
    states = sorted(running.gates.states.values(), key=lambda state: state.gate.name)
    if output in ("json", "yaml"):
        print_data([_as_data(state) for state in states], output)
        return
    wide = output == "wide"
    header = ["GATE", "STAGE", "SINCE", "DEFAULT", "LOCKED", "ENABLED", *(["ABOUT"] if wide else [])]
    print_table(header, [_row(state, wide) for state in states])


def _as_data(state: GateState) -> dict[str, object]:
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
    }


def _row(state: GateState, wide: bool) -> list[str]:
    def word(value: bool) -> str:
        return str(value).lower()

    stage = click.style(str(state.spec.stage), fg=_COLOUR.get(state.spec.stage))
    enabled = click.style("true", fg="green") if state.enabled else "false"
    row = [state.gate.name, stage, str(state.spec.since), word(state.default), word(state.locked), enabled]
    return [*row, state.gate.about] if wide else row
