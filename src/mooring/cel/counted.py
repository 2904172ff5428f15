"""The counting fast path: generated Python as in codegen.py that adds up the same costs as the interpreter.

Most costs are known statically, so they are charged once per block of source that is evaluated as a whole: the
expression itself, the right side of `&&`, a branch, a loop iteration. `i + 1 == j && node.labels['a'] == s` becomes::

    (charge(4) and (f1(i, 1) == j) and (charge(4) and p2(charge, labels['a'], s)))

Calls whose cost depends on their arguments (`p2`) charge for themselves. As always on the fast path, any exception
hands over to the interpreter, which starts again; only reaching the limit is final. interpreter.py explains attributes
and their costs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from . import costs
from . import operators as op
from .codegen import Code, Generator, Unsupported
from .costs import CallCost
from .dispatch import Counter, counter, invoker
from .errors import CostLimitExceeded
from .interpreter import Interpreter, Options
from .standard import FOLDED
from .steps import condition_cost
from .syntax import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select
from .types import Kind
from .values import Optional, Value, is_key

EvaluateCounted = Callable[[Mapping[str, Value], int], tuple[Value, int]]
Charge = Callable[[int], bool]


def generate_counted(expr: Expr, options: Options, interpreter: Interpreter) -> EvaluateCounted:
    """Return a function from inputs and a limit to the value and its cost."""
    generator = _CountingGenerator(options)
    try:
        compiled = generator.compile_function(expr)
    except Unsupported:
        return interpreter.evaluate

    def evaluate(bindings: Mapping[str, Value], limit: int) -> tuple[Value, int]:
        cost = 0

        def charge(more: int) -> bool:
            """Add to the cost. Always true, so that generated code can use `charge(1) and value`."""
            nonlocal cost
            cost += more
            if cost > limit:
                raise CostLimitExceeded
            return True

        try:
            return compiled(bindings, charge), cost
        except CostLimitExceeded:
            raise
        except Exception:
            return interpreter.evaluate(bindings, limit)

    return evaluate


_SIZED: Final = frozenset({Kind.STRING, Kind.BYTES, Kind.LIST, Kind.MAP})
_PLACES: Final = re.compile(r"{(\d+)}")
_SCALARS: Final = frozenset({Kind.BOOL, Kind.INT, Kind.UINT, Kind.DOUBLE, Kind.TIMESTAMP, Kind.DURATION, Kind.NULL})


def _charging(impl: Callable[..., Value], count: Counter, *, counts_result: bool) -> Callable[..., Value]:
    """Wrap a function so that a call charges its cost, before the call if possible."""

    def before(charge: Charge, *args: Value) -> Value:
        charge(count(args, None))
        return impl(*args)

    def afterwards(charge: Charge, *args: Value) -> Value:
        result = impl(*args)
        charge(count(args, result))
        return result

    return afterwards if counts_result else before


def _charge_next_condition(charge: Charge, rest: Iterator[Value], asking: int) -> bool:
    """Charge the condition of `all` or `exists` once more if a decided loop has a next item."""
    for _ in rest:
        return charge(asking)
    return True


def _charge_if_present(charge: Charge, result: Optional) -> Optional:
    if result.present:
        charge(costs.IDENT)
    return result


class _CountingGenerator(Generator):
    """Add up costs in `_cost` while the source of a block is generated."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.names |= {"decided": _charge_next_condition, "found": _charge_if_present, "ceil": math.ceil}
        self._cost = 0
        self._resolved: set[int] = set()
        """Beginnings of attributes that do not pay for themselves."""

    def function(self, expr: Expr) -> str:
        result = self._lazy(expr)
        reads = [f"    {local} = {read}" for local, read in self._variables.values()]
        return "\n".join(["def evaluate(bindings, charge):", *reads, f"    return {result}"])

    def _lazy(self, expr: Expr, *, condition: bool = False) -> str:
        return self._block(lambda: super(_CountingGenerator, self)._lazy(expr, condition=condition))

    def _block(self, write: Callable[[], str], extra: int = 0) -> str:
        outer, self._cost = self._cost, extra
        source = write()
        cost, self._cost = self._cost, outer
        return f"(charge({cost}) and {source})" if cost else source

    # What each node costs

    def _code(self, expr: Expr) -> Code:
        before = self._cost
        code = super()._code(expr)
        if self._is_constant(expr):
            self._cost = before
        else:
            self._cost += self._own_cost(expr)
        return code

    def _own_cost(self, expr: Expr) -> int:
        match expr:
            case Ident():
                return 0 if expr.constant is not None or expr.id in self._resolved else costs.IDENT
            case Select() if expr.resolved is not None:
                return self._own_cost(expr.resolved)
            case Select() if expr.test_only:
                return self._path_cost(expr.operand) + self._options.has_cost
            case Select():
                return self._path_cost(expr.operand) + costs.IDENT
            case ListExpr():
                return costs.LIST
            case MapExpr():
                return costs.MAP
        return 0

    def _path_cost(self, operand: Expr) -> int:
        """Return the extra cost of a path step: a value that is not an attribute starts a new one."""
        if _is_optional_step(operand):
            raise Unsupported  # after an absent optional step nothing is charged
        return 0 if _is_attribute(operand) or operand.id in self._resolved else costs.IDENT

    def _is_constant(self, expr: Expr) -> bool:
        """Whether cel-go evaluates it at compile time."""
        match expr:
            case Literal():
                return True
            case Ident():
                return expr.constant is not None
            case Select():
                return expr.resolved is not None and expr.resolved.constant is not None
        if not self._options.optimize:
            return False
        match expr:
            case ListExpr():
                return not expr.optional and all(map(self._is_constant, expr.elements))
            case MapExpr():
                return all(
                    not each.optional and self._is_constant(each.key) and self._is_constant(each.value)
                    for each in expr.entries
                )
            case Call() if expr.function == op.IN:
                return isinstance(expr.args[1], ListExpr) and not expr.args[1].elements
            case Call():
                return expr.function in FOLDED and len(expr.operands) == 1 and self._is_constant(expr.operands[0])
        return False

    def _resolve(self, expr: Expr) -> None:
        if not _is_attribute(expr):
            return
        while (operand := _operand(expr)) is not None:
            expr = operand
        self._resolved.add(expr.id)

    # Calls

    def _call(self, call: Call) -> Code:
        if call.function in (op.OPTIONAL_INDEX, op.OPTIONAL_SELECT):
            return self._optional(call)
        if call.function == op.CONDITIONAL:
            self._resolve(call.args[1])
            self._resolve(call.args[2])
        elif call.function == op.INDEX:
            self._resolve(call.args[1])
        elif call.function == op.NOT_STRICTLY_FALSE:
            self._cost += 1
        return super()._call(call)

    def _optional(self, call: Call) -> Code:
        """Generate an optional step, which costs only if a value is present."""
        container, index = call.args
        self._resolve(index)
        self._cost += self._path_cost(container)
        if call.function == op.OPTIONAL_INDEX:
            return Code(f"found(charge, optional_index({self._source(container)}, {self._source(index)}))")
        return Code(f"found(charge, {super()._optional_select(call).source})")

    def _fold_call(self, call: Call, args: Sequence[Code]) -> Code | None:
        folded = super()._fold_call(call, args)
        if folded is None or self._is_set_membership(call, args):
            return folded
        if call.function == op.INDEX:
            self._cost += self._path_cost(call.args[0]) + costs.IDENT
        else:
            _cost, count = counter(call, self._options.equality)
            self._cost += count([arg.value for arg in args], None)
        return folded

    def _operation(self, call: Call, args: Sequence[Code]) -> str:
        if call.function == op.INDEX:
            self._cost += self._path_cost(call.args[0]) + costs.IDENT
            return super()._operation(call, args)
        if self._is_set_membership(call, args):
            return super()._operation(call, args)
        cost, count = counter(call, self._options.equality)
        constant = _known_cost(cost, args) if call.function != op.EQUALS else None
        if constant is not None:
            self._cost += constant
            return super()._operation(call, args)
        paid = self._inline_charging(call, cost) or _charging(invoker(call), count, counts_result=cost.counts_result)
        return f"{self._register('p', paid)}(charge, {', '.join(arg.source for arg in args)})"

    def _inline_charging(self, call: Call, cost: CallCost) -> Callable[..., Value] | None:
        """Return a charging call as inline source if the argument types determine how to measure them."""
        formula, kinds = cost.formula, [operand.type.kind for operand in call.operands]
        if formula is None:
            return None
        measured = {kinds[int(index)] for index in _PLACES.findall(formula)}
        if not measured <= _SIZED | _SCALARS:
            return None
        names = [f"a{index}" for index in range(len(kinds))]
        sizes = [f"len({name})" if kind in _SIZED else "1" for name, kind in zip(names, kinds, strict=True)]
        result = super()._operation(call, [Code(name) for name in names])
        source = f"lambda charge, {', '.join(names)}: charge({formula.format(*sizes)}) and {result}"
        function: Callable[..., Value] = eval(source, self.names)  # noqa: S307  made of our own templates
        return function

    def _is_set_membership(self, call: Call, args: Sequence[Code]) -> bool:
        """Whether this is `x in [constants]`, which cel-go looks up in a set without cost."""
        if call.function != op.IN or not self._options.optimize or not self._is_constant(call.args[1]):
            return False
        items = args[1].value
        return isinstance(items, list) and all(map(is_key, items))

    # Loops

    def _quantifier_source(self, expr: Comprehension, container: str, targets: Sequence[str]) -> str | None:
        quantifier = expr.quantifier
        if quantifier is None:
            return None
        asking = condition_cost(quantifier.decisive)
        turns = self._local()
        verdict = self._block(lambda: self._condition(quantifier.predicate), extra=asking + costs.IDENT)
        loop = f"({verdict} for {', '.join(targets)} in {turns})"
        decided = f"decided(charge, {turns}, {asking})"
        result = f"any{loop} and {decided}" if quantifier.decisive else f"all{loop} or not {decided}"
        return f"(lambda {turns}: {result})(iter({self._items_source(expr, container)}))"

    def _added_source(self, step: Call) -> str:
        added = step.args[1]
        overhead = costs.IDENT + 1
        if isinstance(added, ListExpr) and not self._is_constant(added):
            overhead += costs.LIST
        return self._block(lambda: super(_CountingGenerator, self)._added_source(step), extra=overhead)


def _known_cost(cost: CallCost, args: Sequence[Code]) -> int | None:
    """Return the cost of a call if it depends on no argument, or only on constant ones."""
    if cost.formula is None or not all(args[int(index)].is_constant for index in _PLACES.findall(cost.formula)):
        return None
    return cost.count([arg.value for arg in args], None)


def _operand(expr: Expr) -> Expr | None:
    if isinstance(expr, Select) and expr.resolved is None and not expr.test_only:
        return expr.operand
    if isinstance(expr, Call) and (expr.function == op.INDEX or _is_optional_step(expr)):
        return expr.args[0]
    return None


def _is_optional_step(expr: Expr) -> bool:
    return isinstance(expr, Call) and expr.function in (op.OPTIONAL_INDEX, op.OPTIONAL_SELECT)


def _is_attribute(expr: Expr) -> bool:
    match expr:
        case Ident():
            return expr.constant is None
        case Select():
            return not expr.test_only and (expr.resolved is None or expr.resolved.constant is None)
        case Call():
            return expr.function in (op.INDEX, op.CONDITIONAL) or _is_optional_step(expr)
    return False
