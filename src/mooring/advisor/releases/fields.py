"""Find fields and values that the other release does not know or has disabled, by walking objects along a plan.

Status is ignored, because controllers rewrite it, except allocations of ResourceClaims. ``options.py`` builds the
plans.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from mooring.advisor.releases.options import Crossing, FieldChange, FieldNotice, WalkPlan
from mooring.advisor.releases.results import Effect, Finding
from mooring.advisor.releases.subjects import ReleaseObject
from mooring.api.quoting import go_quote

_RETRIES = "the controller tries again and again, with growing pauses"
_PLAIN = re.compile(r"[\w-]+")
_NO_CONTENT: tuple[Any, ...] = (None, "", [], {})


class FieldUse(NamedTuple):
    """A field or value that an object has and that one of the two releases treats differently."""

    path: str
    notice: FieldNotice | None
    """The difference between the releases in this field; None for a field that no release has."""
    value: Any
    is_value: bool
    """Whether the field's value makes the difference, rather than the field."""
    beside: dict[str, Any]

    @property
    def is_filled_in(self) -> bool:
        """Whether the value is the API server's default for the field."""
        match self.path.rpartition(".")[2]:
            case "maxUnavailable":
                return bool(self.value == 1)
            case "podReplacementPolicy":
                return bool(self.value == ("Failed" if "podFailurePolicy" in self.beside else "TerminatingOrFailed"))
            case "preventPodSchedulingIfMissing" | "seLinuxMount":
                return self.value is False
        return False


def check_fields(subject: ReleaseObject, crossing: Crossing) -> Iterator[Finding]:
    """Yield a finding for each field or value of an object that the two releases treat differently."""
    checker = _FieldChecker(subject, crossing)
    for use in find_uses(subject, crossing):
        finding = checker.finding_of(use)
        if finding is not None:
            yield finding


def find_uses(subject: ReleaseObject, crossing: Crossing) -> Iterator[FieldUse]:
    """Yield the fields and values that an object has and that the two releases treat differently."""
    plan = crossing.walk_plan(subject.served) if subject.served else None
    for name in subject.tree if plan else ():
        if name == "status" and subject.reference.kind != "ResourceClaim":
            continue
        if plan is not None and name not in ("apiVersion", "kind"):
            yield from _find_uses_of_field(plan, name, subject.tree, "")


def _find_uses_of_field(plan: WalkPlan, name: str, part: dict[str, Any], at: str) -> Iterator[FieldUse]:
    value = part[name]
    path = f"{at}.{name}" if at else name
    if value in _NO_CONTENT:
        return
    if plan.only_in_mooring and (name not in plan.fields or value not in plan.closed.get(name, (value,))):
        yield FieldUse(path, None, value, name in plan.fields, part)
        return
    notice = plan.notices.get(name)
    if notice is not None:
        yield FieldUse(path, notice, value, is_value=False, beside=part)
        if notice.change in (FieldChange.LOST, FieldChange.OFF):
            return  # with all that is below
    values = plan.values.get(name)
    if values is not None:
        given = value if isinstance(value, list) else [value]
        for each in given:
            found = values.get(each) if isinstance(each, str) else None
            if found is not None:
                yield FieldUse(path, found, each, is_value=True, beside=part)
    below = plan.below.get(name)
    if below is not None and name in plan.maps:
        for key, each in value.items() if isinstance(value, dict) else ():
            yield from _find_uses_below(below, each, f"{path}.{key}" if _PLAIN.fullmatch(key) else f"{path}[{key}]")
    elif below is not None:
        yield from _find_uses_below(below, value, path)


