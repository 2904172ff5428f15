"""Evaluation to the letter: absorbs errors as CEL demands and counts what every step costs.

`plan` turns a checked tree into nested Python closures. codegen.py makes a faster program from the same tree; it hands
over to this one whenever anything goes wrong there, and whenever costs must be counted.

Errors. An `EvaluationError` travels as an exception. `&&`, `||` and loops catch it: `false && error` is false, and the
accumulator of a loop may hold a `_Failure` that a later step overrules.

Costs. cel-go counts what its own steps do, so the steps here are cut like cel-go's. The notion to know is the
*attribute*: a variable (or any value) with a path of fields and indices behind it, such as `node.labels['rack']`. It
costs 1 for itself and 1 for each step of the path. As an index of another attribute, or as a branch of `?:`, it is
resolved without the 1 for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, Never

from . import costs
from . import operators as op
from .conversions import adapter
from .costs import NOMINAL, CallCost
from .errors import CelError, CostLimitExceeded, EvaluationError
from .library import Overload
from .regex import compile_pattern
from .standard import FOLDED, index_any
from .syntax import (
    ACCUMULATOR,
    Call,
    Comprehension,
    Expr,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    StructExpr,
)
from .types import Field, ObjectType, Type
from .values import (
    NONE,
    Optional,
    Struct,
    Value,
    equal,
    from_key,
    is_key,
    is_of,
    map_of_pairs,
    no_such_overload,
    to_key,
)


class Frame:
    """One evaluation: its inputs, its local variables and what it has cost so far."""

    __slots__ = ("bindings", "cost", "limit", "slots")

    def __init__(self, bindings: Mapping[str, Value], slots: int, limit: int) -> None:
        self.bindings = bindings
        self.slots: list[Value] = [None] * slots
        self.cost = 0
        self.limit = limit

    def charge(self, cost: int) -> None:
        self.cost += cost
        if self.cost > self.limit:
            raise CostLimitExceeded


Run = Callable[[Frame], Value]


class FoldingError(CelError):
    """A constant part of the expression has no value, such as `int('x')`; the environment makes an issue of it."""


class _Failure:
    """An error as the value of a variable."""

    __slots__ = ("error",)

    def __init__(self, error: EvaluationError) -> None:
        self.error = error


_ABSENT: Final = object()
"""What an optional step of a path gives when nothing is there."""


class _Constant:
    """Costs nothing."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def run(self, _frame: Frame) -> Value:
        return self.value


class _Attribute:
    """A value with a path behind it. `walk` gives what is at its end, or `_ABSENT` behind an optional step."""

    __slots__ = ("optional", "own_cost", "walk")

    def __init__(self, walk: Run, own_cost: int = costs.IDENT, *, optional: bool = False) -> None:
        self.walk = walk
        self.own_cost = own_cost
        self.optional = optional

    def resolve(self, frame: Frame) -> Value:
        value = self.walk(frame)
        if not self.optional:
            return value
        return NONE if value is _ABSENT else Optional.of(value)

    def run(self, frame: Frame) -> Value:
        try:
            return self.resolve(frame)
        finally:
            frame.charge(self.own_cost)


class _Step:
    """Anything else; `run` charges for itself."""

    __slots__ = ("run",)

    def __init__(self, run: Run) -> None:
        self.run = run


_Plan = _Constant | _Attribute | _Step


class Options(NamedTuple):
    objects: Mapping[str, ObjectType]
    equality: Mapping[Type, CallCost]
    has_cost: int
    optimize: bool


class Interpreter:
    """An expression, ready to be evaluated."""

    __slots__ = ("_run", "_slots")

    def __init__(self, run: Run, slots: int) -> None:
        self._run = run
        self._slots = slots

    def evaluate(self, bindings: Mapping[str, Value], limit: int = costs.MAX) -> tuple[Value, int]:
        """The value and what it cost."""
        frame = Frame(bindings, self._slots, limit)
        try:
            return self._run(frame), frame.cost
        except EvaluationError:
            raise
        except Exception as problem:
            raise as_error(problem) from problem


