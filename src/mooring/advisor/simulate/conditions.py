"""Conditions on a result, for CI: `pending`, `evicted>3`, `utilisation>90%`, `cpu>=85%`."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from operator import ge, gt

from mooring.advisor.simulate.results import Simulation

NUMBERS = ("pending", "newly-pending", "preempted", "evicted", "rejected", "blocked")
_ANY_RESOURCE = ("utilisation", "utilization")
_FORM = re.compile(r"([A-Za-z0-9./_-]+?)(?:(>=|>)([0-9]+(?:\.[0-9]+)?)(%?))?")


class ConditionError(ValueError):
    """A malformed condition; the message lists the valid forms."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that a result must not meet."""

    text: str
    subject: str
    compare: Callable[[float, float], bool]
    limit: float

    def violation(self, result: Simulation) -> str:
        """Return the violating numbers; empty if the condition is not met."""
        if self.subject in NUMBERS:
            number = getattr(result.counts, self.subject.replace("-", "_"))
            return f"{number} {self.subject}" if self.compare(number, self.limit) else ""
        parts = {use.resource: use.fraction for use in result.utilisation.after}
        if self.subject not in _ANY_RESOURCE:
            parts = {self.subject: parts.get(self.subject, 0.0)}
        over = [f"{name} at {part:.1%}" for name, part in parts.items() if self.compare(part, self.limit)]
        return ", ".join(over)


def parse(text: str) -> Condition:
    """Parse a condition. Raise ConditionError."""
    found = _FORM.fullmatch(text.replace(" ", ""))
    if found is None:
        raise ConditionError(f'"{text}" is no condition; write pending, evicted>3 or utilisation>90%')
    subject, operator, number, percent = found.groups()
    if subject in NUMBERS:
        if percent:
            raise ConditionError(f'"{text}": {subject} is a number of pods, not a part')
        return Condition(text, subject, ge if operator == ">=" else gt, float(number or 0))
    if operator is None:
        known = ", ".join((*NUMBERS, "utilisation>N%", "RESOURCE>N%"))
        raise ConditionError(f'"{text}" is no condition; there are {known}')
    if not percent:
        raise ConditionError(f'"{text}": utilisation is in percent, as in {subject}{operator}90%')
    return Condition(text, subject, ge if operator == ">=" else gt, float(number) / 100)
