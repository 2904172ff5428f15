"""What a planned expression is made of: functions that take a `Frame`, give a value and charge for it.

interpreter.py puts them together. Errors travel as `EvaluationError`; where CEL goes on in spite of one, it is caught
here. Reaching the cost limit is never caught.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Never

from . import costs
from .dispatch import Counter, as_error
from .errors import CostLimitExceeded, EvaluationError
from .fields import ABSENT, Accessor
from .library import Overload
from .standard import index_any
from .values import NONE, Optional, Value, from_key, is_key, is_of, no_such_overload, to_key


class Frame:
    """One evaluation: its inputs, its local variables and what it has cost so far."""

    __slots__ = ("bindings", "cost", "limit", "slots")

    def __init__(self, bindings: Mapping[str, Value], slots: int, limit: int) -> None:
        self.bindings = bindings
        self.slots: list[Value] = [None] * slots
        self.cost = 0
        self.limit = limit

    def charge(self, cost: int) -> bool:
        """Always true, so that generated code can say `charge(1) and value`."""
        self.cost += cost
        if self.cost > self.limit:
            raise CostLimitExceeded
        return True


Run = Callable[[Frame], Value]
NO_FRAME: Final = Frame({}, 0, costs.MAX)
"""For constants, which look at nothing."""


class Constant:
    """Costs nothing."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def run(self, _frame: Frame) -> Value:
        return self.value


class Attribute:
    """A value with a path behind it. `walk` gives what is at its end, or `ABSENT` behind an optional step."""

    __slots__ = ("optional", "own_cost", "walk")

    def __init__(self, walk: Run, own_cost: int = costs.IDENT, *, optional: bool = False) -> None:
        self.walk = walk
        self.own_cost = own_cost
        self.optional = optional

    def resolve(self, frame: Frame) -> Value:
        """The value, without paying for the attribute itself."""
        value = self.walk(frame)
        if not self.optional:
            return value
        return NONE if value is ABSENT else Optional.of(value)

    def run(self, frame: Frame) -> Value:
        try:
            return self.resolve(frame)
        finally:
            frame.charge(self.own_cost)


class Step:
    """Anything else; `run` charges for itself."""

    __slots__ = ("run",)

    def __init__(self, run: Run) -> None:
        self.run = run


Plan = Constant | Attribute | Step


# Variables


class Failure:
    """An error as the value of a variable: it counts only when the variable is read."""

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError) -> None:
        self.error = error


def captured(run: Run, frame: Frame) -> Value:
    """The value, or the error as a value."""
    try:
        return run(frame)
    except CostLimitExceeded:
        raise
    except EvaluationError as error:
        return Failure(error)


def local(slot: int) -> Run:
    def walk(frame: Frame) -> Value:
        value = frame.slots[slot]
        if value.__class__ is Failure:
            raise value.error
        return value

    return walk


def variable(name: str, adapt: Callable[[Value], Value] | None) -> Run:
    def walk(frame: Frame) -> Value:
        try:
            value = frame.bindings[name]
        except KeyError:
            raise EvaluationError(f"no such attribute(s): {name}") from None
        return value if adapt is None else adapt(value)

    return walk


# The path of an attribute


def field_step(walk: Run, accessor: Accessor) -> Run:
    read = accessor.read

    def step(frame: Frame) -> Value:
        value = walk(frame)
        frame.charge(costs.IDENT)
        return read(value)

    return step


def index_step(walk: Run, index: Run) -> Run:
    def step(frame: Frame) -> Value:
        value = walk(frame)
        frame.charge(costs.IDENT)
        return index_any(value, index(frame))

    return step


def optional_step(walk: Run, find: Callable[[Value, Frame], Value]) -> Run:
    """An optional step, or any step behind one: what is not there costs nothing and stays away."""

    def step(frame: Frame) -> Value:
        value = walk(frame)
        if isinstance(value, Optional):
            value = value.value if value.present else ABSENT
        if value is ABSENT:
            return ABSENT
        found = find(value, frame)
        if found is not ABSENT:
            frame.charge(costs.IDENT)
        return found

    return step


def find_index(container: Value, index: Value) -> Value:
    """What an index leads to, or `ABSENT`."""
    if isinstance(container, Mapping):
        stored = to_key(index)
        return container[stored] if is_key(index) and stored in container else ABSENT
    if not isinstance(container, list | tuple):
        raise no_such_overload()
    try:
        return index_any(container, index)
    except EvaluationError:
        return ABSENT


