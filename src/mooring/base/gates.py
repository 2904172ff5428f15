"""Feature gates with their history: the stage and default at every version, and what `--feature-gates` may set.

A gate carries one `Spec` per version in which it changed. At an emulated version the newest spec that is not newer
applies; before the first spec the gate does not exist. `FeatureGates` is the result for one component, built once at
start; components read it into plain options. The list of gates: ``known_gates.py``.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import StrEnum

import msgspec

from mooring.base.version import ComponentVersions, Version

ALL_ALPHA = "AllAlpha"
ALL_BETA = "AllBeta"


class GateError(ValueError):
    """A gate cannot be set as requested. The message names the gate, the reason and the fix."""


class Stage(StrEnum):
    ALPHA = "Alpha"
    BETA = "Beta"
    GA = "GA"
    DEPRECATED = "Deprecated"
    REMOVED = "Removed"


class Spec(msgspec.Struct, frozen=True):
    """Stage and default of a gate from one version on."""

    since: Version
    default: bool
    stage: Stage
    locked: bool = False
    min_compatibility: Version | None = None
    """Below this minimum compatibility version the default is off (and the gate is not locked on)."""


class Gate(msgspec.Struct, frozen=True):
    """A gate: its name, a description, its history (oldest first), and the gates that it depends on."""

    name: str
    about: str
    history: tuple[Spec, ...]
    needs: tuple[str, ...] = ()

    def at(self, emulation: Version) -> Spec | None:
        """Return the spec that applies at an emulated version; None before the gate existed.

        A minimum compatibility version holds for later stages too: releases to roll back to know the feature no better.
        """
        past = [spec for spec in self.history if spec.since <= emulation]
        if not past:
            return None
        needed = [spec.min_compatibility for spec in past if spec.min_compatibility is not None]
        return msgspec.structs.replace(past[-1], min_compatibility=max(needed, default=None))


class GateState(msgspec.Struct, frozen=True):
    """The resolved state of one gate in a component."""

    gate: Gate
    spec: Spec
    default: bool
    enabled: bool
    is_compatible: bool = True
    """Whether the component's minimum compatibility version is high enough for the gate's default."""

    @property
    def is_forced(self) -> bool:
        """Whether the gate was switched on explicitly although releases to roll back to do not know the feature."""
        return self.enabled and not self.is_compatible

    @property
    def locked(self) -> bool:
        """Whether the gate cannot be switched away from its default."""
        return self.spec.locked and self.default == self.spec.default


class FeatureGates(msgspec.Struct, frozen=True):
    """The gates that exist at a component's versions, and which of them are on."""

    states: Mapping[str, GateState]
    warnings: tuple[str, ...] = msgspec.field(default=())

    @property
    def changed(self) -> dict[str, bool]:
        """Whether each gate is on that is not as by default."""
        return {name: state.enabled for name, state in self.states.items() if state.enabled != state.default}

    def enabled(self, name: str) -> bool:
        """Return whether a gate is on. A gate that does not exist at these versions is off."""
        state = self.states.get(name)
        return state is not None and state.enabled


def parse(text: str) -> dict[str, bool]:
    """Parse `--feature-gates`: `A=true,B=false`. Of two settings of one gate the last applies."""
    wanted: dict[str, bool] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        switch = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}.get(value.lower())
        if not equals or not name:
            raise GateError(f'--feature-gates: missing "=" in "{part}": write {name or "Gate"}=true or =false')
        if switch is None:
            raise GateError(f'--feature-gates: "{value}" is not a value for {name}: write true or false')
        wanted[name] = switch
    return wanted


