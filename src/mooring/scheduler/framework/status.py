"""Outcomes of plugins as values: a code, the reasons for people, and the plugin that said it.

Plugins return a `Status`; only a defect raises. Read next: ``plugins.py``.
"""

from collections.abc import Iterable
from enum import IntEnum

import msgspec


class Code(IntEnum):
    """Kubernetes' codes, with its numbers and (as `str`) its names."""

    SUCCESS = 0
    ERROR = 1
    """Something went wrong inside; the pod is tried again."""
    UNSCHEDULABLE = 2
    """Rejected for now; preempting pods may help."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    """Rejected whatever pods leave the node."""
    WAIT = 4
    """From Permit: the pod waits until it is allowed or rejected."""
    SKIP = 5
    """The plugin does not apply to this pod; from Bind: the next plugin binds it."""
    PENDING = 6
    """The pod waits for something outside of the scheduler, and is not retried before."""

    def __str__(self) -> str:
        return _NAMES[self]


_NAMES = {code: "".join(word.capitalize() for word in code.name.split("_")) for code in Code}
_SUCCESS, _SKIP = Code.SUCCESS, Code.SKIP
"""Asked for many times for a pod; Python 3.11 takes 0.1 µs to find a member of an enumeration."""


class Status(msgspec.Struct, frozen=True):
    """What a plugin says about a pod, or about a pod on a node."""

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
        """Whether the pod is refused, as opposed to something having gone wrong."""
        return self.code in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING)

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> "Status":
        """Return the status with a plugin's name, if it has none."""
        return self if self.plugin else Status(self.code, self.reasons, plugin)


SUCCESS = Status()
SKIP = Status(Code.SKIP)


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
    """Return the first status that is no success, else success."""
    return next((status for status in statuses if not status.is_success), SUCCESS)
