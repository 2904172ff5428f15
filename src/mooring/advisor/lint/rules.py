"""The rules of lint, problems and findings. ``docs/lint.md`` has an example of each rule; a test compares.

M000 to M009 concern files and kinds, M010 to M019 errors of the API server, M020 to M029 further advice, and M030 to
M039 advice that needs a cluster (`--nodes`, `--cluster`). A number is never reused.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple


class Severity(IntEnum):
    """The severity of a finding; `str()` gives `info`, `warning` or `error`."""

    INFO = 0
    WARNING = 1
    ERROR = 2

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of lint: number, name, severity and description."""

    id: str
    name: str
    severity: Severity
    about: str


INFO, WARNING, ERROR = Severity

UNREADABLE = Rule("M001", "unreadable-file", ERROR, "A file cannot be read, is too large or is not text")
SYNTAX = Rule("M002", "syntax", ERROR, "A document is neither YAML nor JSON as Kubernetes reads it")
NOT_AN_OBJECT = Rule("M003", "not-an-object", ERROR, "A document is no object with apiVersion and kind")
UNKNOWN_KIND = Rule("M004", "unknown-kind", INFO, "A kind that Mooring does not know, such as a CRD's: skipped")
NOT_SERVED = Rule("M005", "not-served", ERROR, "A server of this version does not serve the kind")
NOT_KUBERNETES = Rule(
    "M006", "not-kubernetes", INFO, "A document with neither apiVersion nor kind, such as Helm values: skipped"
)
INTERNAL = Rule("M009", "internal", ERROR, "Mooring itself failed on a document")
WRONG_FIELD = Rule("M010", "wrong-field", ERROR, "A field is unknown, there twice, or of a wrong type")
INVALID = Rule("M011", "invalid", ERROR, "The server refuses the value of a field")
REFUSED = Rule("M012", "refused", ERROR, "The server refuses the object for a reason that is not one field's")
SERVER_WARNING = Rule("M013", "server-warning", WARNING, "The server accepts the object with a warning")
DEPRECATED = Rule("M014", "deprecated-api", WARNING, "The API version is deprecated at this version")
NOT_IN_RELEASE = Rule(
    "M015", "not-in-release", ERROR, "The release of Kubernetes does not have the field, value or API version"
)
GATE_OFF = Rule(
    "M016", "gate-off", WARNING, "The release of Kubernetes has the field behind a gate that is off by default"
)
NEEDS_MOORING = Rule(
    "M017", "needs-mooring", INFO, "No release of Kubernetes has the field or value: it needs Mooring or the bridge"
)
REMOVED_NEXT = Rule("M020", "removed-next", WARNING, "The next minor version does not have the API version")
RATCHETED = Rule(
    "M021", "only-by-ratcheting", INFO, "Refused when created, but allowed in updates of objects that use it"
)
NEVER_MATCHES = Rule("M022", "never-matches", WARNING, "A CEL expression that is true for no taint or node")
CONTRADICTION = Rule("M023", "contradiction", WARNING, "Conditions of a term that can never hold together")
MATCHES_ALL = Rule("M024", "matches-everything", WARNING, "A CEL expression that is true for all of them")
UNGUARDED = Rule("M025", "unguarded-read", WARNING, "An expression fails where something it reads is absent")
WRONG_CONSTRAINTS = Rule(
    "M026", "wrong-constraints", ERROR, "Constraints in annotations, for the bridge, are not valid"
)
NO_GATE = Rule("M027", "no-gate", WARNING, "Pods with constraints in annotations do not wait for the bridge")
NOT_A_NUMBER = Rule("M030", "not-a-number", WARNING, "Gt or Lt on a key whose values on nodes are no numbers")
NOT_A_VERSION = Rule(
    "M031", "not-a-version", WARNING, "A version operator on a key whose values on nodes are no versions"
)
FAILS_ON_NODES = Rule("M032", "fails-on-nodes", WARNING, "A CEL expression has no value on some nodes")
NO_NODE = Rule("M033", "no-node", WARNING, "A required term or nodeSelector that excludes every node")
NO_PLACE = Rule("M034", "no-place", WARNING, "Node selection and taints together leave no node for the pods")
NOT_IN_CLUSTER = Rule(
    "M035",
    "not-in-cluster",
    WARNING,
    "A namespace, PriorityClass, StorageClass or DeviceClass that the cluster does not have",
)
TOO_LARGE = Rule("M036", "too-large", WARNING, "Pods ask for more of a resource than any node has")
NO_ROOM = Rule("M037", "refused-by-namespace", WARNING, "Quotas, limits or Pod Security refuse it or its pods")
ASKS_WEBHOOK = Rule("M038", "asks-a-webhook", INFO, "A webhook of the cluster has a say, and lint does not ask it")

RULES = tuple(value for value in tuple(globals().values()) if isinstance(value, Rule))
"""All rules, in the order of their numbers."""
BY_NAME = {word: rule for rule in RULES for word in (rule.id, rule.name)}
"""The lint rules by number and by name, since users may write either."""
SKIPPED = frozenset({UNKNOWN_KIND.id, NOT_KUBERNETES.id})
"""Rules which report that a document was skipped."""


class Problem(NamedTuple):
    """A problem of an object: the rule, the path of the field as Kubernetes writes it, and the message."""

    rule: Rule
    field: str
    message: str


class Finding(NamedTuple):
    """A problem and its position. Lines and columns count from 1."""

    rule: Rule
    severity: Severity
    file: str
    line: int
    column: int
    object: str
    """The object, as `Deployment shop/web`; empty if the document is not an object."""
    field: str
    message: str


@dataclass(slots=True)
class Report:
    """All findings of a run, in the order of files and lines, and the number of checked files and objects."""

    findings: list[Finding] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    documents: int = 0

    def add(self, other: "Report") -> None:
        """Add the findings and counts of a report on other documents of the same run."""
        self.findings += other.findings
        self.documents += other.documents

    def count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)

    def worst_severity(self) -> Severity | None:
        """Return the severity of the worst finding."""
        return max((finding.severity for finding in self.findings), default=None)
