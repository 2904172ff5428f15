"""What an audit says: typed, frozen, and the same in Python, as JSON and over HTTP (`advisor.mooring.dev/v1`, `Audit`).

``auditor.py`` makes one; ``reports.py`` writes it for people and for code scanning.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec
from msgspec import structs

from mooring.base import known_gates

API_VERSION = "advisor.mooring.dev/v1"


class Effect(StrEnum):
    """What happens to an object that uses a gated feature, or to its pods; ``reports.RULES`` describes each effect."""

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


class _Result(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A struct with the habits of the API."""


class ObjectReference(_Result, frozen=True, order=True, kw_only=True):
    """An object, and where it was read."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    file: str = ""
    line: int = 0
    stored: bool = True
    """Whether a server has it; a manifest is still to be applied."""
    owner: str = ""
    """The controller that made it: `ReplicaSet web-7d4b`."""

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Finding(_Result, frozen=True, kw_only=True):
    """A use of something that versions or gates decide about, and what would happen."""

    object: ObjectReference
    field: str = ""
    """The path of the field, as errors of the API server write it."""
    value: str = ""
    feature: str
    """The feature gate; `minimumCompatibility` for what only newer servers read; `api` for versions of the API."""
    proposal: str = ""
    needs: str = ""
    effect: Effect
    breaks: bool = False
    """Whether the effect is one of `BREAKING`; set by the effect, as the proposal is by the feature."""
    message: str = ""

    def __post_init__(self) -> None:
        structs.force_setattr(self, "breaks", self.effect in BREAKING)
        structs.force_setattr(self, "proposal", self.proposal or PROPOSALS.get(self.feature, ""))


class Flags(_Result, frozen=True, kw_only=True):
    """How the components are started."""

    emulation_version: str
    min_compatibility_version: str
    feature_gates: dict[str, bool] = {}
    runtime_config: dict[str, bool] = {}

    def arguments(self) -> str:
        """As the command line has them."""
        words = [
            f"--emulation-version={self.emulation_version}",
            f"--min-compatibility-version={self.min_compatibility_version}",
        ]
        for flag, pairs in (("feature-gates", self.feature_gates), ("runtime-config", self.runtime_config)):
            if pairs:
                words.append(f"--{flag}=" + ",".join(f"{name}={str(on).lower()}" for name, on in pairs.items()))
        return " ".join(words)


class GateChange(_Result, frozen=True, kw_only=True):
    """A gate that goes on or off."""

    gate: str
    proposal: str = ""
    enabled: bool
    reason: str = ""


class Command(_Result, frozen=True, kw_only=True):
    """A command to type. Those without `ready` need a decision first, which `why` names."""

    run: str
    ready: bool = True
    why: str = ""


class Step(_Result, frozen=True, kw_only=True):
    """One thing to do, in order."""

    title: str
    because: str = ""
    """The proposal's own sentence."""
    proposal: str = ""
    commands: list[Command] = []
    rollback: str = ""
    """How the step is undone, for the steps of components."""


class Observation(_Result, frozen=True, kw_only=True):
    """One thing that a rehearsal looked at: what was foretold, and what happened."""

    object: ObjectReference
    subject: str
    """`create`, `update`, `read`, `pod`, `pods`."""
    predicted: str
    observed: str
    agrees: bool = True
    detail: str = ""


class Rehearsal(_Result, frozen=True, kw_only=True):
    """What happened on a copy."""

    objects: int
    seconds: float
    broken: list[Observation] = []
    """What was different with the new flags from what it was without them."""
    differences: list[Observation] = []
    """Where the prediction was wrong."""
    notes: list[str] = []


class Audit(_Result, frozen=True, kw_only=True):
    """The answer."""

    api_version: str = API_VERSION
    kind: str = "Audit"
    origin: str
    current: Flags
    target: Flags | None = None
    gates: list[GateChange] = []
    objects: int = 0
    findings: list[Finding] = []
    steps: list[Step] = []
    notes: list[str] = []
    unread: list[str] = []
    """Resources that may not be read: what would become of them is not known."""
    rehearsal: Rehearsal | None = None

    @property
    def breaks(self) -> int:
        """How much would break."""
        return sum(finding.breaks for finding in self.findings)

    def tree(self) -> dict[str, object]:
        """Plain dicts and lists, as JSON has them; the kind is always there."""
        plain: dict[str, object] = msgspec.to_builtins(self)
        return {"apiVersion": self.api_version, "kind": self.kind, **plain}
