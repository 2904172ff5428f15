"""Compare two releases once: the differences as plans for walking objects. Only this module reads versions and gates.

A `Plan` lists the fields and values of a definition that differ, and the fields with differences below; other parts of
an object are never visited.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from msgspec.structs import replace

from mooring.admission import options as admission_options
from mooring.admission.options import AdmissionOptions
from mooring.advisor.audit.options import Question
from mooring.advisor.lint.removed_apis import removal_of
from mooring.api.history import Field, History, Served, history
from mooring.base import component, gate_history, known_gates
from mooring.base.component import Component
from mooring.base.gate_history import FIRST, LAST
from mooring.base.gates import FeatureGates
from mooring.base.version import BINARY, ComponentVersions, Version, VersionError

_KUBELET_SKEW_OF_THREE = Version(1, 28)
_NEVER = Version(0, 0)
_EMULATION_FLAGS = Version(1, 31)
_COMPATIBILITY_FLAG = Version(1, 35)
_PROPOSED = frozenset({"core.v1.Toleration", "core.v1.NodeSelectorTerm", "core.v1.NodeSelectorRequirement"})
"""Definitions to which Mooring adds fields and values of proposals (KEPs)."""
_EMULATES_BACK = 3
"""How many releases back a kube-apiserver can emulate."""


class CrossingError(ValueError):
    """The two releases cannot be compared; the message says why."""


class FieldChange(Enum):
    """The way in which the target release treats a field or value differently from the current one."""

    LOST = auto()
    """The target release does not know the field or value."""
    OFF = auto()
    """The field's feature gate is off in the target release."""
    NEEDS_GATE = auto()
    """The field's feature gate is off in both releases."""
    NEW = auto()
    """Only the target release knows the field or value."""
    DEPRECATED = auto()


@dataclass(frozen=True, slots=True)
class FieldNotice:
    """A difference between the releases in a field or value, with its gate and the release that introduces it."""

    change: FieldChange
    gate: str = ""
    release: str = ""


