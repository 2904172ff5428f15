"""Match tolerations against taints: a single pair (`tolerates`), or a pod's tolerations (`TolerationIndex`).

Used by the controllers (eviction), admission, the advisor, and by `columns`, which evaluates each distinct taint once
for the scheduler. Whatever cannot be evaluated (a gate that is off, a value that is not a number or version, an
expression that fails) does not match, is logged once per cause, and never raises.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from itertools import product
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from mooring.api.core_v1 import Taint, Toleration
from mooring.api.quoting import go_quote
from mooring.api.times import add_seconds
from mooring.base import logs
from mooring.constraints import expressions, semver
from mooring.constraints.expressions import parse_time_added
from mooring.constraints.options import ConstraintOptions

_CANONICAL = re.compile(r"0|-?[1-9][0-9]{0,18}")


def parse_canonical_int64(text: str) -> int | None:
    """Parse a signed 64-bit integer in canonical form, as `str()` would print it; otherwise return None."""
    if not _CANONICAL.fullmatch(text):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None


log = logs.get(__name__)

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"
DO_NOT_SCHEDULE = frozenset({NO_SCHEDULE, NO_EXECUTE})
"""The effects that keep new pods off a node."""

EQUAL, EXISTS = "Equal", "Exists"
_LOOKED_UP = frozenset({"", EQUAL, EXISTS})
NUMERIC = frozenset({"Lt", "Gt"})


class TaintLike(Protocol):
    """The common fields of node taints and device taints, in every API version."""

    key: str
    value: str
    effect: str
    time_added: str | None


class DeviceTolerationLike(Protocol):
    """A toleration of device taints, in any API version."""

    key: str
    operator: str
    value: str
    effect: str
    toleration_seconds: int | None


_Taint = TypeVar("_Taint", bound=TaintLike)
_Toleration = TypeVar("_Toleration", bound=DeviceTolerationLike)


def tolerates(toleration: Toleration, taint: Taint, options: ConstraintOptions) -> bool:
    """Whether `toleration` matches `taint`. The taint's value is the left operand: `Gt` requires a greater taint."""
    if toleration.expression:
        # The key is empty if there is an expression, and must not mean "every key" when the gate is off.
        return options.cel and expressions.matches_taint(toleration.expression, taint)
    return _tolerates(toleration, taint, options.numeric_tolerations, options.semver_operators)


def tolerates_device_taint(toleration: DeviceTolerationLike, taint: TaintLike, options: ConstraintOptions) -> bool:
    """Whether a device toleration (`Equal`, `Exists`, `Lt`, `Gt`) matches a device taint."""
    return _tolerates(toleration, taint, options.numeric_tolerations, False)


def _tolerates(toleration: Toleration | DeviceTolerationLike, taint: TaintLike, numbers: bool, versions: bool) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    operator = toleration.operator
    if operator in ("", EQUAL):
        return toleration.value == taint.value
    if operator == EXISTS:
        return True
    if operator in NUMERIC:
        return numbers and _compare_numbers(operator, toleration.value, taint)
    if operator in semver.OPERATORS:
        return versions and _compare_versions(operator, toleration.value, taint)
    return False


def _compare_numbers(operator: str, wanted: str, taint: TaintLike) -> bool:
    bound = parse_canonical_int64(wanted)
    value = parse_canonical_int64(taint.value)
    if value is None and logs.once(("numeric taint", taint.key, taint.value)):
        log.warning(
            "Failed to parse taint value %s as integer for numeric comparison: "
            "must be a decimal integer of 64 bits without leading zeros",
            go_quote(taint.value),
            extra={"fields": {"key": taint.key, "effect": taint.effect}},
        )
    if value is None or bound is None:
        return False
    return value > bound if operator == "Gt" else value < bound


def _compare_versions(operator: str, wanted: str, taint: TaintLike) -> bool:
    bound = semver.parse_tolerant_or_none(wanted)
    value = semver.parse_tolerant_or_none(taint.value)
    if value is None and logs.once(("semver taint", taint.key, taint.value)):
        log.error(
            "failed to parse taint value as semantic version",
            extra={"fields": {"taint": taint.value, "key": taint.key, "effect": taint.effect}},
        )
    if bound is None and logs.once(("semver toleration", wanted)):
        log.error("failed to parse toleration value as semantic version", extra={"fields": {"toleration": wanted}})
    if value is None or bound is None:
        return False
    return semver.OPERATORS[operator](value, bound)


