"""The versions and feature gates of the cluster: given on the command line, or reported by its server.

The only place of the dashboard that reads them. Called by ``watching.py``, and by ``views/versions.py`` for what they
were at which version.
"""

from dataclasses import dataclass

import msgspec

from mooring.advisor.audit.options import component_of_snapshot
from mooring.advisor.audit.results import PROPOSALS
from mooring.advisor.snapshot import Snapshot
from mooring.base import known_gates
from mooring.base.component import Component, resolve
from mooring.base.version import BINARY, OLDEST_EMULATION, OLDEST_MIN_COMPATIBILITY, Version
from mooring.cel import Program
from mooring.constraints.celenv import Environments


@dataclass(frozen=True, slots=True)
class Running:
    """The versions and gates of a running cluster."""

    component: Component
    notes: tuple[str, ...] = ()
    """What is only assumed."""


def running_of(snapshot: Snapshot) -> Running | None:
    """Return the versions and gates of the server of a snapshot; None for manifests. Raise `QuestionError`."""
    found = component_of_snapshot(snapshot)
    return None if found is None else Running(*found)


class GateRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A feature gate with its stage at every version that can be emulated."""

    name: str
    about: str
    proposal: str
    enabled: bool
    """As the cluster runs."""
    locked: bool
    stages: list[str]
    """At each version: `Beta, on`, or empty before the gate existed."""


def emulated_versions() -> list[str]:
    """Return the versions that can be emulated, the oldest first."""
    return [str(Version(1, minor)) for minor in range(OLDEST_EMULATION.minor, BINARY.minor + 1)]


def compatible() -> list[str]:
    """Return the possible minimum compatibility versions."""
    return [str(Version(1, minor)) for minor in range(OLDEST_MIN_COMPATIBILITY.minor, BINARY.minor + 1)]


def gate_rows(running: Running) -> list[GateRow]:
    """Return all feature gates with their stage and default at every version, and whether each is on."""
    states, made = running.component.gates.states, []
    for gate in known_gates.KNOWN:
        stages = []
        for version in emulated_versions():
            state = resolve(emulation=version).gates.states.get(gate.name)
            stages.append(f"{state.spec.stage}, {'on' if state.default else 'off'}" if state is not None else "")
        now = states.get(gate.name)
        made.append(
            GateRow(
                name=gate.name,
                about=gate.about,
                proposal=PROPOSALS.get(gate.name, ""),
                enabled=now is not None and now.enabled,
                locked=now is not None and now.locked,
                stages=stages,
            )
        )
    return made


def compile_new(running: Running, environments: Environments, expression: str) -> Program:
    """Compile a CEL expression with the functions that the cluster's server allows in new objects."""
    return environments.new_expressions(running.component.versions.min_compatibility).compile(expression)
