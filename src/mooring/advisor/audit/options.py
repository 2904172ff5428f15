"""The current and the target flags of an audit, and the options that follow from both.

`ask` validates the flags together. `AuditOptions` is for the rest of the audit: current and target admission, and a
`Switch` for each gate and version on which something may depend. A switch is admission with everything on except one
gate or version; whatever this admission rejects or drops is a use of the gate or version, so no table of uses is
needed.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import msgspec
from msgspec.structs import replace

from mooring.admission import options as admission_options
from mooring.admission.options import AdmissionOptions
from mooring.advisor.audit.results import COMPATIBILITY, PROPOSALS, Flags, GateChange
from mooring.advisor.lint.removed_apis import removal_of
from mooring.advisor.snapshot.objects import Snapshot
from mooring.advisor.snapshot.server_info import ServerInfo
from mooring.api.core_v1 import Node
from mooring.api.kinds import Kind
from mooring.api.scheme import Scheme
from mooring.base import component as components
from mooring.base import known_gates
from mooring.base.component import Component
from mooring.base.gates import FeatureGates, GateError
from mooring.base.known_gates import LABEL_KEYS_IN_SPREAD_MERGE
from mooring.base.version import BINARY, OLDEST_EMULATION, ComponentVersions, Version, VersionError, oldest_compatible
from mooring.constraints import options as constraint_options
from mooring.constraints.options import ConstraintOptions
from mooring.scheduler.framework import SchedulerFeatures
from mooring.scheduler.framework import options as scheduler_options

_SIMULATED = "Simulated Linux"
NONE_SET: Mapping[str, bool] = MappingProxyType({})


class QuestionError(ValueError):
    """The command-line flags of an audit contradict each other or are unknown; the message says which."""


@dataclass(frozen=True, slots=True)
class Question:
    """The current and the target component flags that an audit compares; both are the same for an inventory."""

    current: Component
    target: Component | None = None
    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    target_runtime_config: Mapping[str, bool] = field(default_factory=dict)
    asks_for_rollback_of_binaries: bool = False
    """Whether `--to-min-compatibility` was given: servers of that version may have to read stored objects."""
    notes: tuple[str, ...] = ()


def ask(
    current: Component,
    *,
    to_emulation: str | None = None,
    to_min_compatibility: str | None = None,
    disable: Sequence[str] = (),
    enable: Sequence[str] = (),
    runtime_config: Mapping[str, bool] = NONE_SET,
    to_runtime_config: Mapping[str, bool] | None = None,
) -> Question:
    """Return the current and target flags that an audit compares. Raise `QuestionError` for contradictory flags."""
    if to_runtime_config is None:
        to_runtime_config = runtime_config
    asked = to_emulation or to_min_compatibility or disable or enable or to_runtime_config != runtime_config
    if not asked:
        return Question(current, None, runtime_config, runtime_config)
    try:
        target, notes = _resolve_target(current, to_emulation, to_min_compatibility, disable, enable)
    except (GateError, VersionError) as error:
        raise QuestionError(str(error)) from error
    return Question(current, target, runtime_config, to_runtime_config, bool(to_min_compatibility), notes)


def _resolve_target(
    current: Component,
    to_emulation: str | None,
    to_min_compatibility: str | None,
    disable: Sequence[str],
    enable: Sequence[str],
) -> tuple[Component, tuple[str, ...]]:
    versions = current.versions
    emulation = Version.parse(to_emulation) if to_emulation else versions.emulation
    lowest = to_min_compatibility
    if lowest is None:
        usual = ComponentVersions.resolve(emulation).min_compatibility
        now_usual = ComponentVersions.resolve(versions.emulation).min_compatibility
        chosen = versions.min_compatibility
        lowest = str(usual if chosen == now_usual else min(chosen, emulation))
    notes: list[str] = []
    wanted: dict[str, bool] = {}
    for name, on in current.gates.changed.items():
        if name in disable or name in enable:
            continue
        try:
            components.resolve(gates=_format_config({name: on}), emulation=str(emulation), min_compatibility=lowest)
        except GateError as error:
            if "depends on" not in str(error):
                notes.append(f"--feature-gates={name}={str(on).lower()} has to go: {error}")
                continue
        wanted[name] = on
    for name in disable:
        gate = next((gate for gate in known_gates.KNOWN if gate.name == name), None)
        if gate is not None and gate.at(emulation) is None:
            notes.append(f"{name} does not exist at {emulation}: it is off there anyway")
            continue
        wanted[name] = False
    wanted |= dict.fromkeys(enable, True)
    target = components.resolve(gates=_format_config(wanted), emulation=str(emulation), min_compatibility=lowest)
    return target, tuple(notes)


def _format_config(wanted: Mapping[str, bool]) -> str:
    return ",".join(f"{name}={str(on).lower()}" for name, on in wanted.items())


def flags_of(component: Component, runtime_config: Mapping[str, bool]) -> Flags:
    """Return the command-line flags that start a component with the given versions and gates."""
    return Flags(
        emulation_version=str(component.versions.emulation),
        min_compatibility_version=str(component.versions.min_compatibility),
        feature_gates=component.gates.changed,
        runtime_config=dict(runtime_config),
    )


def component_of_server(version: Mapping[str, str], gates: Mapping[str, bool]) -> tuple[Component, tuple[str, ...]]:
    """Return the versions and gates of a live server, from its `/version` and exposed gates, and notes about
    assumptions.

    A server outside the emulated range is treated as the nearest release. A gate that it does not expose counts as off,
    unless it is locked.
    """
    found, notes = _nearest_release(version)
    if gates:
        hidden = [name for name, state in found.gates.states.items() if name not in gates and not state.spec.locked]
    elif version.get("goVersion", "").startswith("python"):  # that is Mooring
        notes.append("the server does not show its feature gates; they are assumed to be as its version has them")
        hidden = []
    else:
        notes.append("the server does not show its feature gates; they are assumed to be as Kubernetes has them")
        hidden = list(known_gates.NOT_ON_IN_KUBERNETES)
    return _with_gates_off(found, hidden, gates, notes)


def component_of_snapshot(snapshot: Snapshot) -> tuple[Component, tuple[str, ...]] | None:
    """Return the versions and gates of a snapshot's server, and notes about assumptions; None for manifests.

    The server reported them, or they are inferred from the kubelets of the nodes. Raise `QuestionError`.
    """
    if snapshot.server is not None:
        try:
            info = msgspec.convert(snapshot.server, ServerInfo)
        except msgspec.ValidationError as error:
            raise QuestionError(f"{snapshot.origin} does not record how its server ran: {error}") from error
        return component_of_server(info.version, info.gates)
    nodes = [node.status.node_info for node in snapshot.all(Node)]
    is_real = any(
        node.metadata.uid and node.status.node_info.kubelet_version and node.status.node_info.os_image != _SIMULATED
        for node in snapshot.all(Node)
    )
    return component_of_dump(info.kubelet_version for info in nodes) if is_real else None


def component_of_dump(kubelets: Iterable[str]) -> tuple[Component, tuple[str, ...]]:
    """Return the versions and gates of a dump's server: its newest kubelet's version with default gates."""
    parts = [re.match(r"v?(\d+)\.(\d+)", text) for text in kubelets]
    newest = max((Version(int(part[1]), int(part[2])) for part in parts if part), default=None)
    version = {"major": str(newest.major), "minor": str(newest.minor)} if newest else {}
    found, notes = _nearest_release(version)
    notes.append(
        f"a dump does not tell how its server runs: it is taken as Kubernetes {found.versions.emulation};"
        " name --emulation-version and --feature-gates if it is not"
    )
    return _with_gates_off(found, known_gates.NOT_ON_IN_KUBERNETES, NONE_SET, notes)


def _nearest_release(version: Mapping[str, str]) -> tuple[Component, list[str]]:
    emulation = _parse_version(version, "emulation") or _parse_version(version, "") or BINARY
    nearest = min(max(emulation, OLDEST_EMULATION), BINARY)
    notes = []
    if nearest != emulation:
        notes.append(f"the server is of version {emulation}; it is treated as {nearest}, the nearest known one")
    lowest = _parse_version(version, "minCompatibility")
    lowest = min(max(lowest, oldest_compatible(nearest)), nearest) if lowest else None
    try:
        return components.resolve(emulation=str(nearest), min_compatibility=str(lowest) if lowest else None), notes
    except (GateError, VersionError) as error:
        raise QuestionError(str(error)) from error


def _with_gates_off(
    found: Component, hidden: Collection[str], shown: Mapping[str, bool], notes: list[str]
) -> tuple[Component, tuple[str, ...]]:
    states = found.gates.states
    counted = [name for name, state in states.items() if name in hidden and state.enabled]
    if counted:
        notes.append(f"{', '.join(counted)}: not shown, so {'they count' if len(counted) > 1 else 'it counts'} as off")
    chosen = {name: name not in hidden and shown.get(name, state.enabled) for name, state in states.items()}
    gates = FeatureGates({name: replace(state, enabled=chosen[name]) for name, state in states.items()})
    return Component(found.versions, gates), tuple(notes)


def _parse_version(version: Mapping[str, str], prefix: str) -> Version | None:
    names = (f"{prefix}Major", f"{prefix}Minor") if prefix else ("major", "minor")
    major, minor = (version.get(name, "").rstrip("+") for name in names)
    return Version(int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None


@dataclass(frozen=True, slots=True, eq=False)
class Switch:
    """A feature gate or version, and admission options with every gate and version enabled except this one."""

    feature: str
    off: AdmissionOptions
    needs: str = ""
    """The lowest minimum compatibility version at which the gate or field may be used."""


@dataclass(frozen=True, slots=True, eq=False)
class ResolvedFlags:
    """A set of component flags, with the API scheme, admission options and scheduler features that result from it."""

    flags: Flags
    scheme: Scheme
    admission: AdmissionOptions
    constraints: ConstraintOptions
    features: SchedulerFeatures


@dataclass(frozen=True, slots=True, eq=False)
class AuditOptions:
    everything: AdmissionOptions
    """Admission options with all gates on; no field is rejected for being too new."""
    nothing: AdmissionOptions
    """Admission options with all gates off and the oldest minimum compatibility version."""
    switches: tuple[Switch, ...]
    now: ResolvedFlags
    then: ResolvedFlags
    changes: tuple[GateChange, ...]
    forced: frozenset[str]
    """Gates that are switched on although the minimum compatibility version is below the one that they need."""
    is_inventory: bool
    oldest_reader: Version
    """The target minimum compatibility version: the oldest server that may have to read stored objects."""
    checks_stored: bool
    """Whether servers of the version `oldest_reader` will read stored objects, so that these are checked too."""
    _from: Version
    _to: Version

    def turns_gate_off(self, gate: str) -> bool:
        """Return whether the target flags switch a gate off."""
        return any(change.gate == gate and not change.enabled for change in self.changes)

    def can_read(self, kind: Kind) -> bool:
        """Return whether the oldest server that may have to read stored objects knows an API version of this kind."""
        return not self.checks_stored or kind.lifecycle.known_at(self.oldest_reader)

    def describe_removal(self, api_version: str, kind: str) -> str | None:
        """Return the release up to the target that removes a kind Mooring lacks, and the replacement; None if none."""
        found = removal_of(api_version, kind)
        if found is None or not self._from < Version.parse(found.release) <= self._to:
            return None
        return f"{found.release}; use {found.replacement}" if found.replacement else found.release


def build_options(question: Question) -> AuditOptions:
    """Compute the audit's options from its flags. Raise `SchemeError` for a wrong runtime configuration."""
    target = question.target or question.current
    everything = _admission_options(_set_all_gates(on=True), BINARY)
    oldest = oldest_compatible(target.versions.emulation)
    return AuditOptions(
        everything=everything,
        nothing=_admission_options(_set_all_gates(on=False), oldest),
        switches=tuple(_make_switches(everything, oldest)),
        now=_resolve_flags(question.current, question.runtime_config),
        then=_resolve_flags(target, question.target_runtime_config if question.target else question.runtime_config),
        changes=tuple(_gate_changes(question.current, target)),
        forced=frozenset(name for name, state in target.gates.states.items() if state.is_forced),
        is_inventory=question.target is None,
        oldest_reader=target.versions.min_compatibility,
        checks_stored=question.asks_for_rollback_of_binaries,
        _from=question.current.versions.emulation,
        _to=target.versions.emulation,
    )


