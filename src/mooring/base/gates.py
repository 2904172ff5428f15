"""Feature gates with a history: what each was at every version, and what `--feature-gates` may say about it.

A gate carries one `Spec` per version in which something about it changed. At an emulated version the newest spec that
is not newer counts; before the first one the gate does not exist yet. `FeatureGates` is the outcome for one component,
made once at start; components read it into plain options and never ask again. The gates there are: ``known_gates.py``.
"""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import StrEnum

import msgspec

from mooring.base.version import ComponentVersions, Version

ALL_ALPHA = "AllAlpha"
ALL_BETA = "AllBeta"


class GateError(ValueError):
    """What `--feature-gates` asks for is not possible. The message names the gate, the reason and the way out."""


class Stage(StrEnum):
    ALPHA = "Alpha"
    BETA = "Beta"
    GA = "GA"
    DEPRECATED = "Deprecated"
    REMOVED = "Removed"


class Spec(msgspec.Struct, frozen=True):
    """What a gate is from one version on."""

    since: Version
    default: bool
    stage: Stage
    locked: bool = False
    min_compatibility: Version | None = None
    """Below this minimum compatibility version the default is off (and the gate is not locked on)."""


class Gate(msgspec.Struct, frozen=True):
    """A gate's name, what it switches, its history (oldest first), and the gates that it needs."""

    name: str
    about: str
    history: tuple[Spec, ...]
    needs: tuple[str, ...] = ()

    def at(self, emulation: Version) -> Spec | None:
        """The spec in force at an emulated version; None before the gate existed."""
        return next((spec for spec in reversed(self.history) if spec.since <= emulation), None)


class GateState(msgspec.Struct, frozen=True):
    """One gate as it stands in a component."""

    gate: Gate
    spec: Spec
    default: bool
    enabled: bool
    is_compatible: bool = True
    """Whether the component's minimum compatibility version reaches the one that the gate needs."""

    @property
    def is_forced(self) -> bool:
        """Whether it is on only because somebody said so: servers that one could go back to do not know the feature."""
        return self.enabled and not self.is_compatible

    @property
    def locked(self) -> bool:
        """Whether it cannot be switched away from its default."""
        return self.spec.locked and self.default == self.spec.default


class FeatureGates(msgspec.Struct, frozen=True):
    """The gates of one component: which exist at its versions, and which are on."""

    states: Mapping[str, GateState]
    warnings: tuple[str, ...] = msgspec.field(default=())

    def enabled(self, name: str) -> bool:
        """Whether a gate is on. A gate that does not exist at these versions is off."""
        state = self.states.get(name)
        return state is not None and state.enabled


def parse(text: str) -> dict[str, bool]:
    """Read `--feature-gates`: `A=true,B=false`. The same gate twice: the last word counts."""
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
    """The state of every gate at `versions` when `wanted` is asked for; raises `GateError` for what cannot be had."""
    known = {gate.name: gate for gate in gates}
    warnings = tuple(filter(None, (_check(name, on, known, versions) for name, on in wanted.items())))
    states: dict[str, GateState] = {}
    for gate in known.values():
        spec = gate.at(versions.emulation)
        if spec is None or spec.stage is Stage.REMOVED:
            continue
        default, compatible = _default(spec, versions), _is_compatible(spec, versions)
        states[gate.name] = GateState(gate, spec, default, _enabled(gate, spec, default, wanted), compatible)
    _check_needs(states)
    forced = (_forced(state, versions) for state in states.values() if state.is_forced)
    return FeatureGates(states, (*warnings, *forced))


def _is_compatible(spec: Spec, versions: ComponentVersions) -> bool:
    return spec.min_compatibility is None or versions.min_compatibility >= spec.min_compatibility


def _default(spec: Spec, versions: ComponentVersions) -> bool:
    return spec.default and _is_compatible(spec, versions)


def _forced(state: GateState, versions: ComponentVersions) -> str:
    return (
        f"Feature gate {state.gate.name} is on although its default needs a minimum compatibility version of "
        f"{state.spec.min_compatibility}: servers of {versions.min_compatibility} cannot read what uses it."
    )


def _enabled(gate: Gate, spec: Spec, default: bool, wanted: Mapping[str, bool]) -> bool:
    if gate.name in wanted:
        return wanted[gate.name]
    group = {Stage.ALPHA: ALL_ALPHA, Stage.BETA: ALL_BETA}.get(spec.stage, "")
    return default if spec.locked else wanted.get(group, default)


def _check(name: str, on: bool, known: Mapping[str, Gate], versions: ComponentVersions) -> str | None:
    """Raise if `name` may not be set to `on`; otherwise the warning that goes with it, if any."""
    emulation = versions.emulation
    if name in (ALL_ALPHA, ALL_BETA):
        if name == ALL_ALPHA and on and versions.is_emulating:
            raise GateError(_no_alpha(name, versions))
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
    default = _default(spec, versions)
    if spec.locked and default == spec.default:
        if on != default:
            raise GateError(
                f"cannot set feature gate {name} to {str(on).lower()}, feature is locked to "
                f"{str(default).lower()} since {spec.since}"
            )
        return f"Setting {spec.stage} feature gate {name}={str(on).lower()}. It will be removed in a future release."
    if spec.stage is Stage.ALPHA and on and versions.is_emulating:
        raise GateError(_no_alpha(name, versions))
    if spec.stage in (Stage.GA, Stage.DEPRECATED):
        return f"Setting {spec.stage} feature gate {name}={str(on).lower()}. It will be removed in a future release."
    return None


def _no_alpha(name: str, versions: ComponentVersions) -> str:
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
