"""Find labels and fields that a CEL expression reads without checking that they exist.

`'gpu' in node.labels && node.labels['gpu'] == 'a100'` is guarded, also with the operands swapped: CEL ignores an error
on one side of `&&` if the other is false, and on one side of `||` if the other is true. Called by ``expressions.py``.
"""

from typing import NamedTuple

from mooring.cel import operators as op
from mooring.cel.syntax import Call, Expr, Ident, Literal, Select, children
from mooring.cel.types import Kind


class Access(NamedTuple):
    """A place where a CEL expression reads a field of a variable, or a key of a map."""

    path: tuple[str, ...]
    key: str

    def __str__(self) -> str:
        """Return the access as written in CEL."""
        base = ".".join(self.path)
        return f"{base}.{self.key}" if self.path == ("taint",) else f"{base}['{self.key}']"


class _KnownPresence(NamedTuple):
    if_true: frozenset[Access]
    if_false: frozenset[Access]


_NOTHING: frozenset[Access] = frozenset()
_UNKNOWN = _KnownPresence(_NOTHING, _NOTHING)


def find_unguarded(root: Expr) -> list[Access]:
    """Return what an expression reads without checking that it exists: labels and fields, each once, in order."""
    found: dict[Access, None] = {}
    _collect_unguarded(root, _NOTHING, found)
    return list(found)


def access_of(expr: Expr) -> Access | None:
    """Return the read of a label or `taint.timeAdded` if this expression itself is one; None for others."""
    if isinstance(expr, Select) and expr.resolved is None:
        container: Expr = expr.operand
        key: Expr | str = expr.name
    elif isinstance(expr, Call) and expr.function in (op.INDEX, op.OPTIONAL_INDEX):
        container, key = expr.args
    else:
        return None
    return _build_access(container, key)


def presence_check_of(expr: Expr) -> Access | None:
    """Return the field or key whose existence an expression checks, by `has(a.b)` or `'b' in a`; None for others."""
    if isinstance(expr, Select):
        return _build_access(expr.operand, expr.name) if expr.test_only else None
    if isinstance(expr, Call) and expr.function == op.IN:
        return _build_access(expr.args[1], expr.args[0])
    return None


def _build_access(container: Expr, key: Expr | str) -> Access | None:
    name = key.value if isinstance(key, Literal) else key
    path = _path_of(container)
    if path is None or not isinstance(name, str):
        return None
    return Access(path, name) if container.type.kind is Kind.MAP or name == "timeAdded" else None


def _path_of(expr: Expr) -> tuple[str, ...] | None:
    if isinstance(expr, Ident):
        return None if expr.variable is None else (expr.variable,)
    if isinstance(expr, Select) and not expr.test_only:
        base = _path_of(expr.operand)
        return None if base is None else (*base, expr.name)
    return None


def _collect_unguarded(expr: Expr, known: frozenset[Access], found: dict[Access, None]) -> None:
    if presence_check_of(expr) is not None or (isinstance(expr, Call) and expr.function == op.OPTIONAL_INDEX):
        return
    read = access_of(expr)
    if read is not None:
        if read not in known:
            found.setdefault(read)
        return
    if isinstance(expr, Call) and expr.function in (op.AND, op.OR):
        left, right = expr.args
        side = 0 if expr.function == op.AND else 1
        _collect_unguarded(left, known | _presence_by_result(right)[side], found)
        _collect_unguarded(right, known | _presence_by_result(left)[side], found)
    elif isinstance(expr, Call) and expr.function == op.CONDITIONAL:
        condition, yes, no = expr.args
        _collect_unguarded(condition, known, found)
        _collect_unguarded(yes, known | _presence_by_result(condition).if_true, found)
        _collect_unguarded(no, known | _presence_by_result(condition).if_false, found)
    else:
        for child in children(expr):
            _collect_unguarded(child, known, found)


def _presence_by_result(expr: Expr) -> _KnownPresence:
    asked = presence_check_of(expr)
    if asked is not None:
        return _KnownPresence(frozenset({asked}), _NOTHING)
    if not isinstance(expr, Call):
        return _UNKNOWN
    match expr.function:
        case op.NOT:
            inner = _presence_by_result(expr.args[0])
            return _KnownPresence(inner.if_false, inner.if_true)
        case op.AND:
            left, right = (_presence_by_result(arg) for arg in expr.args)
            return _KnownPresence(left.if_true | right.if_true, left.if_false & right.if_false)
        case op.OR:
            left, right = (_presence_by_result(arg) for arg in expr.args)
            return _KnownPresence(left.if_true & right.if_true, left.if_false | right.if_false)
    return _UNKNOWN
