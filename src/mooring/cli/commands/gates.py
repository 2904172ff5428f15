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

    KUBERNETES is the gate in that release of Kubernetes; some are in no release.

    \b
    Examples:
      mooring gates --emulation-version 1.36
      mooring gates --feature-gates TaintTolerationNodeAffinityCEL=false -o json
    """
    states = sorted(running.gates.states.values(), key=lambda state: state.gate.name)
    if output in ("json", "yaml"):
        print_data([{**_as_data(state), "kubernetes": released(state, running)} for state in states], output)
        return
    wide = output == "wide"
    header = ["GATE", "STAGE", "SINCE", "DEFAULT", "LOCKED", "ENABLED", "KUBERNETES", *(["ABOUT"] if wide else [])]
    print_table(header, [[*_row(state), released(state, running), *([state.gate.about] * wide)] for state in states])


def released(state: GateState, running: Component) -> str:
    """Return how the emulated Kubernetes release has a gate: `same`, its stage and default, or not at all."""
    theirs = kubernetes_gates().get(state.gate.name)
    if theirs is None:
        return "in no release"
    spec = theirs.at(running.versions.emulation)
    if spec is None or spec.stage is Stage.REMOVED:
        return "not there"
    same = (spec.stage, spec.default) == (state.spec.stage, state.spec.default)
    return "same" if same else f"{spec.stage}, {'on' if spec.default else 'off'}"


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


def _row(state: GateState) -> list[str]:
    def word(value: bool) -> str:
        return str(value).lower()

    stage = click.style(str(state.spec.stage), fg=_COLOUR.get(state.spec.stage))
    enabled = click.style("true", fg="green") if state.enabled else "false"
    return [state.gate.name, stage, str(state.spec.since), word(state.default), word(state.locked), enabled]