def _resolve_flags(component: Component, runtime_config: Mapping[str, bool]) -> ResolvedFlags:
    return ResolvedFlags(
        flags=flags_of(component, runtime_config),
        scheme=Scheme(component.versions, runtime_config),
        admission=admission_options.for_component(component),
        constraints=constraint_options.from_gates(component.gates),
        features=scheduler_options.from_gates(component.gates),
    )


def _set_all_gates(*, on: bool, but: str = "") -> FeatureGates:
    states = components.resolve().gates.states
    return FeatureGates({name: replace(state, enabled=on and name != but) for name, state in states.items()})


def _admission_options(gates: FeatureGates, min_compatibility: Version) -> AdmissionOptions:
    return admission_options.for_component(Component(ComponentVersions(BINARY, BINARY, min_compatibility), gates))


def _make_switches(everything: AdmissionOptions, oldest: Version) -> Iterator[Switch]:
    for gate in known_gates.KNOWN:
        if gate.name == LABEL_KEYS_IN_SPREAD_MERGE:
            continue  # it decides who reads `matchLabelKeys`, not whether anybody does
        off = _admission_options(_set_all_gates(on=True, but=gate.name), BINARY)
        if off != everything:
            needs = max((spec.min_compatibility for spec in gate.history if spec.min_compatibility), default=None)
            yield Switch(gate.name, off, str(needs) if needs else "")
    version = BINARY.minus(1)
    while version >= oldest:
        yield Switch(COMPATIBILITY, _admission_options(_set_all_gates(on=True), version), str(version.plus(1)))
        version = version.minus(1)


def _gate_changes(current: Component, target: Component) -> Iterator[GateChange]:
    for gate in known_gates.KNOWN:
        was, becomes = current.gates.enabled(gate.name), target.gates.enabled(gate.name)
        if was != becomes:
            reason = _reason_for_change(gate.name, target, on=becomes)
            yield GateChange(gate=gate.name, proposal=PROPOSALS.get(gate.name, ""), enabled=becomes, reason=reason)


def _reason_for_change(name: str, target: Component, *, on: bool) -> str:
    state = target.gates.states.get(name)
    versions = target.versions
    if state is None:
        return f"it does not exist at {versions.emulation}"
    if state.enabled != state.default:
        return "it is switched " + ("on" if on else "off")
    needed = state.spec.min_compatibility
    if not on and state.spec.default and needed is not None:
        return (
            f"its default needs a minimum compatibility version of {needed}, and that is {versions.min_compatibility}"
        )
    return f"it is {state.spec.stage} and {'on' if on else 'off'} by default at {versions.emulation}"