def plan(expr: Expr, options: Options) -> Interpreter:
    """Raises `FoldingError` when a constant part can have no value."""
    planner = _Planner(options)
    run = planner.plan(expr).run
    return Interpreter(run, planner.slots)


class _Planner:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._scopes: list[dict[str, int]] = []
        self.slots = 0

    def plan(self, expr: Expr) -> _Plan:
        match expr:
            case Literal():
                return _Constant(expr.value)
            case Call():
                return self._call(expr)
            case Select():
                return self._select(expr)
            case Ident():
                return self._ident(expr)
            case ListExpr():
                return self._list(expr)
            case MapExpr():
                return self._map(expr)
            case StructExpr():
                return self._struct(expr)
            case Comprehension():
                return self._comprehension(expr)
        raise TypeError(expr)

    # Attributes

    def _ident(self, expr: Ident) -> _Plan:
        if expr.constant is not None:
            return _Constant(expr.constant.value)
        if expr.variable is not None:
            return _Attribute(_variable(expr.variable, adapter(expr.type)))
        for scope in reversed(self._scopes):
            if expr.name in scope:
                return _Attribute(_local(scope[expr.name]))
        raise TypeError(expr.name)

    def _attribute(self, plan: _Plan) -> _Attribute:
        """The plan itself, or what it gives as the start of a new path."""
        return plan if isinstance(plan, _Attribute) else _Attribute(plan.run)

    def _select(self, expr: Select) -> _Plan:
        if expr.resolved is not None:
            return self._ident(expr.resolved)
        operand = self._attribute(self.plan(expr.operand))
        field = self._field(expr.operand.type, expr.name)
        if expr.test_only:
            return _Step(_presence(operand, expr.name, field, self._options.has_cost))
        return self._field_step(operand, expr.name, field, optional=False)

    def _field(self, operand: Type, name: str) -> Field | None:
        declared = self._options.objects.get(operand.params[0].name if operand.is_optional else operand.name)
        return declared.fields.get(name) if declared is not None else None

    def _field_step(self, operand: _Attribute, name: str, field: Field | None, *, optional: bool) -> _Attribute:
        if operand.optional or optional:
            find = lambda value: find_field(value, name, field)  # noqa: E731  one line beats a name
            return _Attribute(_maybe(operand.walk, find), operand.own_cost, optional=True)
        read = lambda value: read_field(value, name, field)  # noqa: E731  as above
        return _Attribute(_qualified(operand.walk, read), operand.own_cost)

    def _index(self, call: Call, *, optional: bool) -> _Plan:
        operand = self._attribute(self.plan(call.args[0]))
        index = self.plan(call.args[1])
        get = index.resolve if isinstance(index, _Attribute) else index.run
        if operand.optional or optional:
            return _Attribute(_maybe_indexed(operand.walk, get), operand.own_cost, optional=True)
        return _Attribute(_indexed(operand.walk, get), operand.own_cost)

    def _conditional(self, call: Call) -> _Plan:
        condition, *branches = map(self.plan, call.args)
        yes, no = (each.resolve if isinstance(each, _Attribute) else each.run for each in branches)

        def walk(frame: Frame) -> Value:
            return yes(frame) if _boolean(condition.run(frame)) else no(frame)

        return _Attribute(walk, own_cost=0)

    # Calls

    def _call(self, call: Call) -> _Plan:
        match call.function:
            case op.AND:
                return _Step(_logic(self.plan(call.args[0]).run, self.plan(call.args[1]).run, decisive=False))
            case op.OR:
                return _Step(_logic(self.plan(call.args[0]).run, self.plan(call.args[1]).run, decisive=True))
            case op.CONDITIONAL:
                return self._conditional(call)
            case op.INDEX:
                return self._index(call, optional=False)
            case op.OPTIONAL_INDEX:
                return self._index(call, optional=True)
            case op.OPTIONAL_SELECT:
                return self._optional_select(call)
        args: list[_Plan] = []
        for operand in call.operands:
            args.append(self.plan(operand))  # noqa: PERF401  a comprehension would be one more frame a level
        if not call.overloads:
            return _Step(_unbound)
        if self._options.optimize:
            folded = self._folded(call, args)
            if folded is not None:
                return folded
        return self._strict(call, args)

    def _optional_select(self, call: Call) -> _Plan:
        operand, name = self._attribute(self.plan(call.args[0])), call.args[1]
        if not isinstance(name, Literal):
            return _Step(_unbound)
        field = self._field(call.args[0].type, name.value)
        return self._field_step(operand, name.value, field, optional=True)

    def _folded(self, call: Call, args: Sequence[_Plan]) -> _Plan | None:
        """What cel-go computes before the program runs: conversions of constants, and `x in [constants]`."""
        if call.function == op.IN and isinstance(args[1], _Constant) and isinstance(args[1].value, list):
            items = args[1].value
            if not items:
                return _Constant(False)
            if all(is_key(item) for item in items):
                value = args[0].run
                return _Step(lambda frame: any(equal(found, item) for found in (value(frame),) for item in items))
        if call.function in FOLDED and len(args) == 1 and isinstance(args[0], _Constant):
            try:
                return _Constant(_dispatcher(call.overloads)(args[0].value))
            except Exception as problem:
                raise FoldingError(as_error(problem).message) from None
        return None

    def _strict(self, call: Call, args: Sequence[_Plan]) -> _Plan:
        runs = [each.run for each in args]
        overloads = call.overloads
        if overloads[0].lazy:
            return _Step(_lazy(overloads[0], runs))
        first = overloads[0].cost
        cost = first if all(each.cost is first for each in overloads) else NOMINAL
        count = self._equals_counter(cost) if call.function == op.EQUALS else cost.count
        if overloads[0].uncounted:
            count = lambda _args, _result: 0  # noqa: E731  one line beats a name
        if call.function == op.NOT_STRICTLY_FALSE:
            return _Step(_not_strictly_false(runs[0]))
        invocation = _Invocation(invoker(call), count, runs, counts_result=cost.counts_result)
        precompiled = self._options.optimize and _precompiled(overloads[0], args)
        return _Step(invocation.run_several if precompiled or len(runs) > 2 else invocation.run)

    def _equals_counter(self, cost: CallCost) -> Callable[[Sequence[Value], Value], int]:
        special = {type_.name: each for type_, each in self._options.equality.items()}
        if not special:
            return cost.count

        def count(args: Sequence[Value], result: Value) -> int:
            declared = getattr(args[0], "cel_type", None)
            chosen = special.get(declared.name, cost) if isinstance(declared, Type) else cost
            return chosen.count(args, result)

        return count

    # Lists, maps and messages

    def _list(self, expr: ListExpr) -> _Plan:
        elements = [self.plan(each) for each in expr.elements]
        optional = expr.optional
        if self._options.optimize and not optional and all(isinstance(each, _Constant) for each in elements):
            return _Constant([each.run(_NO_FRAME) for each in elements])
        runs = [each.run for each in elements]

        def run(frame: Frame) -> Value:
            result: list[Value] = []
            try:
                for index, element in enumerate(runs):
                    value = element(frame)
                    if index not in optional:
                        result.append(value)
                    elif _optional(value).present:
                        result.append(value.value)
            finally:
                frame.charge(costs.LIST)
            return result

        return _Step(run)

    def _map(self, expr: MapExpr) -> _Plan:
        entries = [(self.plan(each.key), self.plan(each.value), each.optional) for each in expr.entries]
        if self._options.optimize and all(
            isinstance(key, _Constant) and isinstance(value, _Constant) and not optional
            for key, value, optional in entries
        ):
            try:
                pairs = [(key.run(_NO_FRAME), value.run(_NO_FRAME)) for key, value, _ in entries]
                return _Constant(map_of_pairs(pairs))
            except EvaluationError as error:
                raise FoldingError(error.message) from None
        runs = [(key.run, value.run, optional) for key, value, optional in entries]

        def run(frame: Frame) -> Value:
            pairs: list[tuple[Value, Value]] = []
            try:
                for key_run, value_run, optional in runs:
                    key, value = key_run(frame), value_run(frame)
                    if not optional:
                        pairs.append((key, value))
                    elif _optional(value).present:
                        pairs.append((key, value.value))
            finally:
                frame.charge(costs.MAP)
            return map_of_pairs(pairs)

        return _Step(run)

    def _struct(self, expr: StructExpr) -> _Plan:
        fields = [(each.name, self.plan(each.value).run, each.optional) for each in expr.fields]
        type_ = expr.type
        if expr.type_name not in self._options.objects:
            return _Step(_unbound)

        def run(frame: Frame) -> Value:
            values: dict[str, Value] = {}
            try:
                for name, value_run, optional in fields:
                    value = value_run(frame)
                    if not optional:
                        values[name] = value
                    elif _optional(value).present:
                        values[name] = value.value
            finally:
                frame.charge(costs.STRUCT)
            return Struct(type_, values)

        return _Step(run)

    # Loops

    def _comprehension(self, expr: Comprehension) -> _Plan:
        iter_range, init = self.plan(expr.iter_range), self._fresh(expr.accu_init)
        accu = self._slot()
        self._scopes.append({expr.accu_var: accu})
        first, second = self._slot(), self._slot()
        inner = {expr.iter_var: first}
        if expr.iter_var2 is not None:
            inner[expr.iter_var2] = second
        self._scopes.append(inner)
        condition, step = self.plan(expr.condition), self._step(expr, accu)
        self._scopes.pop()
        result = self.plan(expr.result)
        self._scopes.pop()
        loop = _Loop(
            iter_range.run, init, condition.run, step, result.run, accu, first, second if expr.iter_var2 else None
        )
        return _Step(loop.run)

    def _slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _fresh(self, init: Expr) -> Run:
        """The start of an accumulator; lists and maps are made anew, because the steps below change them in place."""
        planned = self.plan(init)
        if isinstance(planned, _Constant) and isinstance(planned.value, list | dict):
            make = planned.value.copy
            return lambda _frame: make()
        return planned.run

    def _step(self, expr: Comprehension, accu: int) -> Run:
        """`accumulator + [x]` appends, since nobody else can see the accumulator; everything else is run as it is."""
        if not isinstance(expr.accu_init, ListExpr):
            return self.plan(expr.step).run
        return self._appending(expr.step, accu)

    def _appending(self, step: Expr, accu: int) -> Run:
        if isinstance(step, Call) and step.function == op.CONDITIONAL and _is_accumulator(step.args[2]):
            condition, append = self.plan(step.args[0]).run, self._appending(step.args[1], accu)

            def run_if(frame: Frame) -> Value:
                return append(frame) if _boolean(condition(frame)) else _slot_value(frame, accu)

            return run_if
        if (
            isinstance(step, Call)
            and step.function == op.ADD
            and _is_accumulator(step.args[0])
            and isinstance(step.args[1], ListExpr)
        ):
            added = self.plan(step.args[1]).run

            def run(frame: Frame) -> Value:
                frame.charge(costs.IDENT)
                items = added(frame)
                frame.charge(1)
                gathered = _slot_value(frame, accu)
                gathered.extend(items)
                return gathered

            return run
        return self.plan(step).run


