"""The steps of a planned expression: functions that take a `Frame`, return a value and charge its cost.

interpreter.py composes them. As in cel-go an error is a value, a `Failure`: raising and catching exceptions in every
iteration of a hostile loop would be far too slow. Only reaching the cost limit raises. The limit is checked at each
loop iteration, before calls whose cost depends on their arguments, and at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from . import costs, standard
from .dispatch import Counter, as_error
from .errors import CostLimitExceeded, EvaluationError
from .fields import ABSENT, Accessor
from .library import Overload
from .standard import index_any
from .values import NONE, Optional, Value, from_key, is_of, no_such_overload


class Frame:
    """The state of one evaluation: its inputs, local variables and cost so far."""

    __slots__ = ("bindings", "cost", "limit", "slots")

    def __init__(self, bindings: Mapping[str, Value], slots: int, limit: int) -> None:
        self.bindings = bindings
        self.slots: list[Value] = [None] * slots
        self.cost = 0
        self.limit = limit

    def charge(self, cost: int) -> bool:
        """Add to the cost and check the limit. Always true, so that generated code can use `charge(1) and value`."""
        self.cost += cost
        if self.cost > self.limit:
            raise CostLimitExceeded
        return True


class Failure(msgspec.Struct, eq=False):
    """An evaluation error that steps pass on as a value instead of raising it."""

    error: EvaluationError


def to_failure(problem: Exception) -> Failure:
    return Failure(as_error(problem))


def no_overload(value: Value) -> Failure:
    """Return the failure for a value that is not a boolean: itself if it is one, or a new one."""
    return value if value.__class__ is Failure else Failure(no_such_overload())


Run = Callable[[Frame], Value]
NO_FRAME: Final = Frame({}, 0, costs.MAX)
"""For constants, which read nothing."""


class Constant(msgspec.Struct):
    """A planned constant, whose evaluation costs nothing."""

    value: Value

    def run(self, _frame: Frame) -> Value:
        return self.value


class Attribute(msgspec.Struct):
    """A value with a path. `walk` returns the value at its end, or `ABSENT` after an absent optional step."""

    walk: Run
    own_cost: int = costs.IDENT
    optional: bool = False

    @property
    def resolve(self) -> Run:
        """Return a function that evaluates it without the cost of the attribute itself."""
        if not self.optional:
            return self.walk
        walk = self.walk

        def resolve(frame: Frame) -> Value:
            value = walk(frame)
            if value is ABSENT:
                return NONE
            return value if value.__class__ is Failure else Optional.of(value)

        return resolve

    @property
    def run(self) -> Run:
        resolve, own_cost = self.resolve, self.own_cost

        def run(frame: Frame) -> Value:
            frame.cost += own_cost
            return resolve(frame)

        return run if own_cost else resolve


class Step(msgspec.Struct):
    """A planned expression that is no constant and no attribute; `run` charges its own cost."""

    run: Run


Plan = Constant | Attribute | Step


# Variables


def local(slot: int) -> Run:
    return lambda frame: frame.slots[slot]


def variable(name: str, adapt: Callable[[Value], Value] | None) -> Run:
    def walk(frame: Frame) -> Value:
        try:
            value = frame.bindings[name]
            return value if adapt is None else adapt(value)
        except KeyError:
            return Failure(EvaluationError(f"no such attribute(s): {name}"))
        except Exception as problem:
            return to_failure(problem)

    return walk


# The path of an attribute


def field_step(walk: Run, accessor: Accessor) -> Run:
    read = accessor.read

    def step(frame: Frame) -> Value:
        value = walk(frame)
        if value.__class__ is Failure:
            return value
        frame.cost += costs.IDENT
        try:
            return read(value)
        except Exception as problem:
            return to_failure(problem)

    return step


def index_step(walk: Run, index: Run) -> Run:
    def step(frame: Frame) -> Value:
        value = walk(frame)
        if value.__class__ is Failure:
            return value
        frame.cost += costs.IDENT
        key = index(frame)
        if value.__class__ is dict and key.__class__ is str:
            found = value.get(key, ABSENT)
            return Failure(EvaluationError(f"no such key: {key}")) if found is ABSENT else found
        if key.__class__ is Failure:
            return key
        try:
            return index_any(value, key)
        except Exception as problem:
            return to_failure(problem)

    return step


def optional_step(walk: Run, find: Callable[[Value, Frame], Value]) -> Run:
    """Build an optional step, or a step after one: an absent value costs nothing and stays absent."""

    def step(frame: Frame) -> Value:
        value = walk(frame)
        if isinstance(value, Optional):
            value = value.value if value.present else ABSENT
        if value is ABSENT or value.__class__ is Failure:
            return value
        try:
            found = find(value, frame)
        except Exception as problem:
            found = to_failure(problem)
        if found is not ABSENT:
            frame.cost += costs.IDENT
        return found

    return step


def find_index(container: Value, index: Value) -> Value:
    """Return the value at an index, or `ABSENT`; a failed index is the result."""
    return index if index.__class__ is Failure else standard.find_index(container, index)


def presence(operand: Attribute, accessor: Accessor, has_cost: int) -> Run:
    walk, cost = operand.walk, operand.own_cost + has_cost

    def run(frame: Frame) -> Value:
        frame.cost += cost
        value = walk(frame)
        if value.__class__ is Failure:
            return value
        try:
            return accessor.has(value)
        except Exception as problem:
            return to_failure(problem)

    return run


# Logic


def logic(left: Run, right: Run, *, decisive: bool) -> Run:
    """Build `&&` or `||`: one decisive operand is enough, even if the other fails."""

    def run(frame: Frame) -> Value:
        first = left(frame)
        if first is decisive:
            return decisive
        second = right(frame)
        if second is decisive:
            return decisive
        if first is (not decisive):
            return second if second is first else no_overload(second)
        return no_overload(first)

    return run


def conditional(condition: Run, yes: Run, no: Run) -> Run:
    def walk(frame: Frame) -> Value:
        chosen = condition(frame)
        if chosen is True:
            return yes(frame)
        return no(frame) if chosen is False else no_overload(chosen)

    return walk


def not_strictly_false(argument: Run) -> Run:
    def run(frame: Frame) -> Value:
        frame.cost += 1
        return argument(frame) is not False

    return run


def unbound(_frame: Frame) -> Value:
    """Fail for an unknown name or function in an unchecked expression."""
    return Failure(no_such_overload())


# Calls


def lazy_call(overload: Overload, args: Sequence[Run]) -> Run:
    """Build a call that evaluates its last argument on demand; not charged."""
    *eager, last = args
    impl = overload.impl

    def run(frame: Frame) -> Value:
        def argument() -> Value:
            value = last(frame)
            if value.__class__ is Failure:
                raise value.error
            return value

        values = [each(frame) for each in eager]
        for value in values:
            if value.__class__ is Failure:
                return value
        if not all(map(is_of, values, overload.args)):
            return Failure(no_such_overload())
        try:
            return impl(*values, argument)
        except CostLimitExceeded:
            raise
        except Exception as problem:
            return to_failure(problem)

    return run


class Invocation:
    """A function call with all arguments evaluated; `plan` returns the function that runs it."""

    __slots__ = ("_args", "_constant", "_count", "_counts_result", "_impl")

    def __init__(self, impl: Callable[..., Value], cost: costs.CallCost, count: Counter, args: Sequence[Run]) -> None:
        self._impl = impl
        self._count = count
        self._constant = cost.constant if count == cost.count else None
        self._counts_result = cost.counts_result
        self._args = args

    def plan(self, *, stops_early: bool) -> Run:
        """Choose the evaluation order: with one or two arguments cel-go evaluates all and charges the call even if one
        failed.

        With more, or with `stops_early`, it stops at the first error without charging the call.
        """
        if stops_early or len(self._args) > 2:
            return self._several
        if len(self._args) == 2:
            return self._binary()
        return self._unary() if self._args else lambda frame: self._call(frame, ())

    def _unary(self) -> Run:
        (argument,) = self._args

        def run(frame: Frame) -> Value:
            value = argument(frame)
            if value.__class__ is Failure:
                return self._charge_failure(frame, (value,), value)
            return self._call(frame, (value,))

        return run

    def _binary(self) -> Run:
        first, second = self._args

        def run(frame: Frame) -> Value:
            left, right = first(frame), second(frame)
            if left.__class__ is Failure or right.__class__ is Failure:
                return self._charge_failure(frame, (left, right), left if left.__class__ is Failure else right)
            return self._call(frame, (left, right))

        return run

    def _several(self, frame: Frame) -> Value:
        values: list[Value] = []
        for each in self._args:
            value = each(frame)
            if value.__class__ is Failure:
                return value
            values.append(value)
        return self._call(frame, values)

    def _charge_failure(self, frame: Frame, values: Sequence[Value], failure: Failure) -> Failure:
        """Charge a failed call. An error has size 1; if a custom counter cannot measure it, the call costs 1."""
        cost = self._constant
        if cost is None:
            arguments = [each.error if each.__class__ is Failure else each for each in values]
            try:
                cost = self._count(arguments, failure.error)
            except (TypeError, AttributeError):
                cost = 1
        frame.cost += cost
        return failure

    def _call(self, frame: Frame, values: Sequence[Value]) -> Value:
        if self._constant is not None:
            frame.cost += self._constant
        elif not self._counts_result:
            frame.charge(self._count(values, None))
        try:
            result = self._impl(*values)
        except Exception as problem:
            result = to_failure(problem)
        if self._counts_result:
            frame.charge(self._count(values, result.error if result.__class__ is Failure else result))
        return result


# Loops


def items_of(container: Value, *, pairs: bool) -> Iterable[Value] | None:
    """Return keys or items, or pairs for two variables; None if the value is not iterable."""
    if isinstance(container, Mapping):
        if not pairs:
            return map(from_key, container)
        return ((from_key(key), value) for key, value in container.items())
    if isinstance(container, list | tuple):
        return enumerate(container) if pairs else container
    return None


class Loop(NamedTuple):
    """A planned comprehension. The accumulator and the iteration variables are slots of the frame."""

    iter_range: Run
    init: Run
    condition: Run | None
    """None when it is always true."""
    step: Run
    result: Run
    accumulator: int
    first: int
    second: int | None

    def run(self, frame: Frame) -> Value:
        container = self.iter_range(frame)
        items = items_of(container, pairs=self.second is not None)
        if items is None:
            return container if container.__class__ is Failure else Failure(no_such_overload())
        slots, condition, step = frame.slots, self.condition, self.step
        accumulator, first, second = self.accumulator, self.first, self.second
        slots[accumulator] = self.init(frame)
        for item in items:
            if second is None:
                slots[first] = item
            else:
                slots[first], slots[second] = item
            if condition is not None and condition(frame) is False:
                break
            slots[accumulator] = step(frame)
            if frame.cost > frame.limit:
                raise CostLimitExceeded
        return self.result(frame)


def condition_cost(decisive: bool) -> int:
    """Return the cost of a loop condition: `@not_strictly_false(accumulator)` for `all`, with a `!` for `exists`."""
    return costs.IDENT + (2 if decisive else 1)


class Quantifier(NamedTuple):
    """`all` and `exists`: loops without an explicit accumulator, with the costs of the loop."""

    iter_range: Run
    predicate: Run
    decisive: bool
    """The value of the predicate that ends the loop."""
    first: int
    second: int | None

    def run(self, frame: Frame) -> Value:
        container = self.iter_range(frame)
        items = items_of(container, pairs=self.second is not None)
        if items is None:
            return container if container.__class__ is Failure else Failure(no_such_overload())
        slots, predicate, first, second = frame.slots, self.predicate, self.first, self.second
        decisive, verdict, each_cost = self.decisive, not self.decisive, condition_cost(self.decisive)
        state: Value = verdict
        for item in items:
            frame.cost += each_cost
            if state is decisive:
                break
            frame.cost += costs.IDENT
            if second is None:
                slots[first] = item
            else:
                slots[first], slots[second] = item
            found = predicate(frame)
            if found is decisive:
                state = decisive
            elif found is not verdict and state is verdict:
                state = no_overload(found)
            if frame.cost > frame.limit:
                raise CostLimitExceeded
        frame.cost += costs.IDENT
        return state


def append(accumulator: int, items: Run) -> Run:
    """Append to the accumulator in place (`accumulator + [x]`); charge the cost of the addition."""

    def run(frame: Frame) -> Value:
        frame.cost += costs.IDENT + 1
        added = items(frame)
        gathered = frame.slots[accumulator]
        if gathered.__class__ is Failure or added.__class__ is Failure:
            return gathered if gathered.__class__ is Failure else added
        gathered.extend(added)
        return gathered

    return run
