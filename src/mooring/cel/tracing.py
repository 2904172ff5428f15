"""Why an expression is not true: which of its parts are false or have no value, and on which values.

    trace(program, {"node": {"labels": {"zone": "eu-1"}}})
    (Finding("node.labels['zone'] == 'us-1'", "false", (("node.labels['zone']", "'eu-1'"),)),)

`&&`, `||`, `!` and `?:` are walked through; what is below them is a part that is judged as a whole. Macros are shown as
they were written, as far as they can be told from what they unfold to. For people who ask why, so nothing here is fast.
`parts` gives every sub-expression with its value, whatever comes of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from . import operators as op
from .environment import Program
from .errors import CelError
from .interpreter import Options, plan
from .syntax import Call, Comprehension, Expr, Ident, ListExpr, Literal, MapExpr, Select, StructExpr, children
from .values import Value

_SIGNS = {sign: text for text, sign in op.BINARY.items()}
_LOOSE = frozenset({op.AND, op.OR, op.CONDITIONAL, *_SIGNS})
"""Operators whose text needs parentheses within another operator."""
_MOST_PARTS = 60


class Finding(NamedTuple):
    """A part of an expression, what came of it, and the values it was made from."""

    text: str
    outcome: str
    """`false`, `true` (where that is the trouble), or `error: no such key: zone`."""
    values: tuple[tuple[str, str], ...] = ()
    """Text and value of what the part looks at."""

    def __str__(self) -> str:
        seen = ", ".join(f"{text} is {value}" for text, value in self.values)
        outcome = f"fails ({self.outcome.removeprefix('error: ')})" if self.is_error else f"is {self.outcome}"
        return f"`{self.text}` {outcome}" + (f": {seen}" if seen else "")

    @property
    def is_error(self) -> bool:
        return self.outcome.startswith("error: ")


def trace(program: Program, bindings: Mapping[str, Value]) -> tuple[Finding, ...]:
    """The parts that keep a boolean expression from being true; none when it is true or does not compile."""
    compiled = program._compiled
    if compiled is None:
        return ()
    return tuple(_Tracer(compiled.options, bindings).against(compiled.expr, wanted=True))


class Part(NamedTuple):
    """A sub-expression, how deep it is, and what came of it."""

    text: str
    outcome: str
    """A value as CEL writes it, or `error: no such key: zone`."""
    depth: int


def parts(program: Program, bindings: Mapping[str, Value]) -> tuple[Part, ...]:
    """The whole expression and what it is made of, each with its value; literals say themselves what they are.

    Of an expression with very many parts the first ones.
    """
    compiled = program._compiled
    if compiled is None:
        return ()
    return tuple(islice(_Tracer(compiled.options, bindings).parts(compiled.expr, 0), _MOST_PARTS))


class _Tracer:
    def __init__(self, options: Options, bindings: Mapping[str, Value]) -> None:
        self._options = options
        self._bindings = bindings

    def against(self, expr: Expr, *, wanted: bool) -> list[Finding]:
        """Why a part is not what is wanted."""
        value = self._value(expr)
        if value is wanted:
            return []
        if isinstance(expr, Call) and expr.function == op.NOT:
            return self.against(expr.args[0], wanted=not wanted)
        if isinstance(expr, Call) and expr.function in (op.AND, op.OR):
            return [each for part in expr.args for each in self.against(part, wanted=wanted)]
        if isinstance(expr, Call) and expr.function == op.CONDITIONAL:
            condition = self._value(expr.args[0])
            if isinstance(condition, bool):
                return self.against(expr.args[1 if condition else 2], wanted=wanted)
            return self.against(expr.args[0], wanted=True)
        return [Finding(text_of(expr), _outcome(value), tuple(self._values(expr)))]

    def parts(self, expr: Expr, depth: int) -> Iterator[Part]:
        value = self._value(expr)
        if isinstance(expr, Literal) or (_is_path(expr) and isinstance(value, dict)):
            return
        yield Part(text_of(expr), _outcome(value), depth)
        if isinstance(expr, Comprehension):
            yield from self.parts(expr.iter_range, depth + 1)
        elif not _is_path(expr):
            for part in children(expr):
                yield from self.parts(part, depth + 1)

    def _values(self, expr: Expr) -> list[tuple[str, str]]:
        """What a part looks at: variables with a path behind them, each once. Whole maps would say too much."""
        found: dict[str, str] = {}
        if isinstance(expr, Select) and expr.test_only:
            tested = Select(expr.id, expr.offset, expr.operand, expr.name)
            value = self._value(tested)
            return [] if isinstance(value, CelError) else [(text_of(tested), shown(value))]
        pending = [expr]
        while pending:
            part = pending.pop(0)
            if isinstance(part, Comprehension):
                pending.append(part.iter_range)
            elif part is not expr and _is_path(part):
                value = self._value(part)
                if not isinstance(value, CelError | dict):
                    found[text_of(part)] = shown(value)
            else:
                pending += children(part)
        return list(found.items())

    def _value(self, expr: Expr) -> Value | CelError:
        try:
            return plan(expr, self._options).evaluate(self._bindings)[0]
        except CelError as error:
            return error
        except TypeError:  # it has a variable of a macro around it
            return CelError("not known here")


def _outcome(value: Value | CelError) -> str:
    return f"error: {value}" if isinstance(value, CelError) else shown(value)


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


def shown(value: Value) -> str:
    """A value as CEL writes it, shortened."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, str):
        text = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    elif isinstance(value, list):
        text = f"[{', '.join(map(shown, value[:8]))}{', …' if len(value) > 8 else ''}]"
    elif isinstance(value, dict):
        entries = [f"{shown(key)}: {shown(item)}" for key, item in list(value.items())[:8]]
        text = f"{{{', '.join(entries)}{', …' if len(value) > 8 else ''}}}"
    else:
        text = str(value)
    return text if len(text) <= 200 else f"{text[:199]}…"


