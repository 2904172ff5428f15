"""Static type checking: resolve names and overloads, and annotate every node with its type.

The rules are those of cel-go's checker, because users see positions and messages of issues. Types of generic functions
are inferred by unification: each use of a type parameter gets a fresh variable, and `Bindings` records the inferred
types. With `lenient=True` nothing is reported and everything is dyn: this prepares an unchecked expression for
evaluation. Called by environment.py; read next: estimator.py and codegen.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from . import operators as op
from . import syntax
from .library import Constant, Overload
from .parser import Source
from .types import (
    BOOL,
    BYTES,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    UINT,
    Kind,
    ObjectType,
    Type,
    list_of,
    map_of,
    optional_of,
)
from .unification import Bindings, more_general
from .values import UInt
from .wrappers import WRAPPERS


class Declarations(NamedTuple):
    """All names that an expression may use, collected by environment.py."""

    container: str
    variables: Mapping[str, Type]
    functions: Mapping[str, Sequence[Overload]]
    constants: Mapping[str, Constant]
    """Named values, and the names of types."""
    objects: Mapping[str, ObjectType]

    def candidates(self, name: str) -> Iterator[str]:
        """Yield the qualified names that a name may mean in the container: `a.b.x`, `a.x`, `x`; `.x` only itself."""
        if name.startswith("."):
            yield name[1:]
            return
        scope = self.container
        while scope:
            yield f"{scope}.{name}"
            scope = scope.rpartition(".")[0]
        yield name

    def function(self, name: str) -> Sequence[Overload] | None:
        for candidate in self.candidates(name):
            overloads = self.functions.get(candidate)
            if overloads is not None:
                return overloads
        return None


def check(source: Source, expr: syntax.Expr, declarations: Declarations, *, lenient: bool = False) -> None:
    """Annotate the tree with types; report issues to the source."""
    checker = _Checker(source, declarations, lenient)
    checker.check(expr)
    checker.finish()


_LITERALS: Mapping[type, Type] = {
    bool: BOOL,
    int: INT,
    UInt: UINT,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
    type(None): NULL,
}


class _Checker:
    def __init__(self, source: Source, declarations: Declarations, lenient: bool) -> None:
        self._source = source
        self._declarations = declarations
        self._lenient = lenient
        self._bindings = Bindings()
        self._scopes: list[dict[str, Type]] = []
        self._checked: list[syntax.Expr] = []

    def finish(self) -> None:
        """Resolve all type variables at the end; unbound ones become dyn."""
        for expr in self._checked:
            if expr.type.params or expr.type.kind is Kind.PARAM:
                expr.type = self._bindings.resolve(expr.type, open_as_dyn=True)

    def _report(self, offset: int, message: str) -> None:
        if not self._lenient:
            self._source.report(offset, message)

    def check(self, expr: syntax.Expr) -> Type:
        found = _CHECKS[expr.__class__](self, expr)
        expr.type = DYN if self._lenient else found
        self._checked.append(expr)
        return expr.type

    # Names

    def _ident(self, expr: syntax.Ident) -> Type:
        local = self._local(expr.name)
        if local is not None:
            return local
        found = self._resolve(expr, expr.name)
        if found is not None:
            return found
        if self._lenient:
            expr.variable = expr.name.lstrip(".")
            return DYN
        self._report_undeclared(expr.offset, expr.name)
        return ERROR

    def _report_undeclared(self, offset: int, name: str) -> None:
        name = name.removeprefix(".")
        self._report(offset, f"undeclared reference to '{name}' (in container '{self._declarations.container}')")

    def _local(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def _resolve(self, ident: syntax.Ident, name: str) -> Type | None:
        for candidate in self._declarations.candidates(name):
            variable = self._declarations.variables.get(candidate)
            if variable is not None:
                ident.variable = candidate
                return variable
            constant = self._declarations.constants.get(candidate)
            if constant is not None:
                ident.constant = syntax.Literal(ident.id, ident.offset, constant.value)
                return constant.type
        return None

    def _qualified_name(self, expr: syntax.Expr) -> str | None:
        """Return the dotted name that an expression spells, unless it starts with a local variable."""
        name = syntax.dotted_name(expr)
        return name if name is not None and self._local(name.partition(".")[0]) is None else None

    # Selection

    def _select(self, expr: syntax.Select) -> Type:
        name = None if expr.test_only else self._qualified_name(expr)
        if name is not None:
            ident = syntax.Ident(expr.id, expr.offset, name)
            found = self._resolve(ident, name)
            if found is not None:
                ident.type = found
                expr.resolved = ident
                self._checked.append(ident)
                return found
        operand = self._bindings.resolve(self.check(expr.operand))
        selected = self._field(expr.offset, operand, expr.name, optional=False)
        return BOOL if expr.test_only else selected

    def _field(self, offset: int, operand: Type, name: str, *, optional: bool) -> Type:
        """Return the type of a field or map value. Selecting from an optional gives an optional."""
        if operand.is_optional:
            return _as_optional(self._field(offset, operand.params[0], name, optional=True))
        if operand.kind is Kind.MAP:
            return operand.params[1]
        if operand.kind is Kind.OBJECT:
            declared = self._declarations.objects.get(operand.name)
            field = declared.fields.get(name) if declared is not None else None
            if field is not None:
                return field.type
            self._report(offset, f"undefined field '{name}'")
            return ERROR
        if operand.kind is Kind.PARAM:
            self._bindings.assign(operand, DYN)
            return DYN
        if not operand.is_dyn and not optional:
            self._report(offset, f"type '{operand}' does not support field selection")
            return ERROR
        return DYN

    def _optional_select(self, call: syntax.Call) -> Type:
        operand = self._bindings.resolve(self.check(call.args[0]))
        self.check(call.args[1])
        name = call.args[1]
        if not isinstance(name, syntax.Literal) or not isinstance(name.value, str):
            self._report(name.offset, "unsupported optional field selection")
            return ERROR
        return _as_optional(self._field(call.offset, operand, name.value, optional=True))

    # Calls

    def _call(self, call: syntax.Call) -> Type:
        if call.function == op.OPTIONAL_SELECT:
            return self._optional_select(call)
        args: list[Type] = []
        for arg in call.args:
            args.append(self.check(arg))  # noqa: PERF401  a comprehension would be one more frame a level
        if call.target is not None:
            prefix = self._qualified_name(call.target)
            namespaced = None if prefix is None else self._declarations.function(f"{prefix}.{call.function}")
            if namespaced is not None:
                call.function = f"{prefix}.{call.function}".removeprefix(".")
                call.target = None
                return self._overload(call, namespaced, args)
            args.insert(0, self.check(call.target))
        overloads = self._declarations.function(call.function)
        if overloads is None:
            self._report_undeclared(call.offset, call.function)
            return ERROR
        call.function = call.function.removeprefix(".")
        return self._overload(call, overloads, args)

    def _overload(self, call: syntax.Call, overloads: Sequence[Overload], args: Sequence[Type]) -> Type:
        member = call.target is not None
        result: Type | None = None
        matching: list[Overload] = []
        for overload in overloads:
            if overload.member is not member or len(overload.args) != len(args):
                continue
            *wanted, returned = self._bindings.fresh((*overload.args, overload.result))
            if not self._bindings.assign_all(args, wanted):
                continue
            matching.append(overload)
            returned = self._bindings.resolve(returned)
            if result is None:
                result = returned
            elif result.kind is not Kind.DYN and returned != result:
                result = DYN
        call.overloads = matching
        if result is None:
            self._no_overload(call, args)
            return ERROR
        return result

    def _no_overload(self, call: syntax.Call, args: Sequence[Type]) -> None:
        shown = [str(self._bindings.resolve(each, open_as_dyn=True)) for each in args]
        target = f"{shown.pop(0)}." if call.target is not None else ""
        signature = f"{target}({', '.join(shown)})"
        self._report(call.offset, f"found no matching overload for '{call.function}' applied to '{signature}'")

    # Literals with parts

    def _list(self, expr: syntax.ListExpr) -> Type:
        element: Type | None = None
        for index, each in enumerate(expr.elements):
            found = self.check(each)
            if index in expr.optional:
                found = self._unwrap_optional(each, found)
            element = self._join_types(element, found)
        return list_of(element or self._bindings.variable())

    def _map(self, expr: syntax.MapExpr) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in expr.entries:
            key = self._join_types(key, self.check(entry.key))
            found = self.check(entry.value)
            if entry.optional:
                found = self._unwrap_optional(entry.value, found)
            value = self._join_types(value, found)
        return map_of(key or self._bindings.variable(), value or self._bindings.variable())

    def _unwrap_optional(self, expr: syntax.Expr, found: Type) -> Type:
        resolved = self._bindings.resolve(found)
        if resolved.is_optional:
            return resolved.params[0]
        if not resolved.is_dyn:
            self._report(expr.offset, f"expected type 'optional_type({resolved})' but found '{resolved}'")
        return DYN

    def _join_types(self, previous: Type | None, current: Type) -> Type:
        """Return the common element type. Mixed elements are dyn; a validator may reject them later."""
        if previous is None:
            return current
        if self._bindings.assign(previous, current):
            return more_general(previous, current)
        return DYN

    def _struct(self, expr: syntax.StructExpr) -> Type:
        declared: ObjectType | None = None
        for candidate in self._declarations.candidates(expr.type_name):
            wrapper = WRAPPERS.get(candidate)
            declared = wrapper.declaration if wrapper is not None else self._declarations.objects.get(candidate)
            if declared is not None:
                break
        if declared is None:
            self._report_undeclared(expr.offset, expr.type_name)
        for each in expr.fields:
            found = self.check(each.value)
            if each.optional:
                found = self._unwrap_optional(each.value, found)
            field = declared.fields.get(each.name) if declared is not None else None
            if declared is None:
                continue
            if field is None:
                self._report(each.offset, f"undefined field '{each.name}'")
            elif not self._bindings.assign(field.type, found):
                types = f"'{field.type}' but provided type is '{self._bindings.resolve(found, open_as_dyn=True)}'"
                self._report(each.offset, f"expected type of field '{each.name}' is {types}")
        if declared is None:
            return ERROR
        expr.type_name = declared.name
        wrapper = WRAPPERS.get(declared.name)
        return wrapper.type if wrapper is not None else declared.type

    # Loops

    def _comprehension(self, expr: syntax.Comprehension) -> Type:
        range_type = self._bindings.resolve(self.check(expr.iter_range))
        accumulated = self.check(expr.accu_init)
        self._scopes.append({expr.accu_var: accumulated})
        self._scopes.append(self._iteration_variables(expr, range_type))
        self._assert(expr.condition, self.check(expr.condition), BOOL)
        self._assert(expr.step, self.check(expr.step), accumulated)
        self._scopes.pop()
        result = self.check(expr.result)
        self._scopes.pop()
        return self._bindings.resolve(result)

    def _iteration_variables(self, expr: syntax.Comprehension, range_type: Type) -> dict[str, Type]:
        first, second = DYN, DYN
        if range_type.kind is Kind.LIST:
            first, second = INT, range_type.params[0]
        elif range_type.kind is Kind.MAP:
            first, second = range_type.params
        elif range_type.is_dyn:
            self._bindings.assign(DYN, range_type)
        else:
            self._report(
                expr.iter_range.offset,
                f"expression of type '{range_type}' cannot be range of a comprehension (must be list, map, or dynamic)",
            )
            first = second = ERROR
        if expr.iter_var2 is None:
            return {expr.iter_var: second if range_type.kind is Kind.LIST else first}
        return {expr.iter_var: first, expr.iter_var2: second}

    def _assert(self, expr: syntax.Expr, found: Type, expected: Type) -> None:
        if not self._bindings.assign(expected, found):
            shown = self._bindings.resolve(expected, open_as_dyn=True), self._bindings.resolve(found, open_as_dyn=True)
            self._report(expr.offset, f"expected type '{shown[0]}' but found '{shown[1]}'")


def _as_optional(found: Type) -> Type:
    return found if found.is_optional else optional_of(found)


_CHECKS: Final[Mapping[type[syntax.Expr], Callable[[_Checker, Any], Type]]] = {
    syntax.Literal: lambda _, literal: _LITERALS[literal.value.__class__],
    syntax.Call: _Checker._call,
    syntax.Select: _Checker._select,
    syntax.Ident: _Checker._ident,
    syntax.ListExpr: _Checker._list,
    syntax.MapExpr: _Checker._map,
    syntax.StructExpr: _Checker._struct,
    syntax.Comprehension: _Checker._comprehension,
}
