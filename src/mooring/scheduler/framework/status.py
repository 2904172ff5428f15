"""Results of plugins as values: a code, the reasons shown to users, and the plugin.

Plugins return a `Status`; only a defect raises. Read next: ``plugins.py``.
"""

from collections.abc import Iterable
from enum import IntEnum

import msgspec


class Code(IntEnum):
    """Kubernetes' codes, with its numbers and (as `str`) its names."""

    SUCCESS = 0
    ERROR = 1
    """An internal error; the pod is retried."""
    UNSCHEDULABLE = 2
    """Rejected for now; preempting pods may help."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    """Rejected even if all pods left the node, so preemption does not help."""
    WAIT = 4
    """From Permit: the pod waits until it is allowed or rejected."""
    SKIP = 5
    """The plugin does not apply to this pod; from Bind: the next plugin binds it."""
    PENDING = 6
    """The pod waits for something outside the scheduler, and is not retried before it happens."""

    def __str__(self) -> str:
        return _NAMES[self]


_NAMES = {code: "".join(word.capitalize() for word in code.name.split("_")) for code in Code}
_SUCCESS, _SKIP = Code.SUCCESS, Code.SKIP
"""Codes that are compared often for each pod, as constants: enumeration lookups take 0.1 µs in Python 3.11."""


class Status(msgspec.Struct, frozen=True):
    """The result of a plugin for a pod, or for a pod on one node."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def is_success(self) -> bool:
        return self.code is _SUCCESS

    @property
    def is_skip(self) -> bool:
        return self.code is _SKIP

    @property
    def is_rejected(self) -> bool:
        """Return whether the pod was rejected, as opposed to an internal error."""
        return self.code in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING)

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> "Status":
        """Return the status with the name of the plugin that returned it, unless it has one already."""
        return self if self.plugin else Status(self.code, self.reasons, plugin)


SUCCESS = Status()
SKIP = Status(Code.SKIP)


def is_skip(found: object) -> bool:
    """Return whether a plugin's result, of any type, is a status with the code SKIP."""
    return found is SKIP or (isinstance(found, Status) and found.is_skip)


def unschedulable(*reasons: str) -> Status:
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def pending(*reasons: str) -> Status:
    return Status(Code.PENDING, reasons)


def error(*reasons: str) -> Status:
    return Status(Code.ERROR, reasons)


def wait(*reasons: str) -> Status:
    return Status(Code.WAIT, reasons)


def first_rejection(statuses: Iterable[Status]) -> Status:
    """Return the first status that is not a success (a rejection or an error); success if there is none."""
    return next((status for status in statuses if not status.is_success), SUCCESS)
