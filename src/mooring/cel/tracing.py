"""Explain why an expression is not true: which of its parts are false or fail, and on which values.

    trace(program, {"node": {"labels": {"zone": "eu-1"}}})
    (Finding("node.labels['zone'] == 'us-1'", "false", (("node.labels['zone']", "'eu-1'"),)),)

The trace descends through `&&`, `||`, `!` and `?:`; each operand below them is evaluated as a whole. Macros are printed
as written, as far as they can be recognized after expansion. For diagnostics, not optimized. `parts` returns every
subexpression with its value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

import msgspec

from . import operators as op
from .environment import Program
from .errors import CelError
from .interpreter import Options, plan
from .syntax import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select, StructExpr, children
from .values import Value

_SIGNS = {sign: text for text, sign in op.BINARY.items()}
_LOOSE = frozenset({op.AND, op.OR, op.CONDITIONAL, *_SIGNS})
"""Operators that need parentheses inside another operator."""
_MAX_PARTS = 60


class Finding(NamedTuple):
    """A part of an expression, its result, and the values that it read."""

    text: str
    outcome: str
    """`false`, `true` (where that is the problem), or `error: no such key: zone`."""
    values: tuple[tuple[str, str], ...] = ()
    """Source and value of what the part reads."""

    def __str__(self) -> str:
        seen = ", ".join(f"{text} is {value}" for text, value in self.values)
        outcome = f"fails ({self.outcome.removeprefix('error: ')})" if self.is_error else f"is {self.outcome}"
        return f"`{self.text}` {outcome}" + (f": {seen}" if seen else "")

    @property
    def is_error(self) -> bool:
        return self.outcome.startswith("error: ")


def trace(program: Program, bindings: Mapping[str, Value]) -> tuple[Finding, ...]:
    """Return the parts that prevent a boolean expression from being true; none if it is true or does not compile."""
    compiled = program._compiled
    if compiled is None:
        return ()
    return tuple(_Tracer(compiled.options, bindings).explain(compiled.expr, wanted=True))


class Part(NamedTuple):
    """A subexpression with its depth in the expression and the value that it has."""

    text: str
    outcome: str
    """A value in CEL syntax, or `error: no such key: zone`."""
    depth: int


def parts(program: Program, bindings: Mapping[str, Value]) -> tuple[Part, ...]:
    """Return the (first) subexpressions of an expression, each with its value, without literals."""
    compiled = program._compiled
    if compiled is None:
        return ()
    return tuple(islice(_Tracer(compiled.options, bindings).parts(compiled.expr, 0), _MAX_PARTS))


class _Tracer(msgspec.Struct):
    _options: Options
    _bindings: Mapping[str, Value]

    def explain(self, expr: Expr, *, wanted: bool) -> list[Finding]:
        """Return why a part does not have the wanted value."""
        value = self._value(expr)
        if value is wanted:
            return []
        if isinstance(expr, Call) and expr.function == op.NOT:
            return self.explain(expr.args[0], wanted=not wanted)
        if isinstance(expr, Call) and expr.function in (op.AND, op.OR):
            return [each for part in expr.args for each in self.explain(part, wanted=wanted)]
        if isinstance(expr, Call) and expr.function == op.CONDITIONAL:
            condition = self._value(expr.args[0])
            if isinstance(condition, bool):
                return self.explain(expr.args[1 if condition else 2], wanted=wanted)
            return self.explain(expr.args[0], wanted=True)
        return [Finding(source_of(expr), _format_outcome(value), tuple(self._values(expr)))]

    def parts(self, expr: Expr, depth: int) -> Iterator[Part]:
        value = self._value(expr)
        if isinstance(expr, Literal) or (_is_path(expr) and isinstance(value, dict)):
            return
        yield Part(source_of(expr), _format_outcome(value), depth)
        if isinstance(expr, Comprehension):
            yield from self.parts(expr.iter_range, depth + 1)
        elif not _is_path(expr):
            for part in children(expr):
                yield from self.parts(part, depth + 1)

    def _values(self, expr: Expr) -> list[tuple[str, str]]:
        """Return the paths that a part reads, each once, with their values. Whole maps are left out."""
        found: dict[str, str] = {}
        if isinstance(expr, Select) and expr.test_only:
            tested = Select(expr.id, expr.offset, expr.operand, expr.name)
            value = self._value(tested)
            return [] if isinstance(value, CelError) else [(source_of(tested), format_value(value))]
        pending = [expr]
        while pending:
            part = pending.pop(0)
            if isinstance(part, Comprehension):
                pending.append(part.iter_range)
            elif part is not expr and _is_path(part):
                value = self._value(part)
                if not isinstance(value, CelError | dict):
                    found[source_of(part)] = format_value(value)
            else:
                pending += children(part)
        return list(found.items())

    def _value(self, expr: Expr) -> Value | CelError:
        try:
            return plan(expr, self._options).evaluate(self._bindings)[0]
        except CelError as error:
            return error
        except TypeError:  # it uses a variable of an enclosing macro
            return CelError("not known here")


def _format_outcome(value: Value | CelError) -> str:
    return f"error: {value}" if isinstance(value, CelError) else format_value(value)


def _is_path(expr: Expr) -> bool:
    """Whether this is a variable, or a field or entry of one."""
    match expr:
        case Ident():
            return expr.variable is not None
        case Select():
            return not expr.test_only and _is_path(expr.operand)
        case Call() if expr.function in (op.INDEX, op.OPTIONAL_INDEX):
            return _is_path(expr.args[0]) and isinstance(expr.args[1], Literal)
    return False


def format_value(value: Value) -> str:
    """Format a value in CEL syntax, shortened."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, str):
        text = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    elif isinstance(value, list):
        text = f"[{', '.join(map(format_value, value[:8]))}{', …' if len(value) > 8 else ''}]"
    elif isinstance(value, dict):
        entries = [f"{format_value(key)}: {format_value(item)}" for key, item in list(value.items())[:8]]
        text = f"{{{', '.join(entries)}{', …' if len(value) > 8 else ''}}}"
    else:
        text = str(value)
    return text if len(text) <= 200 else f"{text[:199]}…"