def resolve(gates: Iterable[Gate], versions: ComponentVersions, wanted: Mapping[str, bool]) -> FeatureGates:
    """Return the state of every gate at `versions` with the settings `wanted`; raise `GateError` for an invalid one."""
    known = {gate.name: gate for gate in gates}
    warnings = tuple(filter(None, (_check_setting(name, on, known, versions) for name, on in wanted.items())))
    states: dict[str, GateState] = {}
    for gate in known.values():
        spec = gate.at(versions.emulation)
        if spec is None or spec.stage is Stage.REMOVED:
            continue
        default, compatible = _effective_default(spec, versions), _is_compatible(spec, versions)
        states[gate.name] = GateState(gate, spec, default, _is_enabled(gate, spec, default, wanted), compatible)
    _check_needs(states)
    forced = (_warn_about_forced(state, versions) for state in states.values() if state.is_forced)
    return FeatureGates(states, (*warnings, *forced))


def _is_compatible(spec: Spec, versions: ComponentVersions) -> bool:
    return spec.min_compatibility is None or versions.min_compatibility >= spec.min_compatibility


def _effective_default(spec: Spec, versions: ComponentVersions) -> bool:
    return spec.default and _is_compatible(spec, versions)


def _warn_about_forced(state: GateState, versions: ComponentVersions) -> str:
    return (
        f"Feature gate {state.gate.name} is on although its default needs a minimum compatibility version of "
        f"{state.spec.min_compatibility}: servers of {versions.min_compatibility} cannot read what uses it."
    )


def _is_enabled(gate: Gate, spec: Spec, default: bool, wanted: Mapping[str, bool]) -> bool:
    if gate.name in wanted:
        return wanted[gate.name]
    group = {Stage.ALPHA: ALL_ALPHA, Stage.BETA: ALL_BETA}.get(spec.stage, "")
    return default if spec.locked else wanted.get(group, default)


def _check_setting(name: str, on: bool, known: Mapping[str, Gate], versions: ComponentVersions) -> str | None:
    """Raise if `name` may not be set to `on`; otherwise return the warning for it, if any."""
    emulation = versions.emulation
    if name in (ALL_ALPHA, ALL_BETA):
        if name == ALL_ALPHA and on and versions.is_emulating:
            raise GateError(_explain_alpha_under_emulation(name, versions))
        return None
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "`mooring gates` lists those there are"
        raise GateError(f"unrecognized feature gate: {name}: {hint}")
    gate = known[name]
    spec = gate.at(emulation)
    if spec is None:
        raise GateError(
            f"cannot set feature gate {name}: it does not exist at emulation version {emulation}; "
            f"it came with {gate.history[0].since}"
        )
    if spec.stage is Stage.REMOVED:
        raise GateError(f"cannot set feature gate {name}: it was removed in {spec.since}; leave it out")
    default = _effective_default(spec, versions)
    if spec.locked and default == spec.default:
        if on != default:
            raise GateError(
                f"cannot set feature gate {name} to {str(on).lower()}, feature is locked to "
                f"{str(default).lower()} since {spec.since}"
            )
        return f"Setting {spec.stage} feature gate {name}={str(on).lower()}. It will be removed in a future release."
    if spec.stage is Stage.ALPHA and on and versions.is_emulating:
        raise GateError(_explain_alpha_under_emulation(name, versions))
    if spec.stage in (Stage.GA, Stage.DEPRECATED):
        return f"Setting {spec.stage} feature gate {name}={str(on).lower()}. It will be removed in a future release."
    return None


def _explain_alpha_under_emulation(name: str, versions: ComponentVersions) -> str:
    return (
        f"cannot set feature gate {name} to true: alpha features are not available under emulation "
        f"(--emulation-version={versions.emulation}, this is {versions.binary})"
    )


def _check_needs(states: Mapping[str, GateState]) -> None:
    for state in states.values():
        missing = [name for name in state.gate.needs if not (name in states and states[name].enabled)]
        if state.enabled and missing:
            raise GateError(
                f"feature gate {state.gate.name} is enabled but depends on features that are disabled: "
                f"{', '.join(missing)}: enable those too, or set {state.gate.name}=false"
            )
