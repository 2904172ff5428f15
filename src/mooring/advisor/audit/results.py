"""The typed result of an audit: the same in Python, as JSON and over HTTP (`advisor.mooring.dev/v1`, `Audit`).

``auditor.py`` creates it; ``reports.py`` formats it.
"""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import field, structs

from mooring.advisor.results import API_VERSION, Result
from mooring.base import known_gates


class Effect(StrEnum):
    """The effect of the target flags on an object with a gated field, or on its pods; see ``reports.RULES``."""

    UNAFFECTED = "Unaffected"
    ALREADY_OFF = "AlreadyOff"
    KEPT = "Kept"
    KEEPS_RUNNING = "KeepsRunning"
    FINISHED = "Finished"
    STILL_SCHEDULABLE = "StillSchedulable"
    ALREADY_PENDING = "AlreadyPending"
    EVICTED = "Evicted"
    STUCK_PENDING = "StuckPending"
    CREATE_REJECTED = "CreateRejected"
    FIELD_DROPPED = "FieldDropped"
    UPDATE_REJECTED = "UpdateRejected"
    NEVER_MATCHES = "NeverMatches"
    NOT_SERVED = "NotServed"
    STORED_UNREADABLE = "StoredUnreadable"


BREAKING = frozenset(
    {
        Effect.EVICTED,
        Effect.STUCK_PENDING,
        Effect.CREATE_REJECTED,
        Effect.FIELD_DROPPED,
        Effect.UPDATE_REJECTED,
        Effect.NEVER_MATCHES,
        Effect.NOT_SERVED,
        Effect.STORED_UNREADABLE,
    }
)
COMPATIBILITY = "minimumCompatibility"
API = "api"
PROPOSALS: Mapping[str, str] = {
    known_gates.COMPARISON_OPERATORS: "KEP-5471",
    known_gates.SEMVER_OPERATORS: "KEP-5721",
    known_gates.CEL: "KEP-5500",
    known_gates.LABEL_KEYS_IN_POD_AFFINITY: "KEP-3633",
    known_gates.COMPATIBILITY_VERSIONS: "KEP-4330",
    COMPATIBILITY: "KEP-4330",
    API: "KEP-4330",
}


class ObjectReference(Result, frozen=True, order=True, kw_only=True):
    """A reference to an object, and the file where it was read."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    file: str = ""
    line: int = 0
    stored: bool = True
    """Whether the object is stored in a server; false for a manifest that is still to be applied."""
    owner: str = ""
    """The controller that created it: `ReplicaSet web-7d4b`."""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Finding(Result, frozen=True, kw_only=True):
    """A gated field or API version that an object uses, and what the target flags do to the object."""

    object: ObjectReference
    field: str = ""
    """The path of the field, in the format of the API server's errors."""
    value: str = ""
    feature: str
    """The feature gate; `minimumCompatibility` for fields that only newer servers read; `api` for API versions."""
    proposal: str = ""
    needs: str = ""
    effect: Effect
    breaks: bool = False
    """Whether the effect on the object is one of `BREAKING`."""
    message: str = ""

    def __post_init__(self) -> None:
        structs.force_setattr(self, "breaks", self.effect in BREAKING)
        structs.force_setattr(self, "proposal", self.proposal or PROPOSALS.get(self.feature, ""))


class Flags(Result, frozen=True, kw_only=True):
    """The versions and feature gates with which components are started."""

    emulation_version: str
    min_compatibility_version: str
    feature_gates: dict[str, bool] = field(default_factory=dict)
    runtime_config: dict[str, bool] = field(default_factory=dict)

    def arguments(self) -> str:
        """Return the flags as command-line arguments."""
        words = [
            f"--emulation-version={self.emulation_version}",
            f"--min-compatibility-version={self.min_compatibility_version}",
        ]
        for flag, pairs in (("feature-gates", self.feature_gates), ("runtime-config", self.runtime_config)):
            if pairs:
                words.append(f"--{flag}=" + ",".join(f"{name}={str(on).lower()}" for name, on in pairs.items()))
        return " ".join(words)


class GateChange(Result, frozen=True, kw_only=True):
    """A gate that the target flags switch on or off."""

    gate: str
    proposal: str = ""
    enabled: bool
    reason: str = ""


class Command(Result, frozen=True, kw_only=True):
    """A command for the user to run. One that is not `ready` needs a decision first, which `why` names."""

    run: str
    ready: bool = True
    why: str = ""


class Step(Result, frozen=True, kw_only=True):
    """One step of the upgrade or downgrade: a description and its commands."""

    title: str
    because: str = ""
    """The sentence of the proposal (KEP) that prescribes the step."""
    proposal: str = ""
    commands: list[Command] = field(default_factory=list)
    rollback: str = ""
    """How to undo the step; for steps about components."""


class Observation(Result, frozen=True, kw_only=True):
    """One request of a rehearsal: the predicted result, and the one observed with the target flags."""

    object: ObjectReference
    subject: str
    """What was tried: `create`, `update`, `read`, `pod` or `pods`."""
    predicted: str
    observed: str
    agrees: bool = True
    detail: str = ""


class Rehearsal(Result, frozen=True, kw_only=True):
    """The results of a rehearsal on two control planes with copies of the objects."""

    objects: int
    seconds: float
    broken: list[Observation] = field(default_factory=list)
    """The observations in which the target flags gave another result than the current ones."""
    differences: list[Observation] = field(default_factory=list)
    """The observations that differ from the prediction."""
    notes: list[str] = field(default_factory=list)


class Audit(Result, frozen=True, kw_only=True):
    """The result of an audit."""

    api_version: str = API_VERSION
    kind: str = "Audit"
    origin: str
    current: Flags
    target: Flags | None = None
    gates: list[GateChange] = field(default_factory=list)
    objects: int = 0
    findings: list[Finding] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """Resources that the user may not read, so that effects on them are unknown."""
    rehearsal: Rehearsal | None = None

    @property
    def breaks(self) -> int:
        """Return the number of findings whose effect breaks the object or its pods."""
        return sum(finding.breaks for finding in self.findings)
