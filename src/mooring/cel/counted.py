"""The fast path that counts: generated Python as in codegen.py, which adds up the same costs as the interpreter.

Most of a cost is known beforehand, so it is charged once for each stretch of source that is evaluated as a whole: the
expression itself, the right side of `&&`, a branch, a turn of a loop. `i + 1 == j && node.labels['a'] == s` becomes::

    (charge(4) and (f1(i, 1) == j) and (charge(4) and p2(charge, labels['a'], s)))

Calls whose cost depends on their arguments (`p2`) charge for themselves. As always on the fast path, any exception
hands over to the interpreter, which begins anew; only reaching the limit is final. What an attribute is, and when it
costs what, is explained in interpreter.py.
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
from .steps import asking_cost
from .syntax import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select
from .types import Kind
from .values import Optional, Value, is_key

EvaluateCounted = Callable[[Mapping[str, Value], int], tuple[Value, int]]
Charge = Callable[[int], bool]


def generate_counted(expr: Expr, options: Options, interpreter: Interpreter) -> EvaluateCounted:
    """A function from inputs and a limit to the value and its cost."""
    generator = _CountingGenerator(options)
    try:
        compiled = generator.compiled(expr)
    except Unsupported:
        return interpreter.evaluate

    def evaluate(bindings: Mapping[str, Value], limit: int) -> tuple[Value, int]:
        cost = 0

        def charge(more: int) -> bool:
            """Always true, so that generated code can say `charge(1) and value`."""
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


def _paid(impl: Callable[..., Value], count: Counter, *, counts_result: bool) -> Callable[..., Value]:
    """A call that charges for itself, before it is made if it can."""

    def before(charge: Charge, *args: Value) -> Value:
        charge(count(args, None))
        return impl(*args)

    def afterwards(charge: Charge, *args: Value) -> Value:
        result = impl(*args)
        charge(count(args, result))
        return result

    return afterwards if counts_result else before


def _decided(charge: Charge, rest: Iterator[Value], asking: int) -> bool:
    """`all` and `exists`: a decided loop still asks its condition once, if there is a next turn."""
    for _ in rest:
        return charge(asking)
    return True


def _found(charge: Charge, result: Optional) -> Optional:
    if result.present:
        charge(costs.IDENT)
    return result


class _CountingGenerator(Generator):
    """Adds up costs in `_cost` while the source of a stretch is written."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.names |= {"decided": _decided, "found": _found, "ceil": math.ceil}
        self._cost = 0
        self._resolved: set[int] = set()
        """Beginnings of attributes that do not pay for themselves."""

    def function(self, expr: Expr) -> str:
        result = self._perhaps(expr)
        reads = [f"    {local} = {read}" for local, read in self._variables.values()]
        return "\n".join(["def evaluate(bindings, charge):", *reads, f"    return {result}"])

    def _perhaps(self, expr: Expr, *, condition: bool = False) -> str:
        return self._stretch(lambda: super(_CountingGenerator, self)._perhaps(expr, condition=condition))

    def _stretch(self, write: Callable[[], str], extra: int = 0) -> str:
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
        """What a step costs beside itself: a value that is no attribute becomes the beginning of one."""
        if _is_optional_step(operand):
            raise Unsupported  # behind an optional step nothing costs anything if nothing is there
        return 0 if _is_attribute(operand) or operand.id in self._resolved else costs.IDENT

    def _is_constant(self, expr: Expr) -> bool:
        """Whether cel-go computes it beforehand."""
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
        """Lets an attribute in this place go without the cost of its beginning."""
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
        """An optional step costs only if something is there."""
        container, index = call.args
        self._resolve(index)
        self._cost += self._path_cost(container)
        if call.function == op.OPTIONAL_INDEX:
            return Code(f"found(charge, optional_index({self._source(container)}, {self._source(index)}))")
        return Code(f"found(charge, {super()._optional_select(call).source})")

    def _folded_call(self, call: Call, args: Sequence[Code]) -> Code | None:
        folded = super()._folded_call(call, args)
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
        paid = self._quickly_paid(call, cost) or _paid(invoker(call), count, counts_result=cost.counts_result)
        return f"{self._name('p', paid)}(charge, {', '.join(arg.source for arg in args)})"

    def _quickly_paid(self, call: Call, cost: CallCost) -> Callable[..., Value] | None:
        """A call that charges for itself, written as source when the types tell how to measure the arguments."""
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
        """`x in [constants]`, which cel-go looks up in a set and does not count."""
        if call.function != op.IN or not self._options.optimize or not self._is_constant(call.args[1]):
            return False
        items = args[1].value
        return isinstance(items, list) and all(map(is_key, items))

    # Loops

    def _quantified(self, expr: Comprehension, container: str, targets: Sequence[str]) -> str | None:
        quantifier = expr.quantifier
        if quantifier is None:
            return None
        asking = asking_cost(quantifier.decisive)
        turns = self._local()
        verdict = self._stretch(lambda: self._condition(quantifier.predicate), extra=asking + costs.IDENT)
        loop = f"({verdict} for {', '.join(targets)} in {turns})"
        decided = f"decided(charge, {turns}, {asking})"
        result = f"any{loop} and {decided}" if quantifier.decisive else f"all{loop} or not {decided}"
        return f"(lambda {turns}: {result})(iter({self._iterated(expr, container)}))"

    def _added(self, step: Call) -> str:
        added = step.args[1]
        overhead = costs.IDENT + 1
        if isinstance(added, ListExpr) and not self._is_constant(added):
            overhead += costs.LIST
        return self._stretch(lambda: super(_CountingGenerator, self)._added(step), extra=overhead)


def _known_cost(cost: CallCost, args: Sequence[Code]) -> int | None:
    """What a call costs, where that depends on none of its arguments, or only on some that are known."""
    if cost.formula is None or not all(args[int(index)].is_constant for index in _PLACES.findall(cost.formula)):
        return None
    return cost.count([arg.value for arg in args], None)


def _operand(expr: Expr) -> Expr | None:
    """What a step of an attribute's path starts from."""
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
