"""What an expression reads of its variables, so that callers evaluate it once per distinct input.

For `node.labels['rack'] == 'a' && has(node.labels.zone)` it is `{("node", "labels"): frozenset({"rack", "zone"})}`.
None instead of the keys means "the whole map": the expression iterates over it, measures it or computes a key. A field
that is no map has None too. Called by environment.py; used by the scheduler's columns.
"""

from __future__ import annotations

from collections.abc import Mapping

from . import operators as op
from .syntax import Call, Expr, Ident, Literal, Select, children
from .types import Kind

Path = tuple[str, ...]
Reads = Mapping[Path, frozenset[str] | None]


def reads(root: Expr) -> Reads:
    """By path of variable and fields, the constant keys that are read there, or None for all of it."""
    found: dict[Path, set[str] | None] = {}
    stack = [root]
    while stack:
        expr = stack.pop()
        path, key, rest = _access(expr)
        if path is None:
            stack.extend(children(expr))
            continue
        stack.extend(rest)
        if key is None:
            found[path] = None
        elif (keys := found.setdefault(path, set())) is not None:
            keys.add(key)
    return {path: None if keys is None else frozenset(keys) for path, keys in found.items()}


def _access(expr: Expr) -> tuple[Path | None, str | None, list[Expr]]:
    """The path that an expression reads, the constant key in the map at its end, and what else it consists of."""
    container, key, rest = _keyed(expr)
    if container is not None and container.type.kind is Kind.MAP:
        path = _path(container)
        if path is not None:
            return path, key, rest
    return _path(expr), None, []


def _keyed(expr: Expr) -> tuple[Expr | None, str | None, list[Expr]]:
    """Takes `m.k`, `has(m.k)`, `m['k']`, `m[?'k']` and `'k' in m` apart."""
    if isinstance(expr, Select):
        return expr.operand, expr.name, []
    if not isinstance(expr, Call) or len(expr.args) != 2:
        return None, None, []
    if expr.function in (op.INDEX, op.OPTIONAL_INDEX, op.OPTIONAL_SELECT):
        container, key = expr.args
    elif expr.function == op.IN:
        key, container = expr.args
    else:
        return None, None, []
    if isinstance(key, Literal) and isinstance(key.value, str):
        return container, key.value, []
    return container, None, [key]


def _path(expr: Expr) -> Path | None:
    """Variable and fields of objects, such as ("node", "labels"); None for anything else."""
    if isinstance(expr, Ident):
        return (expr.variable,) if expr.variable is not None else None
    if isinstance(expr, Select):
        if expr.resolved is not None:
            return _path(expr.resolved)
        if expr.operand.type.kind is Kind.OBJECT:
            operand = _path(expr.operand)
            return None if operand is None else (*operand, expr.name)
    return None