def _find_uses_below(plan: WalkPlan, value: Any, path: str) -> Iterator[FieldUse]:
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, dict):
                yield from _find_uses_below(plan, item, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name in value:
            yield from _find_uses_of_field(plan, name, value, path)


@dataclass(frozen=True, slots=True)
class _FieldChecker:
    subject: ReleaseObject
    crossing: Crossing

    def finding_of(self, use: FieldUse) -> Finding | None:
        notice = use.notice
        if notice is None:
            what = f"the value {go_quote(str(use.value))}" if use.is_value else "this field"
            text = f"no release of Kubernetes has {what}: it needs Mooring, or the bridge"
            return self._build_finding(use, Effect.NEEDS_MOORING, text)
        match notice.change:
            case FieldChange.LOST:
                return self._refused_finding(use) if use.is_value else self._lost_finding(use)
            case FieldChange.OFF:
                return self._gate_off_finding(use)
            case FieldChange.NEEDS_GATE if self.subject.reference.stored:
                both = f"{self.crossing.start} and {self.crossing.end}"
                text = f"{notice.gate} is off by default in {both}: set it there, too"
                return self._build_finding(use, Effect.NEEDS_GATE, text)
            case FieldChange.NEW if self._is_manifest_for_both_releases:
                text = f"{self.crossing.start} drops it; it takes effect from {self.crossing.end} on"
                return self._build_finding(use, Effect.COMES_ALIVE, text)
            case FieldChange.DEPRECATED:
                text = f"the field is deprecated from {notice.release} on"
                return self._build_finding(use, Effect.DEPRECATED, text)
        return None

    @property
    def _is_manifest_for_both_releases(self) -> bool:
        served = self.subject.served
        return not self.subject.reference.stored and served is not None and self.crossing.knows(served, end=False)

    def _lost_finding(self, use: FieldUse) -> Finding:
        text = "the server reads the object without it, and the next write of the object loses it for good"
        if not self.subject.reference.stored:
            text = "kubectl apply refuses it (strict decoding), other clients get a warning and lose it"
        elif made := self.subject.created_resource(use.path):
            text += f"; new {made} are made without it, those that are there stay as they are"
        elif self.subject.reference.kind == "Pod":
            text += "; the pod runs on as it was started"
        return self._lost_or_harmless(use, Effect.FIELD_LOST, f"{self.crossing.end} does not know the field", text)

    def _gate_off_finding(self, use: FieldUse) -> Finding:
        gate = use.notice.gate if use.notice else ""
        reason = f"the feature gate {gate} is off by default in {self.crossing.end}"
        if use.is_value:
            return self._refused_finding(use)
        made = self.subject.created_resource(use.path)
        if not self.subject.reference.stored:
            text = "the server drops the field silently, or refuses what is left without it"
        elif made:
            text = f"the object keeps the field, but new {made} are made without it; those that are there stay"
        elif self.subject.reference.kind == "Pod":
            text = "the pod keeps the field and runs on; another one like it is created without it"
        else:
            text = "the object keeps the field as long as it is not removed; nothing acts on it"
        return self._lost_or_harmless(use, Effect.FIELD_OFF, reason, text)

    def _lost_or_harmless(self, use: FieldUse, effect: Effect, reason: str, text: str) -> Finding:
        if self.subject.reference.stored and self.subject.is_default(use.path):
            why = f"{reason}; the server set it by default"
            return self._build_finding(use, Effect.HARMLESS, why)
        if use.is_filled_in and (self.subject.reference.stored or effect is Effect.FIELD_OFF):
            why = f"{reason}; it is what the server fills in, and what is done without it"
            return self._build_finding(use, Effect.HARMLESS, why)
        if self.subject.is_over:
            return self._build_finding(use, Effect.HARMLESS, f"{reason}; nothing is made from the object any more")
        severity = "warning" if use.path.startswith("status.") else ""
        return self._build_finding(use, effect, f"{reason}: {text}", severity)

    def _refused_finding(self, use: FieldUse) -> Finding:
        value = go_quote(str(use.value))
        reason = f"{self.crossing.end} refuses the value {value}"
        if use.notice is not None and use.notice.change is FieldChange.OFF:
            reason += f" while {use.notice.gate} is off, which is the default there"
        made, stored = self.subject.created_resource(use.path), self.subject.reference.stored
        if self.subject.is_over:
            return self._build_finding(use, Effect.HARMLESS, f"{reason}; nothing is made from the object any more")
        if made and stored and self.subject.reference.kind == "DaemonSet":
            text = "no pods are made any more, or those that are made are refused; those that are there stay"
        elif made and stored:
            text = f"new {made} are refused and {_RETRIES}; those that are there stay"
        elif stored:
            text = "the next update of the object is refused unless it takes the value away"
        else:
            text = "it cannot be created or changed so"
        return self._build_finding(use, Effect.VALUE_REFUSED, f"{reason}: {text}")

    def _build_finding(self, use: FieldUse, effect: Effect, text: str, severity: str = "") -> Finding:
        return Finding(
            object=self.subject.reference,
            field=use.path,
            value=_format_value(use.value),
            effect=effect,
            severity=severity,
            message=text,
            gate=use.notice.gate if use.notice else "",
            release=use.notice.release if use.notice else "",
        )


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(list(map(str, value))[:4])}}}"
    if isinstance(value, list):
        return f"[{len(value)}]"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