@dataclass(slots=True)
class WalkPlan:
    """The fields of an API type in which two releases differ, to visit when an object is audited."""

    notices: dict[str, FieldNotice] = field(default_factory=dict)
    values: dict[str, dict[str, FieldNotice]] = field(default_factory=dict)
    """For fields with a closed set of values, the values that differ between the releases."""
    only_in_mooring: bool = False
    """Whether Mooring adds fields or values to this type that no Kubernetes release has."""
    fields: frozenset[str] = frozenset()
    """If `only_in_mooring`, the fields that any Kubernetes release has."""
    closed: dict[str, frozenset[str]] = field(default_factory=dict)
    """If `only_in_mooring`, the values that any Kubernetes release has, by field."""
    below: "dict[str, WalkPlan]" = field(default_factory=dict)
    """Fields of the type whose own fields differ between the releases."""
    maps: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Crossing:
    """A change from one Kubernetes release to another, and their differences in API versions, fields and gates."""

    start: Version
    end: Version
    gates: Mapping[str, bool] = field(default_factory=dict)
    """Gates that the user sets, in both releases if they exist there."""
    _plans: dict[str, WalkPlan] = field(default_factory=dict)

    @classmethod
    def between(cls, start: str, end: str, gates: Mapping[str, bool] | None = None) -> "Crossing":
        """Return the change from release `start` to `end`; raise `CrossingError` for unknown releases."""
        try:
            versions = Version.parse(start), Version.parse(end)
        except VersionError as error:
            raise CrossingError(str(error)) from error
        for flag, version in zip(("--from-version", "--to-version"), versions, strict=True):
            if not FIRST <= version <= LAST:
                raise CrossingError(f"{flag}={version} is out of range: the history knows {FIRST} to {LAST}")
        unknown = [name for name in gates or () if name not in gate_history.kubernetes_gates()]
        if unknown:
            raise CrossingError(f"no release of Kubernetes from {FIRST} to {LAST} has a feature gate {unknown[0]}")
        return cls(*versions, gates or {})

    @property
    def goes_up(self) -> bool:
        return self.start < self.end

    @property
    def releases(self) -> list[str]:
        """Return the releases after the current one up to the target, in the order of the change."""
        step = 1 if self.goes_up else -1
        return [f"1.{minor}" for minor in range(self.start.minor + step, self.end.minor + step, step)]

    @property
    def history(self) -> History:
        return history()

    def knows(self, served: Served, *, end: bool) -> bool:
        """Return whether the current release, or with `end` the target release, has an API version, enabled or not."""
        return served.releases.has(self.end if end else self.start)

    def serves(self, served: Served, *, end: bool) -> bool:
        """Return whether the current release, or with `end` the target release, serves an API version by default."""
        return served.by_default(self.end if end else self.start)

    def has_subresource(self, served: Served, name: str, *, end: bool) -> bool:
        version = self.end if end else self.start
        return served.releases.has(version) and name in served.subresources and served.subresources[name].has(version)

    def removal_of(self, api_version: str, kind: str) -> tuple[str, str] | None:
        """Return the release up to the target that removed a kind, and the replacement; None if none did."""
        found = removal_of(api_version, kind)
        return None if found is None or Version.parse(found.release) > self.end else (found.release, found.replacement)

    def is_newly_deprecated(self, served: Served) -> bool:
        """Return whether an API version is deprecated in the target release, and was not in the current one."""
        return bool(served.deprecated) and self.begins(served.deprecated)

    def begins(self, release: str) -> bool:
        """Return whether a change introduced in a release takes effect after the current one, up to the target."""
        return self.start < Version.parse(release) and self.has_begun(release)

    def has_begun(self, release: str) -> bool:
        """Return whether a change introduced by a release is in effect in the target release."""
        return Version.parse(release) <= self.end

    def kubelet_skew(self, text: str) -> str:
        """Return why a kubelet of this version does not work with an API server of the target; empty if it does."""
        try:
            kubelet = Version.parse(re.split("[-+]", text, maxsplit=1)[0])
        except VersionError:
            return ""
        oldest = self.end.minus(3 if self.end >= _KUBELET_SKEW_OF_THREE else 2)
        if kubelet > self.end:
            return f"a kubelet must not be newer than the API server ({self.end}): move it to {self.end} or older first"
        if kubelet < oldest:
            return f"an API server of {self.end} supports kubelets from {oldest} on: upgrade it first"
        return ""

    def client_skew(self, name: str, text: str) -> str:
        """Return why a client's version is unsupported (kubectl too far away, component newer); empty if it is not."""
        version = Version.parse(text)
        if name == "kubectl":
            if abs(version.minor - self.end.minor) > 1:
                return f"kubectl {version} is more than one release away from {self.end}"
            return ""
        if name == "kubelet":
            return self.kubelet_skew(text)
        if name.startswith("kube-") and version > self.end:
            return f"{name} {version} must not be newer than the API server ({self.end})"
        return ""

    @property
    def can_emulate(self) -> bool:
        """Return whether a kube-apiserver of the newer release can emulate the older one."""
        newer, older = max(self.start, self.end), min(self.start, self.end)
        return newer >= _EMULATION_FLAGS and older >= _EMULATION_FLAGS and newer.minor - older.minor <= _EMULATES_BACK

    def walk_plan(self, served: Served) -> WalkPlan | None:
        """Return the fields in which two releases differ for a resource; None if none differ or the target lacks it."""
        if not self._plans:
            self._plans.update(_PlanBuilder(self).build_plans())
        return self._plans.get(served.definition) if served.releases.has(self.end) else None

    def is_on(self, gates: tuple[str, ...], version: Version) -> bool:
        """Return whether one of the feature gates is on in a release; True if no gate is given."""
        return not gates or any(self._is_gate_on_in(gate, version) for gate in gates)

    def _is_gate_on_in(self, name: str, version: Version) -> bool:
        if name in self.gates and gate_history.has_gate(name, version):
            return self.gates[name]
        return gate_history.is_on_by_default(name, version)

    def is_gate_on(self, gate: str, *, end: bool) -> bool:
        """Return whether a gate is on in the current release or, with `end`, in the target release."""
        return self._is_gate_on_in(gate, self.end if end else self.start)

    def build_question(self) -> Question:
        """Return the current and target flags with which `mooring audit` compares the same releases."""
        return Question(self.component_of(self.start), self.component_of(self.end))

    def component_of(self, version: Version) -> Component:
        """Return the component flags with which Mooring emulates a release, its own features being off."""
        found = component.resolve(emulation=str(version), min_compatibility=str(version))
        states = {
            name: replace(state, enabled=state.enabled and name not in known_gates.NOT_ON_IN_KUBERNETES)
            if name not in self.gates
            else replace(state, enabled=self.gates[name])
            for name, state in found.gates.states.items()
        }
        return Component(found.versions, FeatureGates(states))

    def expression_options(self, *, end: bool) -> AdmissionOptions:
        """Return the admission options to check CEL expressions by a release's libraries, without checks of fields."""
        version = self.end if end else self.start
        versions = ComponentVersions(BINARY, BINARY, version)
        found = admission_options.for_component(Component(versions, component.resolve().gates))
        return replace(found, release_fields=None)