_NO_FRAME: Final = Frame({}, 0, costs.MAX)


class _Loop(NamedTuple):
    """A comprehension at work."""

    iter_range: Run
    init: Run
    condition: Run
    step: Run
    result: Run
    accu: int
    first: int
    second: int | None

    def run(self, frame: Frame) -> Value:
        items = self._items(self.iter_range(frame))
        slots, accu, first, second = frame.slots, self.accu, self.first, self.second
        outer = slots[accu], slots[first]
        slots[accu] = _captured(self.init, frame)
        for item in items:
            if second is None:
                slots[first] = item
            else:
                slots[first], slots[second] = item
            if self.condition(frame) is False:
                break
            slots[accu] = _captured(self.step, frame)
        try:
            return self.result(frame)
        finally:
            slots[accu], slots[first] = outer

    def _items(self, container: Value) -> Sequence[Value]:
        if isinstance(container, Mapping):
            if self.second is None:
                return [from_key(key) for key in container]
            return [(from_key(key), value) for key, value in container.items()]
        if isinstance(container, list | tuple):
            return container if self.second is None else list(enumerate(container))
        raise no_such_overload()


def _captured(run: Run, frame: Frame) -> Value:
    try:
        return run(frame)
    except CostLimitExceeded:
        raise
    except EvaluationError as error:
        return _Failure(error)


