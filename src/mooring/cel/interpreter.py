"""Exact evaluation: absorb errors as CEL requires and count the cost of every step.

`plan` turns a checked tree into nested Python closures (see steps.py). codegen.py generates a faster program from the
same tree and counted.py one that counts; both fall back to this one on any exception.

Errors are values here: `false && error` is false, and the accumulator of a loop may hold an error that a later step
overrides. An error is raised only if it is the final result.

Costs. cel-go charges its own evaluation steps, so the steps here mirror cel-go's. The central notion is the
*attribute*: a variable (or any value) followed by a path of fields and indices, such as `node.labels['rack']`. It
costs 1 for itself and 1 for each step of the path. As an index of another attribute, or as a branch of `?:`, it is
resolved without the 1 for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from . import costs, steps, syntax
from . import operators as op
from .conversions import adapter
from .costs import CallCost
from .dispatch import as_error, counter, dispatcher, invoker
from .errors import CelError, EvaluationError
from .fields import ABSENT, Accessor
from .library import Overload
from .regex import compile_pattern
from .standard import FOLDED
from .steps import Attribute, Constant, Failure, Frame, Invocation, Loop, Plan, Quantifier, Run, Step
from .types import ObjectType, Type
from .values import Optional, Struct, Value, contains, is_key, map_of_pairs
from .wrappers import FIELD, WRAPPERS


class FoldingError(CelError):
    """A constant part of the expression has no value, such as `int('x')`; the environment reports it as an issue."""


class Options(NamedTuple):
    """The settings that evaluation depends on."""

    objects: Mapping[str, ObjectType]
    equality: Mapping[Type, CallCost]
    has_cost: int
    optimize: bool


class Interpreter(NamedTuple):
    """Evaluates one planned expression exactly, and counts its cost."""

    run: Run
    slots: int
    """The number of its local variables."""

    def evaluate(self, bindings: Mapping[str, Value], limit: int = costs.MAX) -> tuple[Value, int]:
        """Return the value and its cost."""
        frame = Frame(bindings, self.slots, limit)
        try:
            value = self.run(frame)
        except CelError:
            raise
        except Exception as problem:
            raise as_error(problem) from problem
        frame.charge(0)
        if value.__class__ is Failure:
            raise value.error
        return value, frame.cost


def plan(expr: syntax.Expr, options: Options) -> Interpreter:
    """Plan an expression. Raise `FoldingError` if a constant part has no value."""
    planner = _Planner(options)
    run = planner.plan(expr).run
    return Interpreter(run, planner.slots)


class _Planner:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._scopes: list[dict[str, int]] = []
        self.slots = 0

    def plan(self, expr: syntax.Expr) -> Plan:
        return _PLANS[expr.__class__](self, expr)

    # Attributes

    def _ident(self, expr: syntax.Ident) -> Plan:
        if expr.constant is not None:
            return Constant(expr.constant.value)
        if expr.variable is not None:
            return Attribute(steps.variable(expr.variable, adapter(expr.type)))
        for scope in reversed(self._scopes):
            if expr.name in scope:
                return Attribute(steps.local(scope[expr.name]))
        raise TypeError(expr.name)

    def _attribute(self, plan: Plan) -> Attribute:
        return plan if isinstance(plan, Attribute) else Attribute(plan.run)

    def _select(self, expr: syntax.Select) -> Plan:
        if expr.resolved is not None:
            return self._ident(expr.resolved)
        operand = self._attribute(self.plan(expr.operand))
        accessor = Accessor(expr.operand.type, expr.name, self._options.objects)
        if expr.test_only:
            return Step(steps.presence(operand, accessor, self._options.has_cost))
        if not operand.optional:
            return Attribute(steps.field_step(operand.walk, accessor), operand.own_cost)
        return self._optional_field(operand, accessor)

    def _optional_field(self, operand: Attribute, accessor: Accessor) -> Plan:
        walk = steps.optional_step(operand.walk, lambda value, _frame: accessor.find(value))
        return Attribute(walk, operand.own_cost, optional=True)

    def _index(self, call: syntax.Call, *, optional: bool) -> Plan:
        operand = self._attribute(self.plan(call.args[0]))
        index = self.plan(call.args[1])
        get = index.resolve if isinstance(index, Attribute) else index.run
        if operand.optional or optional:
            walk = steps.optional_step(operand.walk, lambda value, frame: steps.find_index(value, get(frame)))
            return Attribute(walk, operand.own_cost, optional=True)
        return Attribute(steps.index_step(operand.walk, get), operand.own_cost)

    def _conditional(self, call: syntax.Call) -> Plan:
        condition, *branches = map(self.plan, call.args)
        yes, no = (each.resolve if isinstance(each, Attribute) else each.run for each in branches)
        return Attribute(steps.conditional(condition.run, yes, no), own_cost=0)

    # Calls

    def _call(self, call: syntax.Call) -> Plan:
        match call.function:
            case op.AND:
                return Step(steps.logic(self.plan(call.args[0]).run, self.plan(call.args[1]).run, decisive=False))
            case op.OR:
                return Step(steps.logic(self.plan(call.args[0]).run, self.plan(call.args[1]).run, decisive=True))
            case op.CONDITIONAL:
                return self._conditional(call)
            case op.INDEX:
                return self._index(call, optional=False)
            case op.OPTIONAL_INDEX:
                return self._index(call, optional=True)
            case op.OPTIONAL_SELECT:
                return self._optional_select(call)
        args: list[Plan] = []
        for operand in call.operands:
            args.append(self.plan(operand))  # noqa: PERF401  a comprehension would be one more frame a level
        if not call.overloads:
            return Step(steps.unbound)
        if self._options.optimize:
            folded = self._fold_constant(call, args)
            if folded is not None:
                return folded
        return self._strict(call, args)

    def _optional_select(self, call: syntax.Call) -> Plan:
        operand, name = self._attribute(self.plan(call.args[0])), call.args[1]
        if not isinstance(name, syntax.Literal):
            return Step(steps.unbound)
        return self._optional_field(operand, Accessor(call.args[0].type, name.value, self._options.objects))

    def _fold_constant(self, call: syntax.Call, args: Sequence[Plan]) -> Plan | None:
        """Evaluate what cel-go evaluates at compile time: conversions of constants, and `x in [constants]`."""
        if call.function == op.IN and isinstance(args[1], Constant) and isinstance(args[1].value, list):
            items = args[1].value
            if not items:
                return Constant(False)
            if all(is_key(item) for item in items):
                return Step(_membership(args[0].run, items))
        if call.function in FOLDED and len(args) == 1 and isinstance(args[0], Constant):
            try:
                return Constant(dispatcher(call.overloads)(args[0].value))
            except Exception as problem:
                raise FoldingError(as_error(problem).message) from None
        return None

    def _strict(self, call: syntax.Call, args: Sequence[Plan]) -> Plan:
        runs = [each.run for each in args]
        overloads = call.overloads
        if overloads[0].lazy:
            return Step(steps.lazy_call(overloads[0], runs))
        if call.function == op.NOT_STRICTLY_FALSE:
            return Step(steps.not_strictly_false(runs[0]))
        cost, count = counter(call, self._options.equality)
        invocation = Invocation(invoker(call), cost, count, runs)
        return Step(invocation.plan(stops_early=self._options.optimize and _has_constant_pattern(overloads[0], args)))

    # Lists, maps and messages

    def _list(self, expr: syntax.ListExpr) -> Plan:
        elements = [self.plan(each) for each in expr.elements]
        optional = expr.optional
        if self._options.optimize and not optional and all(isinstance(each, Constant) for each in elements):
            return Constant([each.run(steps.NO_FRAME) for each in elements])
        runs = [each.run for each in elements]

        def run(frame: Frame) -> Value:
            frame.cost += costs.LIST
            result: list[Value] = []
            for index, element in enumerate(runs):
                value = element(frame)
                if index in optional:
                    value = _unwrap_optional(value)
                if value.__class__ is Failure:
                    return value
                if value is not ABSENT:
                    result.append(value)
            return result

        return Step(run)

    def _map(self, expr: syntax.MapExpr) -> Plan:
        entries = [(self.plan(each.key), self.plan(each.value), each.optional) for each in expr.entries]
        if self._options.optimize and all(
            isinstance(key, Constant) and isinstance(value, Constant) and not optional
            for key, value, optional in entries
        ):
            pairs = [(key.run(steps.NO_FRAME), value.run(steps.NO_FRAME)) for key, value, _ in entries]
            with suppress(EvaluationError):  # an invalid map literal is an error at evaluation
                return Constant(map_of_pairs(pairs))
        runs = [(key.run, value.run, optional) for key, value, optional in entries]

        def run(frame: Frame) -> Value:
            frame.cost += costs.MAP
            pairs: list[tuple[Value, Value]] = []
            for key_run, value_run, optional in runs:
                key, value = key_run(frame), value_run(frame)
                if optional:
                    value = _unwrap_optional(value)
                if key.__class__ is Failure or value.__class__ is Failure:
                    return key if key.__class__ is Failure else value
                if value is not ABSENT:
                    pairs.append((key, value))
            try:
                return map_of_pairs(pairs)
            except EvaluationError as error:
                return Failure(error)

        return Step(run)

    def _struct(self, expr: syntax.StructExpr) -> Plan:
        wrapper = WRAPPERS.get(expr.type_name)
        if wrapper is None and expr.type_name not in self._options.objects:
            return Step(steps.unbound)
        fields = [(each.name, self.plan(each.value).run, each.optional) for each in expr.fields]
        type_ = expr.type

        def run(frame: Frame) -> Value:
            frame.cost += costs.STRUCT
            values: dict[str, Value] = {}
            for name, value_run, optional in fields:
                value = value_run(frame)
                if optional:
                    value = _unwrap_optional(value)
                if value.__class__ is Failure:
                    return value
                if value is not ABSENT:
                    values[name] = value
            if wrapper is None:
                return Struct(type_, values)
            try:
                return wrapper.unwrap(values.get(FIELD, wrapper.empty))
            except EvaluationError as error:
                return Failure(error)

        return Step(run)

    # Loops

    def _comprehension(self, expr: syntax.Comprehension) -> Plan:
        iter_range, init = self.plan(expr.iter_range), self._plan_accumulator(expr.accu_init)
        accu = self._slot()
        self._scopes.append({expr.accu_var: accu})
        first, second = self._slot(), self._slot()
        inner = {expr.iter_var: first}
        if expr.iter_var2 is not None:
            inner[expr.iter_var2] = second
        self._scopes.append(inner)
        slots = accu, first, second if expr.iter_var2 else None
        if expr.quantifier is not None:
            predicate = self.plan(expr.quantifier.predicate).run
            del self._scopes[-2:]
            return Step(Quantifier(iter_range.run, predicate, expr.quantifier.decisive, *slots[1:]).run)
        always = isinstance(expr.condition, syntax.Literal) and expr.condition.value is True
        condition = None if always else self.plan(expr.condition).run
        step = self._step(expr, accu)
        self._scopes.pop()
        result = self.plan(expr.result)
        self._scopes.pop()
        return Step(Loop(iter_range.run, init, condition, step, result.run, *slots).run)

    def _slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _plan_accumulator(self, init: syntax.Expr) -> Run:
        """Return the initial accumulator; copy lists and maps, because later steps modify them in place."""
        planned = self.plan(init)
        if isinstance(planned, Constant) and isinstance(planned.value, list | dict):
            make = planned.value.copy
            return lambda _frame: make()
        return planned.run

    def _step(self, expr: syntax.Comprehension, accu: int) -> Run:
        """Plan a loop step; `accumulator + [x]` appends in place, because no other code sees the accumulator."""
        if not isinstance(expr.accu_init, syntax.ListExpr):
            return self.plan(expr.step).run
        return self._appending(expr.step, accu)

    def _appending(self, step: syntax.Expr, accu: int) -> Run:
        if isinstance(step, syntax.Call) and step.function == op.CONDITIONAL and syntax.is_accumulator(step.args[2]):
            changed = self._appending(step.args[1], accu)
            return steps.conditional(self.plan(step.args[0]).run, changed, steps.local(accu))
        if (
            isinstance(step, syntax.Call)
            and step.function == op.ADD
            and syntax.is_accumulator(step.args[0])
            and isinstance(step.args[1], syntax.ListExpr)
        ):
            return steps.append(accu, self.plan(step.args[1]).run)
        return self.plan(step).run


_PLANS: Final[Mapping[type[syntax.Expr], Callable[[_Planner, Any], Plan]]] = {
    syntax.Literal: lambda _, literal: Constant(literal.value),
    syntax.Call: _Planner._call,
    syntax.Select: _Planner._select,
    syntax.Ident: _Planner._ident,
    syntax.ListExpr: _Planner._list,
    syntax.MapExpr: _Planner._map,
    syntax.StructExpr: _Planner._struct,
    syntax.Comprehension: _Planner._comprehension,
}


def _has_constant_pattern(overload: Overload, args: Sequence[Plan]) -> bool:
    """Whether the call has a constant regular expression; raise `FoldingError` if it is invalid."""
    pattern = args[overload.pattern] if overload.pattern is not None else None
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        return False
    try:
        compile_pattern(pattern.value)
    except EvaluationError as error:
        raise FoldingError(error.message) from None
    return True


def _membership(value: Run, items: Sequence[Value]) -> Run:
    def run(frame: Frame) -> Value:
        found = value(frame)
        return found if found.__class__ is Failure else contains(items, found)

    return run


def _unwrap_optional(value: Value) -> Value:
    if isinstance(value, Optional):
        return value.value if value.present else ABSENT
    return steps.no_overload(value)