def presence(operand: Attribute, accessor: Accessor, has_cost: int) -> Run:
    cost = operand.own_cost + has_cost

    def run(frame: Frame) -> Value:
        try:
            return accessor.has(operand.walk(frame))
        finally:
            frame.charge(cost)

    return run


# Logic


def boolean(value: Value) -> bool:
    if value is True or value is False:
        return value
    raise no_such_overload()


def optional(value: Value) -> Optional:
    if isinstance(value, Optional):
        return value
    raise no_such_overload()


def unbound(_frame: Frame) -> Never:
    """A name or function that nothing is known about, in an expression that was not checked."""
    raise no_such_overload()


def logic(left: Run, right: Run, *, decisive: bool) -> Run:
    """`&&` and `||`: one decisive side is enough, whatever the other is."""

    def run(frame: Frame) -> Value:
        error: EvaluationError | None = None
        for side in (left, right):
            try:
                if boolean(side(frame)) is decisive:
                    return decisive
            except CostLimitExceeded:
                raise
            except EvaluationError as problem:
                error = error or problem
        if error is not None:
            raise error
        return not decisive

    return run


def not_strictly_false(argument: Run) -> Run:
    def run(frame: Frame) -> Value:
        value = captured(argument, frame)
        frame.charge(1)
        return value is not False

    return run


# Calls


def lazy_call(overload: Overload, args: Sequence[Run]) -> Run:
    """A call that evaluates its last argument only if it wants to; not counted."""
    *eager, last = args
    impl = overload.impl

    def run(frame: Frame) -> Value:
        values = [each(frame) for each in eager]
        if not all(map(is_of, values, overload.args)):
            raise no_such_overload()
        return impl(*values, lambda: last(frame))

    return run


class Invocation:
    """The call of a function, all of whose arguments are evaluated."""

    __slots__ = ("args", "count", "counts_result", "impl")

    def __init__(self, impl: Callable[..., Value], count: Counter, args: Sequence[Run], *, counts_result: bool) -> None:
        self.impl = impl
        self.count = count
        self.args = args
        self.counts_result = counts_result

    def run(self, frame: Frame) -> Value:
        """cel-go evaluates both arguments, whatever the first gives, and counts the call even when one failed."""
        values: list[Value] = []
        error: EvaluationError | None = None
        for each in self.args:
            try:
                values.append(each(frame))
            except CostLimitExceeded:
                raise
            except EvaluationError as problem:
                error = error or problem
                values.append(problem)
        if error is not None:
            frame.charge(self.count(values, error))
            raise error
        return self._called(frame, values)

    def run_several(self, frame: Frame) -> Value:
        """With three arguments and more, or a constant pattern, cel-go stops at the first error; no call, no cost."""
        return self._called(frame, [each(frame) for each in self.args])

    def _called(self, frame: Frame, values: Sequence[Value]) -> Value:
        if not self.counts_result:
            frame.charge(self.count(values, None))
            try:
                return self.impl(*values)
            except Exception as problem:
                raise as_error(problem) from problem
        try:
            result = self.impl(*values)
        except Exception as problem:
            error = as_error(problem)
            frame.charge(self.count(values, error))
            raise error from problem
        frame.charge(self.count(values, result))
        return result


# Loops


class Loop(NamedTuple):
    """A comprehension at work. The accumulator and the iteration variables live in slots of the frame."""

    iter_range: Run
    init: Run
    condition: Run
    step: Run
    result: Run
    accumulator: int
    first: int
    second: int | None

    def run(self, frame: Frame) -> Value:
        items = self._items(self.iter_range(frame))
        slots, accumulator, first, second = frame.slots, self.accumulator, self.first, self.second
        slots[accumulator] = captured(self.init, frame)
        for item in items:
            if second is None:
                slots[first] = item
            else:
                slots[first], slots[second] = item
            if captured(self.condition, frame) is False:
                break
            slots[accumulator] = captured(self.step, frame)
        return self.result(frame)

    def _items(self, container: Value) -> Iterable[Value]:
        if isinstance(container, Mapping):
            if self.second is None:
                return map(from_key, container)
            return ((from_key(key), value) for key, value in container.items())
        if isinstance(container, list | tuple):
            return container if self.second is None else enumerate(container)
        raise no_such_overload()


def append(accumulator: int, items: Run) -> Run:
    """`accumulator + [x]` in place; it costs what the addition would."""
    gather = local(accumulator)

    def run(frame: Frame) -> Value:
        frame.charge(costs.IDENT)
        added = items(frame)
        frame.charge(1)
        gathered = gather(frame)
        gathered.extend(added)
        return gathered

    return run