def _is_accumulator(expr: Expr) -> bool:
    return isinstance(expr, Ident) and expr.name == ACCUMULATOR


def _slot_value(frame: Frame, slot: int) -> Value:
    value = frame.slots[slot]
    if value.__class__ is _Failure:
        raise value.error
    return value


def _local(slot: int) -> Run:
    def walk(frame: Frame) -> Value:
        value = frame.slots[slot]
        if value.__class__ is _Failure:
            raise value.error
        return value

    return walk


def _variable(name: str, adapt: Callable[[Value], Value] | None) -> Run:
    def walk(frame: Frame) -> Value:
        try:
            value = frame.bindings[name]
        except KeyError:
            raise EvaluationError(f"no such attribute(s): {name}") from None
        return value if adapt is None else adapt(value)

    return walk


def _qualified(walk: Run, read: Callable[[Value], Value]) -> Run:
    def step(frame: Frame) -> Value:
        value = walk(frame)
        frame.charge(costs.IDENT)
        return read(value)

    return step


def _indexed(walk: Run, index: Run) -> Run:
    def step(frame: Frame) -> Value:
        value = walk(frame)
        frame.charge(costs.IDENT)
        return index_any(value, index(frame))

    return step


def _maybe(walk: Run, find: Callable[[Value], Value]) -> Run:
    """A step behind an optional one: what is not there costs nothing and stays away."""

    def step(frame: Frame) -> Value:
        value = walk(frame)
        if value is _ABSENT:
            return _ABSENT
        if isinstance(value, Optional):
            if not value.present:
                return _ABSENT
            value = value.value
        found = find(value)
        if found is not _ABSENT:
            frame.charge(costs.IDENT)
        return found

    return step


