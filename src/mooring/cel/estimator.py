"""Estimate how expensive an expression can become: add up cost ranges over the checked tree.

Sizes come from literals, from the results of calls (see costs.py), and for variables from the environment's `Sizes`,
which is called with a path such as `("node", "labels", "@values")`. The numbers are those of cel-go, which assumes that
every loop runs over its largest possible range. One exception: where cel-go finds no bound because it does not know the
lengths of the parts of a `split`, a second pass assumes the length of the split string. Called by environment.py;
interpreter.py counts at run time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from . import costs, syntax
from . import operators as op
from .costs import MAX, ONE, UNKNOWN, ZERO, Argument, CallCost, CallEstimate, Range, exactly
from .library import Overload
from .types import Kind, Type
from .values import size_of

Path = tuple[str, ...]
Sizes = Callable[[Path], Range | None]
"""Return the declared size of a path: a variable, then field names, `@items`, `@keys` or `@values`."""


class Entries(NamedTuple):
    """The sizes of the entries of a list or map."""

    is_list: bool
    key: Range
    value: Range

    def union(self, other: Entries) -> Entries:
        return Entries(self.is_list, self.key.union(other.key), self.value.union(other.value))


class _Local(NamedTuple):
    path: Path
    size: Range | None
    entries: Entries | None


_NOTHING: Final = Range(MAX, 0)
"""The neutral element of a union."""
_SCALARS: Final = frozenset({Kind.BOOL, Kind.DOUBLE, Kind.DURATION, Kind.INT, Kind.TIMESTAMP, Kind.UINT})
_UNBOUNDED: Final = MAX // 1000
"""Costs from here on come from an unknown size times a factor of the cost table."""
_SPLITS: Final = frozenset({"string_split_string", "string_split_string_int"})
_JOINS: Final = frozenset({"add_string", "add_bytes", "add_list"})


def estimate(expr: syntax.Expr, sizes: Sizes, *, has_cost: int, equality: Mapping[Type, CallCost]) -> Range:
    """Return the range of costs of evaluating the expression."""
    found = _Estimator(sizes, has_cost, equality).cost(expr)
    if found.max < _UNBOUNDED:
        return found
    bounded = _Estimator(sizes, has_cost, equality, bounds_parts=True).cost(expr)
    return bounded if bounded.max < _UNBOUNDED else found


class _Estimator:
    def __init__(
        self, sizes: Sizes, has_cost: int, equality: Mapping[Type, CallCost], *, bounds_parts: bool = False
    ) -> None:
        self._bounds_parts = bounds_parts
        self._sizes = sizes
        self._has_cost = has_cost
        self._equality = equality
        self._paths: dict[int, Path] = {}
        self._known: dict[int, Range] = {}
        self._entries: dict[int, Entries] = {}
        self._parts: dict[int, Range] = {}
        self._locals: dict[str, list[_Local]] = {}

    def cost(self, expr: syntax.Expr) -> Range:
        match expr:
            case syntax.Literal():
                return ZERO
            case syntax.Ident():
                return self._ident(expr)
            case syntax.Select():
                return self._select(expr)
            case syntax.Call():
                return self._call(expr)
            case syntax.ListExpr():
                return self._list(expr)
            case syntax.MapExpr():
                return self._map(expr)
            case syntax.StructExpr():
                total = exactly(costs.STRUCT)
                for each in expr.fields:
                    total = total.plus(self.cost(each.value))
                return total
            case syntax.Comprehension():
                return self._bind(expr) if expr.is_bind else self._loop(expr)
        raise TypeError(expr)

    # Names and fields

    def _ident(self, expr: syntax.Ident) -> Range:
        local = self._local(expr)
        self._paths[expr.id] = local.path if local is not None else (expr.variable or expr.name,)
        return exactly(costs.IDENT)

    def _local(self, expr: syntax.Expr) -> _Local | None:
        if not isinstance(expr, syntax.Ident) or expr.variable is not None or expr.constant is not None:
            return None
        stack = self._locals.get(expr.name)
        return stack[-1] if stack else None

    def _select(self, expr: syntax.Select) -> Range:
        if expr.resolved is not None:
            total = self._ident(expr.resolved)
            self._paths[expr.id] = self._paths[expr.resolved.id]
            return total
        total = self.cost(expr.operand)
        if expr.test_only:
            return total.plus(exactly(self._has_cost))
        if expr.operand.type.kind in (Kind.MAP, Kind.OBJECT, Kind.PARAM):
            total = total.plus(exactly(costs.IDENT))
        self._paths[expr.id] = (*self._path(expr.operand), expr.name)
        return total

    def _path(self, expr: syntax.Expr) -> Path:
        local = self._local(expr)
        return local.path if local is not None else self._paths.get(expr.id, ())

    # Calls

    def _call(self, call: syntax.Call) -> Range:
        if call.function == "dyn" and len(call.args) == 1:
            total = ONE.plus(self.cost(call.args[0]))
            self._copy_sizes(call, call.args[0])
            return total
        operands = call.operands
        each_cost = [self.cost(operand) for operand in operands]
        if call.function in (op.AND, op.OR):
            left, right = each_cost
            return Range(left.min, left.plus(right).max)
        if call.function == op.CONDITIONAL:
            return self._conditional(call, each_cost)
        total = ZERO
        for each in each_cost:
            total = total.plus(each)
        if not call.overloads:
            return total.plus(ONE) if call.function == op.OPTIONAL_SELECT else ZERO
        args = [self._argument(operand) for operand in operands]
        call_cost, result = _NOTHING, None
        for overload in call.overloads:
            estimated = self._overload(call, overload, args)
            call_cost = call_cost.union(estimated.cost)
            if estimated.result is not None:
                result = estimated.result if result is None else result.union(estimated.result)
            if overload.id in ("index_list", "index_map"):
                result = self._index(call, overload)
            if result is None:
                result = self._size(call)
        if result is not None:
            self._known[call.id] = result
        return total.plus(call_cost)

    def _conditional(self, call: syntax.Call, each_cost: Sequence[Range]) -> Range:
        _condition, yes, no = call.args
        self._known[call.id] = self._size_or_unknown(yes).union(self._size_or_unknown(no))
        self._join_entries(call, yes, no)
        return each_cost[0].plus(each_cost[1].union(each_cost[2]))

    def _overload(self, call: syntax.Call, overload: Overload, args: Sequence[Argument]) -> CallEstimate:
        if overload.id in _JOINS:
            self._join_entries(call, *call.args)
        if self._bounds_parts and overload.id in _SPLITS:
            self._parts[call.id] = Range(0, args[0].size.max)
            self._entries[call.id] = Entries(True, ONE, self._parts[call.id])
        if overload.id == "equals":
            special = self._equality.get(args[0].type)
            if special is not None:
                return special.estimate(args)
        return overload.cost.estimate(args)

    def _index(self, call: syntax.Call, overload: Overload) -> Range | None:
        step = "@items" if overload.id == "index_list" else "@values"
        self._paths[call.id] = (*self._path(call.args[0]), step)
        entries = self._entries_of(call.args[0])
        return entries.value if entries is not None else None

    def _argument(self, expr: syntax.Expr) -> Argument:
        element = UNKNOWN
        if expr.type.kind is Kind.LIST:
            path = self._path(expr)
            declared = self._sizes((*path, "@items")) if path and path[0] != syntax.ACCUMULATOR else None
            element = declared or self._parts.get(expr.id, UNKNOWN)
        return Argument(expr, self._size_or_unknown(expr), element)

    # Lists, maps and loops

    def _list(self, expr: syntax.ListExpr) -> Range:
        total = exactly(costs.LIST)
        item = _NOTHING if expr.elements else ZERO
        for each in expr.elements:
            total = total.plus(self.cost(each))
            item = item.union(self._size_or_unknown(each))
        self._entries[expr.id] = Entries(True, ONE, item)
        return total

    def _map(self, expr: syntax.MapExpr) -> Range:
        total = exactly(costs.MAP)
        key, value = (_NOTHING, _NOTHING) if expr.entries else (ZERO, ZERO)
        for entry in expr.entries:
            total = total.plus(self.cost(entry.key)).plus(self.cost(entry.value))
            key = key.union(self._size_or_unknown(entry.key))
            value = value.union(self._size_or_unknown(entry.value))
        self._entries[expr.id] = Entries(False, key, value)
        return total

    def _loop(self, expr: syntax.Comprehension) -> Range:
        total = self.cost(expr.iter_range).plus(self.cost(expr.accu_init))
        self._push(expr.accu_var, self._local_of(expr.accu_init))
        names = self._iteration_variables(expr)
        for name, local in names.items():
            self._push(name, local)
        each = self.cost(expr.condition).plus(self.cost(expr.step))
        step_entries = self._entries_of(expr.step)
        for name in names:
            self._locals[name].pop()
        total = total.plus(self.cost(expr.result))
        self._locals[expr.accu_var].pop()
        times = self._size_or_unknown(expr.iter_range)
        if isinstance(expr.accu_init, syntax.Literal):
            self._known[expr.id] = exactly(size_of(expr.accu_init.value))
        elif isinstance(expr.accu_init, syntax.ListExpr | syntax.MapExpr):
            self._known[expr.id] = times
            if step_entries is not None:
                self._entries[expr.id] = step_entries
        return total.plus(times.times(each))

    def _bind(self, expr: syntax.Comprehension) -> Range:
        total = self.cost(expr.iter_range).plus(self.cost(expr.accu_init))
        self._push(expr.accu_var, self._local_of(expr.accu_init))
        total = total.plus(self.cost(expr.result))
        self._copy_sizes(expr, expr.result)
        self._locals[expr.accu_var].pop()
        return total

    def _push(self, name: str, local: _Local) -> None:
        self._locals.setdefault(name, []).append(local)

    def _local_of(self, expr: syntax.Expr) -> _Local:
        return _Local(self._path(expr), self._size(expr), self._entries_of(expr))

    def _iteration_variables(self, expr: syntax.Comprehension) -> dict[str, _Local]:
        entries = self._entries_of(expr.iter_range)
        is_list = entries.is_list if entries is not None else expr.iter_range.type.kind is Kind.LIST
        path = self._path(expr.iter_range)
        key = _Local((*path, "@indices" if is_list else "@keys"), entries.key if entries else None, None)
        value = _Local((*path, "@items" if is_list else "@values"), entries.value if entries else None, None)
        if expr.iter_var2 is not None:
            return {expr.iter_var: key, expr.iter_var2: value}
        return {expr.iter_var: value if is_list else key}

    # Sizes

    def _size_or_unknown(self, expr: syntax.Expr) -> Range:
        return self._size(expr) or UNKNOWN

    def _size(self, expr: syntax.Expr) -> Range | None:
        known = self._known.get(expr.id)
        if known is not None:
            return known
        match expr:
            case syntax.Literal():
                return exactly(size_of(expr.value))
            case syntax.ListExpr():
                return exactly(len(expr.elements))
            case syntax.MapExpr():
                return exactly(len(expr.entries))
        path = self._path(expr)
        declared = self._sizes(path) if path and path[0] != syntax.ACCUMULATOR else None
        if declared is not None:
            self._known[expr.id] = declared
            return declared
        if _is_scalar(expr.type):
            return ONE
        local = self._local(expr)
        return local.size if local is not None else None

    def _entries_of(self, expr: syntax.Expr) -> Entries | None:
        known = self._entries.get(expr.id)
        if known is not None:
            return known
        local = self._local(expr)
        return local.entries if local is not None else None

    def _join_entries(self, into: syntax.Expr, a: syntax.Expr, b: syntax.Expr) -> None:
        left, right = self._entries_of(a), self._entries_of(b)
        if left is not None and right is not None:
            self._entries[into.id] = left.union(right)

    def _copy_sizes(self, into: syntax.Expr, source: syntax.Expr) -> None:
        size, entries = self._size(source), self._entries_of(source)
        if size is not None:
            self._known[into.id] = size
        if entries is not None:
            self._entries[into.id] = entries


def _is_scalar(type_: Type) -> bool:
    if type_.is_optional or type_.kind is Kind.WRAPPER:
        return _is_scalar(type_.params[0])
    return type_.kind in _SCALARS