class TolerationIndex(Generic[_Toleration]):
    """The tolerations of a pod or device request, indexed so that the first one that matches a taint is found quickly.

    `Equal` and `Exists` are looked up in a dictionary: a taint costs the same whether there are two or a thousand of
    them. Only tolerations that compare values or have an expression are evaluated one by one.
    """

    def __init__(
        self,
        tolerations: Sequence[_Toleration],
        matches: Callable[[_Toleration, Any, ConstraintOptions], bool],
        options: ConstraintOptions,
    ) -> None:
        self._tolerations = tolerations
        self._matches = matches
        self._options = options
        self._indexes: dict[tuple[str, str | None, str], int] = {}
        self._compared: list[int] = []
        for index, entry in enumerate(tolerations):
            if entry.operator in _LOOKED_UP and not getattr(entry, "expression", ""):
                value = None if entry.operator == EXISTS else entry.value
                self._indexes.setdefault((entry.key, value, entry.effect), index)
            else:
                self._compared.append(index)

    def first_match(self, taint: TaintLike) -> int | None:
        """Return the index of the first toleration that matches a taint; None if none does."""
        first = None
        for key in product((taint.key, ""), (taint.value, None), (taint.effect, "")):
            index = self._indexes.get(key)
            if index is not None and (first is None or index < first):
                first = index
        for index in self._compared:
            if first is not None and index > first:
                break
            if self._matches(self._tolerations[index], taint, self._options):
                return index
        return first

    def find_untolerated(self, taints: Iterable[_Taint], effects: frozenset[str] = DO_NOT_SCHEDULE) -> _Taint | None:
        """Return the first taint with one of `effects` that no toleration matches; None if there is none."""
        for taint in taints:
            if taint.effect in effects and self.first_match(taint) is None:
                return taint
        return None

    def find_stay(self, taint: TaintLike) -> "Stay":
        """Return how long a pod may stay with a taint, by the first toleration that matches it."""
        if taint.effect != NO_EXECUTE:
            return FOR_EVER
        index = self.first_match(taint)
        if index is None:
            return Stay(0, taint, is_tolerated=False)
        seconds = self._tolerations[index].toleration_seconds
        return FOR_EVER if seconds is None else Stay(max(seconds, 0), taint)


def index_tolerations(tolerations: Sequence[Toleration], options: ConstraintOptions) -> TolerationIndex[Toleration]:
    """Return the index of a pod's tolerations."""
    return TolerationIndex(tolerations, tolerates, options)


def index_device_tolerations(
    tolerations: Sequence[DeviceTolerationLike], options: ConstraintOptions
) -> TolerationIndex[DeviceTolerationLike]:
    """Return the index of a device request's tolerations."""
    return TolerationIndex(tolerations, tolerates_device_taint, options)


def any_tolerates(tolerations: Iterable[Toleration], taint: Taint, options: ConstraintOptions) -> bool:
    """Whether any toleration matches a single taint; use `index_tolerations` for many taints."""
    return any(tolerates(toleration, taint, options) for toleration in tolerations)


def find_untolerated(
    taints: Sequence[Taint],
    tolerations: Sequence[Toleration],
    options: ConstraintOptions,
    effects: frozenset[str] = DO_NOT_SCHEDULE,
) -> Taint | None:
    """Return the first taint with one of `effects` that no toleration matches; events name it."""
    return index_tolerations(tolerations, options).find_untolerated(taints, effects) if taints else None


def find_untolerated_device_taint(
    taints: Sequence[TaintLike], tolerations: Sequence[DeviceTolerationLike], options: ConstraintOptions
) -> TaintLike | None:
    """Return the first taint that prevents a device from being allocated."""
    return index_device_tolerations(tolerations, options).find_untolerated(taints) if taints else None


def untolerated_reason(taint: Taint) -> str:
    """Return the message about a taint that keeps a pod off a node, for events and conditions."""
    return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"


class Stay(msgspec.Struct, frozen=True):
    """The time that a pod may stay with NoExecute taints: `seconds` is None for ever, 0 for immediate eviction."""

    seconds: int | None
    taint: TaintLike | None = None
    """The taint that limits the stay."""
    is_tolerated: bool = True


FOR_EVER = Stay(None)


def permitted_stay(taints: Iterable[Taint], tolerations: Sequence[Toleration], options: ConstraintOptions) -> Stay:
    """Return the shortest stay over the NoExecute taints; for each taint its first matching toleration applies."""
    shortest = FOR_EVER
    index = index_tolerations(tolerations, options)
    for taint in taints:
        stay = index.find_stay(taint)
        if stay.seconds is not None and (shortest.seconds is None or stay.seconds < shortest.seconds):
            shortest = stay
    return shortest


def eviction_time(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
    bound_at: datetime,
    options: ConstraintOptions,
    *,
    now: datetime,
    added_at: Callable[[Taint], datetime | None] = parse_time_added,
) -> datetime | None:
    """Return when a pod that was bound at `bound_at` must leave its node; None for never.

    An untolerated NoExecute taint evicts at once (not after `now`), whatever its `timeAdded`. The countdown of a
    tolerated one starts at the later of `added_at` (None: unknown) and the binding; the first to run out decides.
    """
    index = index_tolerations(tolerations, options)
    return _earliest_end(((index.find_stay(taint), added_at(taint)) for taint in taints), bound_at, now)


def device_eviction_time(
    taints: Iterable[TaintLike],
    tolerations: Sequence[DeviceTolerationLike],
    bound_at: datetime,
    options: ConstraintOptions,
    *,
    now: datetime,
    added_at: Callable[[TaintLike], datetime | None] = parse_time_added,
) -> datetime | None:
    """Return when the taints of one allocated device evict a pod; None for never."""
    index = index_device_tolerations(tolerations, options)
    return _earliest_end(((index.find_stay(taint), added_at(taint)) for taint in taints), bound_at, now)


def _earliest_end(stays: Iterable[tuple[Stay, datetime | None]], bound_at: datetime, now: datetime) -> datetime | None:
    ends = []
    for stay, added_at in stays:
        if stay.seconds is not None:
            start = max(bound_at, added_at or bound_at)
            ends.append(add_seconds(start, stay.seconds) if stay.is_tolerated else min(start, now))
    return min(ends, default=None)