def _maybe_indexed(walk: Run, index: Run) -> Run:
    def step(frame: Frame) -> Value:
        return _maybe(walk, lambda value: _find_index(value, index(frame)))(frame)

    return step


def _find_index(container: Value, index: Value) -> Value:
    if isinstance(container, Mapping):
        stored = to_key(index)
        return container[stored] if is_key(index) and stored in container else _ABSENT
    if not isinstance(container, list | tuple):
        raise no_such_overload()
    try:
        return index_any(container, index)
    except EvaluationError:
        return _ABSENT


@lru_cache(maxsize=512)
def _is_mapping(class_: type) -> bool:
    return issubclass(class_, Mapping)


def find_field(value: Value, name: str, field: Field | None) -> Value:
    """A field or a map's entry, or `_ABSENT`."""
    if _is_mapping(value.__class__):
        found = value.get(name, _ABSENT)
    elif field is not None:
        found = getattr(value, field.attribute or name, None)
        found = _ABSENT if found is None else found
    else:
        raise no_such_overload()
    if found is _ABSENT or field is None:
        return found
    adapt = adapter(field.type)
    return found if adapt is None else adapt(found)


def read_field(value: Value, name: str, field: Field | None) -> Value:
    """`value.name`; of an optional it is an optional."""
    if isinstance(value, Optional):
        found = find_field(value.value, name, field) if value.present else _ABSENT
        return NONE if found is _ABSENT else Optional.of(found)
    found = find_field(value, name, field)
    if found is _ABSENT:
        raise EvaluationError(f"no such key: {name}")
    return found