def emulation_flags(binary: str) -> list[str]:
    """Return the command-line flags with which a kube-apiserver emulates another release."""
    flags = ["emulated-version", "min-compatibility-version"]
    return flags if Version.parse(binary) >= _COMPATIBILITY_FLAG else flags[:1]


def _renamed_types(known: History) -> Iterator[tuple[str, Version]]:
    ages = {
        name: min(each.releases.since or FIRST for each in fields.values())
        for name, fields in known.definitions.items()
        if fields
    }
    for fields in known.definitions.values():
        for each in fields.values():
            age = ages.get(each.holds, FIRST)
            if age > max(each.releases.since or FIRST, FIRST):
                yield each.holds, age


class _PlanBuilder:
    def __init__(self, crossing: Crossing) -> None:
        self._crossing = crossing
        self._history = history()
        self._renamed_types = dict(_renamed_types(self._history))

    def build_plans(self) -> dict[str, WalkPlan]:
        """Return, by type name, the differing fields of every API type that differs itself or in its fields' types."""
        own = {name: self._plan_type(name, fields) for name, fields in self._history.definitions.items()}
        wanted = {name for name, plan in own.items() if plan.notices or plan.values or plan.only_in_mooring}
        holders: dict[str, set[str]] = defaultdict(set)
        for name, fields in self._history.definitions.items():
            for each in fields.values():
                holders[each.holds].add(name)
        pending = list(wanted)
        while pending:
            for holder in holders[pending.pop()] - wanted:
                wanted.add(holder)
                pending.append(holder)
        for name in wanted:
            fields = self._history.definitions[name]
            own[name].below = {each.name: own[each.holds] for each in fields.values() if each.holds in wanted}
            own[name].maps = frozenset(each.name for each in fields.values() if each.type.startswith("{}"))
        return {name: own[name] for name in wanted}

    def _plan_type(self, name: str, fields: Mapping[str, Field]) -> WalkPlan:
        plan = WalkPlan()
        if name in _PROPOSED:
            plan.only_in_mooring, plan.fields = True, frozenset(fields)
            enums = {each.name: self._history.enums.get(each.holds, {}) for each in fields.values()}
            plan.closed = {field: frozenset(values) for field, values in enums.items() if values}
        for each in fields.values():
            notice = self._notice_for(name, each)
            if notice is not None:
                plan.notices[each.name] = notice
            values = self._history.enums.get(each.holds)
            if values is not None and not each.type.startswith("{}"):
                self._add_values(plan, each)
        return plan

    def _add_values(self, plan: WalkPlan, of: Field) -> None:
        start, end = self._crossing.start, self._crossing.end
        values = self._history.enums[of.holds]
        if not any(value.releases.has(end) for value in values.values()):
            return  # the type is younger than the field: nothing is known of its values then
        found = {}
        for name, value in values.items():
            change = self._classify_change(value.releases.has(start), value.releases.has(end), value.gates)
            if change is not None:
                since = value.releases.since if not self._crossing.goes_up else value.releases.until
                found[name] = FieldNotice(change, " or ".join(value.gates), str(since or ""))
        if found:
            plan.values[of.name] = found

    def _notice_for(self, definition: str, of: Field) -> FieldNotice | None:
        start, end = self._crossing.start, self._crossing.end
        change = self._classify_change(of.releases.has(start), of.releases.has(end), of.gates)
        if change is not None and of.releases.since != self._renamed_types.get(definition, _NEVER):
            edge = of.releases.until if self._crossing.goes_up and change is FieldChange.LOST else of.releases.since
            return FieldNotice(change, " or ".join(of.gates), str(edge or ""))
        if of.deprecated.spans and of.deprecated.has(end) and not of.deprecated.has(start):
            return FieldNotice(FieldChange.DEPRECATED, release=str(of.deprecated.since or ""))
        return None

    def _classify_change(self, here: bool, there: bool, gates: tuple[str, ...]) -> FieldChange | None:
        crossing = self._crossing
        on_here = here and crossing.is_on(gates, crossing.start)
        on_there = there and crossing.is_on(gates, crossing.end)
        if not there:
            return FieldChange.LOST
        if on_here and not on_there:
            return FieldChange.OFF
        if not on_here and not on_there:
            return FieldChange.NEEDS_GATE
        return FieldChange.NEW if not here or not on_here else None
