"""Tolerations against taints: one toleration and one taint at a time.

Called by the controllers (eviction), the API server's admission, the advisor, and by `columns`, which asks once per
distinct taint on behalf of the scheduler. Everything that cannot be judged (a gate that is off, a value that is no
number or version, an expression that fails) is no match, is logged once per cause, and never raises.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol, TypeVar

import msgspec

from mooring.api.core_v1 import Taint, Toleration
from mooring.api.quoting import quoted
from mooring.base import logs
from mooring.constraints import expressions, semver
from mooring.constraints.integers import canonical_int64
from mooring.constraints.options import ConstraintOptions
from mooring.constraints.time_added import time_added

log = logs.get(__name__)

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"
DO_NOT_SCHEDULE = frozenset({NO_SCHEDULE, NO_EXECUTE})
"""The effects that keep a new pod off a node."""

EQUAL, EXISTS = "Equal", "Exists"
NUMERIC = frozenset({"Lt", "Gt"})


class TaintLike(Protocol):
    """What taints of nodes and of devices, in every version of their API, have in common."""

    key: str
    value: str
    effect: str
    time_added: str | None


class DeviceTolerationLike(Protocol):
    """A toleration of device taints, in any version of its API."""

    key: str
    operator: str
    value: str
    effect: str
    toleration_seconds: int | None


def tolerates(toleration: Toleration, taint: Taint, options: ConstraintOptions) -> bool:
    """Whether `toleration` matches `taint`. The taint's value is on the left: `Gt` asks for a greater taint."""
    if toleration.expression:
        # The key is empty beside an expression, and must not be read as "every key" when the gate is off.
        return options.cel and expressions.matches_taint(toleration.expression, taint)
    return _tolerates(toleration, taint, options.numeric_tolerations, options.semver_operators)


def tolerates_device_taint(toleration: DeviceTolerationLike, taint: TaintLike, options: ConstraintOptions) -> bool:
    """The same for devices, whose tolerations know `Equal`, `Exists`, `Lt` and `Gt` and nothing else."""
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
    bound = canonical_int64(wanted)
    value = canonical_int64(taint.value)
    if value is None and logs.once(("numeric taint", taint.key, taint.value)):
        log.warning(
            "Failed to parse taint value %s as integer for numeric comparison: "
            "must be a decimal integer of 64 bits without leading zeros",
            quoted(taint.value),
            extra={"fields": {"key": taint.key, "effect": taint.effect}},
        )
    if value is None or bound is None:
        return False
    return value > bound if operator == "Gt" else value < bound


def _compare_versions(operator: str, wanted: str, taint: TaintLike) -> bool:
    bound = semver.tolerant_or_none(wanted)
    value = semver.tolerant_or_none(taint.value)
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


def any_tolerates(tolerations: Iterable[Toleration], taint: Taint, options: ConstraintOptions) -> bool:
    return any(tolerates(toleration, taint, options) for toleration in tolerations)


def find_untolerated(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
    options: ConstraintOptions,
    effects: frozenset[str] = DO_NOT_SCHEDULE,
) -> Taint | None:
    """The first taint with one of `effects` that no toleration matches: the one that events name."""
    for taint in taints:
        if taint.effect in effects and not any_tolerates(tolerations, taint, options):
            return taint
    return None


def find_untolerated_device_taint(
    taints: Iterable[TaintLike], tolerations: Sequence[DeviceTolerationLike], options: ConstraintOptions
) -> TaintLike | None:
    """The first taint that keeps a device from being allocated."""
    for taint in taints:
        if taint.effect in DO_NOT_SCHEDULE and not any(
            tolerates_device_taint(toleration, taint, options) for toleration in tolerations
        ):
            return taint
    return None


def untolerated_reason(taint: Taint) -> str:
    """The words for a taint that keeps a pod off a node, in events and conditions."""
    return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"


def count_untolerated_preferences(
    taints: Iterable[Taint], tolerations: Sequence[Toleration], options: ConstraintOptions
) -> int:
    """How many PreferNoSchedule taints no toleration matches: fewer make a better node."""
    return sum(
        taint.effect == PREFER_NO_SCHEDULE and not any_tolerates(tolerations, taint, options) for taint in taints
    )


class Stay(msgspec.Struct, frozen=True):
    """How long a pod may stay beside its NoExecute taints: `seconds` is None for ever, 0 when it must go at once."""

    seconds: int | None
    taint: TaintLike | None = None
    """The taint that limits the stay."""


FOR_EVER = Stay(None)


def permitted_stay(taints: Iterable[Taint], tolerations: Sequence[Toleration], options: ConstraintOptions) -> Stay:
    """The smallest period over the NoExecute taints; for each taint its first matching toleration counts."""
    shortest = FOR_EVER
    for taint in taints:
        stay = _stay_beside(taint, tolerations, options, tolerates)
        if stay.seconds is not None and (shortest.seconds is None or stay.seconds < shortest.seconds):
            shortest = stay
    return shortest


def eviction_time(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
    bound_at: datetime,
    options: ConstraintOptions,
    *,
    seen_at: Callable[[Taint], datetime | None] = lambda _: None,
) -> datetime | None:
    """When a pod that was bound at `bound_at` has to leave its node; None for never.

    Each taint's countdown starts at the later of its `timeAdded` and the binding, and the first to run out decides. For
    an untolerated taint that moment is not in the future: at once. `seen_at` tells since when a taint without a time is
    known.
    """
    return min(_ends(taints, tolerations, bound_at, options, tolerates, seen_at=seen_at), default=None)


def device_eviction_time(
    taints: Iterable[TaintLike],
    tolerations: Sequence[DeviceTolerationLike],
    bound_at: datetime,
    options: ConstraintOptions,
) -> datetime | None:
    """The same for the taints of one allocated device."""
    return min(_ends(taints, tolerations, bound_at, options, tolerates_device_taint), default=None)


_T = TypeVar("_T", Taint, TaintLike)
_S = TypeVar("_S", Toleration, DeviceTolerationLike)
_Matches = Callable[[_S, _T, ConstraintOptions], bool]


def _ends(
    taints: Iterable[_T],
    tolerations: Sequence[_S],
    bound_at: datetime,
    options: ConstraintOptions,
    matches: _Matches[_S, _T],
    *,
    seen_at: Callable[[_T], datetime | None] = lambda _: None,
) -> Iterator[datetime]:
    for taint in taints:
        stay = _stay_beside(taint, tolerations, options, matches)
        if stay.seconds is not None:
            start = max(bound_at, time_added(taint) or seen_at(taint) or bound_at)
            try:
                yield start + timedelta(seconds=stay.seconds)
            except OverflowError:  # later than a datetime can say
                yield datetime.max.replace(tzinfo=UTC)


def _stay_beside(taint: _T, tolerations: Sequence[_S], options: ConstraintOptions, matches: _Matches[_S, _T]) -> Stay:
    if taint.effect != NO_EXECUTE:
        return FOR_EVER
    for toleration in tolerations:
        if matches(toleration, taint, options):
            seconds = toleration.toleration_seconds
            return FOR_EVER if seconds is None else Stay(max(seconds, 0), taint)
    return Stay(0, taint)