def optional_field(value: Value, name: str, field: Field | None) -> Optional:
    """`value.?name`."""
    if isinstance(value, Optional):
        if not value.present:
            return NONE
        value = value.value
    found = find_field(value, name, field)
    return NONE if found is _ABSENT else Optional.of(found)


def has_field(value: Value, name: str, field: Field | None) -> bool:
    """`has(value.name)`."""
    if value is _ABSENT:
        return False
    if isinstance(value, Optional):
        return value.present and has_field(value.value, name, field)
    return find_field(value, name, field) is not _ABSENT


def _presence(operand: _Attribute, name: str, field: Field | None, has_cost: int) -> Run:
    cost = operand.own_cost + has_cost

    def run(frame: Frame) -> Value:
        try:
            return has_field(operand.walk(frame), name, field)
        finally:
            frame.charge(cost)

    return run


def _boolean(value: Value) -> bool:
    if value is True or value is False:
        return value
    raise no_such_overload()


def _optional(value: Value) -> Optional:
    if isinstance(value, Optional):
        return value
    raise no_such_overload()


def _unbound(_frame: Frame) -> Never:
    raise no_such_overload()


def _logic(left: Run, right: Run, *, decisive: bool) -> Run:
    """`&&` and `||`: one decisive side is enough, whatever the other is."""

    def run(frame: Frame) -> Value:
        error: EvaluationError | None = None
        for side in (left, right):
            try:
                if _boolean(side(frame)) is decisive:
                    return decisive
            except CostLimitExceeded:
                raise
            except EvaluationError as problem:
                error = error or problem
        if error is not None:
            raise error
        return not decisive

    return run


def _not_strictly_false(argument: Run) -> Run:
    def run(frame: Frame) -> Value:
        value = _captured(argument, frame)
        frame.charge(1)
        return value is not False

    return run


def _precompiled(overload: Overload, args: Sequence[_Plan]) -> bool:
    """Whether the call has a constant regular expression; one that is invalid is an error of the program."""
    pattern = args[overload.pattern] if overload.pattern is not None else None
    if not isinstance(pattern, _Constant) or not isinstance(pattern.value, str):
        return False
    try:
        compile_pattern(pattern.value)
    except EvaluationError as error:
        raise FoldingError(error.message) from None
    return True


def _lazy(overload: Overload, runs: Sequence[Run]) -> Run:
    *eager, last = runs
    impl = overload.impl

    def run(frame: Frame) -> Value:
        values = [each(frame) for each in eager]
        for value, type_ in zip(values, overload.args, strict=False):
            if not is_of(value, type_):
                raise no_such_overload()
        return impl(*values, lambda: last(frame))

    return run


Counter = Callable[[Sequence[Value], Value], int]


class _Invocation:
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


def invoker(call: Call) -> Callable[..., Value]:
    """The implementation to call: directly when the types are known, otherwise by the types of the values."""
    (overload, *others) = call.overloads
    known = not others and not any(
        operand.type.is_dyn and not wanted.is_dyn for operand, wanted in zip(call.operands, overload.args, strict=True)
    )
    return overload.impl if known else _dispatcher(call.overloads)


def as_error(problem: Exception) -> EvaluationError:
    """Whatever an implementation trips over, e.g. a value of another type than was declared, is an evaluation error."""
    if isinstance(problem, EvaluationError):
        return problem
    if isinstance(problem, RecursionError):
        return EvaluationError("expression nested too deeply")
    return EvaluationError(f"{type(problem).__name__}: {problem}")


def _dispatcher(overloads: Sequence[Overload]) -> Callable[..., Value]:
    choices = [(each.args, each.impl) for each in overloads]

    def invoke(*args: Value) -> Value:
        for wanted, impl in choices:
            if all(map(is_of, args, wanted)):
                return impl(*args)
        raise no_such_overload()

    return invoke