def text_of(expr: Expr) -> str:
    """An expression as it may have been written."""
    match expr:
        case Literal():
            return shown(expr.value)
        case Ident():
            return expr.name
        case Select():
            path = f"{_tight(expr.operand)}.{expr.name}"
            return f"has({path})" if expr.test_only else path
        case Call():
            return _call_text(expr)
        case ListExpr():
            return f"[{', '.join(map(text_of, expr.elements))}]"
        case MapExpr():
            return f"{{{', '.join(f'{text_of(each.key)}: {text_of(each.value)}' for each in expr.entries)}}}"
        case StructExpr():
            return f"{expr.type_name}{{{', '.join(f'{each.name}: {text_of(each.value)}' for each in expr.fields)}}}"
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
            return f"{_tight(args[0])}[{text_of(args[1])}]"
        case op.OPTIONAL_INDEX:
            return f"{_tight(args[0])}[?{text_of(args[1])}]"
        case op.OPTIONAL_SELECT:
            return f"{_tight(args[0])}.?{text_of(args[1]).strip(chr(39))}"
    if call.function in _SIGNS:
        return f"{_tight(args[0])} {_SIGNS[call.function]} {_tight(args[1])}"
    of = f"{_tight(call.target)}." if call.target is not None else ""
    return f"{of}{call.function}({', '.join(map(text_of, args))})"


def _tight(expr: Expr) -> str:
    text = text_of(expr)
    return f"({text})" if isinstance(expr, Call) and expr.function in _LOOSE else text


def _loop_text(loop: Comprehension) -> str:
    names = loop.iter_var if loop.iter_var2 is None else f"{loop.iter_var}, {loop.iter_var2}"
    quantifier = loop.quantifier
    if quantifier is None:
        return f"{_tight(loop.iter_range)}.…({names}, …)"
    macro = "exists" if quantifier.decisive else "all"
    return f"{_tight(loop.iter_range)}.{macro}({names}, {text_of(quantifier.predicate)})"
