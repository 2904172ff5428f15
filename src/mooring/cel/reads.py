"""Find which parts of its variables an expression reads, so that callers evaluate it once per distinct input.

For `node.labels['rack'] == 'a' && has(node.labels.zone)` it is `{("node", "labels"): frozenset({"rack", "zone"})}`.
None instead of keys means the whole map: the expression iterates over it, takes its size or computes a key. A field
that is not a map has None too.

Paths also lead into dynamic values, and in loops over them through their items (`ITEMS`). If only presence or the
number of items matters, the set is empty. For `has(d.a) && d.list.all(x, x.name != '')` it is `{("d", "a"):
frozenset(), ("d", "list", "*"): frozenset(), ("d", "list", "*", "name"): None}`.

Called by environment.py; used by the scheduler's columns and by policies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from . import operators as op
from .syntax import Call, Comprehension, Expr, Ident, Literal, Select, children
from .types import Kind

ITEMS: Final = "*"
Path = tuple[str, ...]
Scope = Mapping[str, Path]
"""The paths of local variables."""
Reads = Mapping[Path, frozenset[str] | None]


def find_reads(root: Expr) -> Reads:
    """Return the constant keys read at each path of variable and fields, or None for the whole value."""
    found: dict[Path, set[str] | None] = {}
    stack: list[tuple[Expr, Scope]] = [(root, {})]
    while stack:
        expr, scope = stack.pop()
        if isinstance(expr, Comprehension):
            stack.extend(_loop(expr, scope, found))
            continue
        path, key, rest = _access(expr, scope)
        if path is None:
            rest = children(expr)
        stack.extend((each, scope) for each in rest)
        if path is None:
            continue
        if isinstance(expr, Select) and expr.test_only and expr.operand.type.is_dyn:
            found.setdefault(path, set())
        elif key is None:
            found[path] = None
        elif (keys := found.setdefault(path, set())) is not None:
            keys.add(key)
    return {path: None if keys is None else frozenset(keys) for path, keys in found.items()}


def _loop(expr: Comprehension, scope: Scope, found: dict[Path, set[str] | None]) -> list[tuple[Expr, Scope]]:
    own = (expr.accu_var, expr.iter_var, expr.iter_var2)
    inner = {name: path for name, path in scope.items() if name not in own}
    after = {name: path for name, path in scope.items() if name != expr.accu_var}
    parts: list[tuple[Expr, Scope]] = [(expr.accu_init, scope), (expr.result, after)]
    path = _path(expr.iter_range, scope)
    if path is not None and expr.iter_range.type.is_dyn and expr.iter_var2 is None:
        inner[expr.iter_var] = (*path, ITEMS)
        found.setdefault((*path, ITEMS), set())  # the number of items always matters
    else:
        parts.append((expr.iter_range, scope))
    return [*parts, (expr.condition, inner), (expr.step, inner)]


def _access(expr: Expr, scope: Scope) -> tuple[Path | None, str | None, list[Expr]]:
    """Return the path that an expression reads, the constant key at its end, and its other subexpressions."""
    container, key, rest = _split_key_access(expr)
    if container is not None and container.type.kind is Kind.MAP:
        path = _path(container, scope)
        if path is not None:
            return path, key, rest
    return _path(expr, scope), None, []


def _split_key_access(expr: Expr) -> tuple[Expr | None, str | None, list[Expr]]:
    """Split `m.k`, `has(m.k)`, `m['k']`, `m[?'k']` and `'k' in m` into container, key and other subexpressions."""
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


def _path(expr: Expr, scope: Scope) -> Path | None:
    """Return variable and fields, such as ("node", "labels"); None for other expressions."""
    if isinstance(expr, Ident):
        return (expr.variable,) if expr.variable is not None else scope.get(expr.name)
    if isinstance(expr, Select):
        if expr.resolved is not None:
            return _path(expr.resolved, scope)
        if expr.operand.type.kind is Kind.OBJECT or expr.operand.type.is_dyn:
            operand = _path(expr.operand, scope)
            return None if operand is None else (*operand, expr.name)
    return None