def source_of(expr: Expr) -> str:
    """Format an expression as source."""
    match expr:
        case Literal():
            return format_value(expr.value)
        case Ident():
            return expr.name
        case Select():
            path = f"{_tight(expr.operand)}.{expr.name}"
            return f"has({path})" if expr.test_only else path
        case Call():
            return _call_text(expr)
        case ListExpr():
            return f"[{', '.join(map(source_of, expr.elements))}]"
        case MapExpr():
            return f"{{{', '.join(f'{source_of(each.key)}: {source_of(each.value)}' for each in expr.entries)}}}"
        case StructExpr():
            return f"{expr.type_name}{{{', '.join(f'{each.name}: {source_of(each.value)}' for each in expr.fields)}}}"
        case Comprehension():
            return _loop_text(expr)
    return "…"


def _call_text(call: Call) -> str:
    args = call.args
    match call.function:
        case op.AND:
            return f"{_tight(args[0])} && {_tight(args[1])}"
        case op.OR:
            return f"{_tight(args[0])} || {_tight(args[1])}"
        case op.NOT:
            return f"!{_tight(args[0])}"
        case op.NEGATE:
            return f"-{_tight(args[0])}"
        case op.CONDITIONAL:
            return f"{_tight(args[0])} ? {_tight(args[1])} : {_tight(args[2])}"
        case op.INDEX:
            return f"{_tight(args[0])}[{source_of(args[1])}]"
        case op.OPTIONAL_INDEX:
            return f"{_tight(args[0])}[?{source_of(args[1])}]"
        case op.OPTIONAL_SELECT:
            return f"{_tight(args[0])}.?{source_of(args[1]).strip(chr(39))}"
    if call.function in _SIGNS:
        return f"{_tight(args[0])} {_SIGNS[call.function]} {_tight(args[1])}"
    of = f"{_tight(call.target)}." if call.target is not None else ""
    return f"{of}{call.function}({', '.join(map(source_of, args))})"


def _tight(expr: Expr) -> str:
    text = source_of(expr)
    return f"({text})" if isinstance(expr, Call) and expr.function in _LOOSE else text


def _loop_text(loop: Comprehension) -> str:
    names = loop.iter_var if loop.iter_var2 is None else f"{loop.iter_var}, {loop.iter_var2}"
    quantifier = loop.quantifier
    if quantifier is None:
        return f"{_tight(loop.iter_range)}.…({names}, …)"
    macro = "exists" if quantifier.decisive else "all"
    return f"{_tight(loop.iter_range)}.{macro}({names}, {source_of(quantifier.predicate)})"
