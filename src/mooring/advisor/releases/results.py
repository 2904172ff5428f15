"""The typed result of an audit of two releases (`ReleaseAudit`): ``auditor.py`` creates, ``reports.py`` formats it."""

from enum import StrEnum
from typing import Any

import msgspec
from msgspec import field, structs

from mooring.advisor.audit.results import ObjectReference, Rehearsal, Step
from mooring.advisor.lint.rules import Rule, Severity
from mooring.advisor.results import API_VERSION, Result


class Effect(StrEnum):
    """The effect of the change of release on an object, or on objects created from it."""

    NOT_SERVED = "NotServed"
    UNREACHABLE = "Unreachable"
    UNREADABLE = "Unreadable"
    FIELD_LOST = "FieldLost"
    FIELD_OFF = "FieldOff"
    VALUE_REFUSED = "ValueRefused"
    REFUSED = "Refused"
    RULE_REFUSED = "RuleRefused"
    SKEW = "Skew"
    STUCK = "StuckOrEvicted"
    RIGHTS_TO_NOTHING = "RightsToNothing"
    IN_THE_WAY = "InTheWay"
    MIGRATE_FIRST = "MigrateFirst"
    NEEDS_GATE = "NeedsGate"
    NEEDS_MOORING = "NeedsMooring"
    DEPRECATED = "Deprecated"
    CLIENT = "Client"
    RIGHTS_MISSING = "RightsMissing"
    COMES_ALIVE = "ComesAlive"
    HARMLESS = "Harmless"


_ERROR, _WARNING, _INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
RULES: dict[Effect, Rule] = {
    Effect.NOT_SERVED: Rule("R001", "not-served", _ERROR, "The API version is not served there"),
    Effect.UNREACHABLE: Rule("R002", "unreachable", _ERROR, "No version of the kind is served there"),
    Effect.UNREADABLE: Rule("R003", "unreadable", _ERROR, "It is stored in a version that cannot be read there"),
    Effect.FIELD_LOST: Rule("R004", "field-lost", _ERROR, "A field is not known there, and is lost silently"),
    Effect.FIELD_OFF: Rule("R005", "field-off", _ERROR, "A field is behind a gate that is off there"),
    Effect.VALUE_REFUSED: Rule("R006", "value-refused", _ERROR, "A value is refused there"),
    Effect.REFUSED: Rule("R007", "refused", _ERROR, "The server there refuses it, or what is made from it"),
    Effect.RULE_REFUSED: Rule("R008", "rule-refused", _ERROR, "A rule in CEL uses what is not there"),
    Effect.SKEW: Rule("R009", "skew", _ERROR, "A kubelet is too new or too old for the API server"),
    Effect.STUCK: Rule("R010", "stuck-or-evicted", _ERROR, "A pod finds no node any more, or is evicted"),
    Effect.RIGHTS_TO_NOTHING: Rule("R020", "rights-to-nothing", _WARNING, "An RBAC rule names what is not there"),
    Effect.IN_THE_WAY: Rule("R021", "in-the-way", _WARNING, "A webhook or APIService can stop the change"),
    Effect.MIGRATE_FIRST: Rule("R022", "migrate-first", _WARNING, "Objects may be stored in an old version"),
    Effect.NEEDS_GATE: Rule("R023", "needs-gate", _WARNING, "It uses what is off by default in both releases"),
    Effect.NEEDS_MOORING: Rule("R024", "needs-mooring", _WARNING, "No release of Kubernetes has the field or value"),
    Effect.DEPRECATED: Rule("R025", "deprecated", _WARNING, "It is deprecated there"),
    Effect.CLIENT: Rule("R026", "client", _WARNING, "A client asks for what is not there, or is too old"),
    Effect.RIGHTS_MISSING: Rule("R027", "rights-missing", _WARNING, "An RBAC rule is not enough there"),
    Effect.COMES_ALIVE: Rule("R040", "comes-alive", _INFO, "A field is known there, and not here: it takes effect"),
    Effect.HARMLESS: Rule("R041", "harmless", _INFO, "It is lost, and nothing follows from it"),
}
"""By effect on an object, its lint rule. ``docs/upgrade.md`` lists them (a test compares); numbers are never reused."""


_PREDICTED_BY = {
    "changed": {Effect.FIELD_LOST, Effect.FIELD_OFF, Effect.HARMLESS},
    "rejected": {Effect.FIELD_LOST, Effect.FIELD_OFF, Effect.VALUE_REFUSED, Effect.REFUSED, Effect.RULE_REFUSED},
    "not served": {Effect.NOT_SERVED, Effect.UNREACHABLE},
    "evicted": {Effect.STUCK},
    "pending": {Effect.STUCK},
}
"""For each observation of a rehearsal, the effects that predict it."""


class Finding(Result, frozen=True, kw_only=True):
    """The effect of the change of release on one object, with the field and the message."""

    object: ObjectReference
    field: str = ""
    value: str = ""
    effect: Effect
    severity: str = ""
    """`error`, `warning` or `info`: that of the rule, or a lower one for this finding."""
    message: str
    gate: str = ""
    release: str = ""
    """The release in which it takes effect."""

    @property
    def rule(self) -> Rule:
        return RULES[self.effect]

    @property
    def level(self) -> Severity:
        return Severity[self.severity.upper()] if self.severity else self.rule.severity

    @property
    def key(self) -> str:
        """Return a key of the finding for baseline files, which is the same in every run."""
        ref = self.object
        return "|".join([self.rule.id, ref.api_version, ref.kind, ref.namespace, ref.name, self.field, self.value])


class ReleaseAudit(Result, frozen=True, kw_only=True):
    """The result of auditing a cluster's objects for the change from one Kubernetes release to another."""

    api_version: str = API_VERSION
    kind: str = "ReleaseAudit"
    origin: str
    from_version: str
    to_version: str
    objects: int = 0
    findings: list[Finding] = field(default_factory=list)
    known: int = 0
    """The number of findings that are omitted because the baseline has them."""
    steps: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """Resources that the user may not read, so that effects on them are unknown."""
    rehearsal: Rehearsal | None = None

    def with_rehearsal(self, rehearsal: Rehearsal) -> "ReleaseAudit":
        """Return the audit with the results of a rehearsal, except those that a finding predicts."""
        predicted = {(finding.object, finding.effect) for finding in self.findings}
        differences = [
            each
            for each in rehearsal.differences
            if not any((each.object, effect) in predicted for effect in _PREDICTED_BY.get(each.observed, ()))
        ]
        return structs.replace(self, rehearsal=structs.replace(rehearsal, differences=differences))

    def worst_severity(self) -> Severity | None:
        return max((finding.level for finding in self.findings), default=None)

    def tree(self) -> dict[str, Any]:
        """Return the audit as in JSON: plain dicts and lists; every finding has its rule and severity."""
        found = [
            {"rule": each.rule.id, "severity": "", **msgspec.to_builtins(each)} | {"severity": str(each.level)}
            for each in self.findings
        ]
        return super().tree() | {"findings": found}
