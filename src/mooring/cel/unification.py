"""Unification: decide which types agree, and bind type variables so that they do. Used by checker.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .types import DYN, Kind, Type, param, walk


def _replace_params(each: Type, by_name: Mapping[str, Type]) -> Type:
    if each.kind is Kind.PARAM:
        return by_name[each.name]
    if not each.params:
        return each
    return Type(each.kind, each.name, tuple([_replace_params(inner, by_name) for inner in each.params]))


_NULLABLE = frozenset({Kind.NULL, Kind.OPAQUE, Kind.OBJECT, Kind.DURATION, Kind.TIMESTAMP})


def more_general(a: Type, b: Type) -> Type:
    return a if _covers(a, b) else b


def _covers(a: Type, b: Type) -> bool:
    """Whether a value of type b can be used as type a."""
    if a.is_dyn or (b.kind is Kind.NULL and a.kind in _NULLABLE):
        return True
    if b.is_dyn or a.kind is not b.kind or a.name != b.name:
        return False
    if a.kind is Kind.TYPE:
        return True
    return len(a.params) == len(b.params) and all(map(_covers, a.params, b.params))


_WITH_PARAMS = frozenset({Kind.LIST, Kind.MAP, Kind.OPAQUE})


class Bindings:
    """The types bound to type variables."""

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._variables = 0

    def variable(self) -> Type:
        self._variables += 1
        return param(f"_var{self._variables}")

    def fresh(self, signature: tuple[Type, ...]) -> tuple[Type, ...]:
        """Return the signature with fresh variables in place of its type parameters."""
        names = {each.name for each in walk(signature) if each.kind is Kind.PARAM}
        if not names:
            return signature
        variables = {name: self.variable() for name in names}
        return tuple([_replace_params(each, variables) for each in signature])

    def resolve(self, each: Type, *, open_as_dyn: bool = False) -> Type:
        if each.kind is Kind.PARAM:
            bound = self._bound.get(each.name)
            if bound is not None:
                return self.resolve(bound, open_as_dyn=open_as_dyn)
            return DYN if open_as_dyn else each
        if not each.params:
            return each
        params = tuple([self.resolve(inner, open_as_dyn=open_as_dyn) for inner in each.params])
        return each if params == each.params else Type(each.kind, each.name, params)

    def assign(self, a: Type, b: Type) -> bool:
        """Whether the types agree; if so, bind their variables, otherwise change nothing."""
        return self.assign_all((a,), (b,))

    def assign_all(self, left: Iterable[Type], right: Iterable[Type]) -> bool:
        before = dict(self._bound)
        if all(map(self._agree, left, right)):
            return True
        self._bound = before
        return False

    def _agree(self, a: Type, b: Type) -> bool:
        if b.kind is Kind.PARAM:
            agrees, was_bound = self._substitute(a, b)
            if agrees:
                return True
            if was_bound:
                return False
        if a.kind is Kind.PARAM:
            return self._substitute(b, a)[0]
        if a.is_dyn or b.is_dyn:
            return True
        if Kind.WRAPPER in (a.kind, b.kind):
            if Kind.NULL in (a.kind, b.kind):
                return True
            a, b = (each.params[0] if each.kind is Kind.WRAPPER else each for each in (a, b))
        if a.kind is Kind.NULL or b.kind is Kind.NULL:
            return (b if a.kind is Kind.NULL else a).kind in _NULLABLE
        if a.kind is Kind.TYPE:
            return b.kind is Kind.TYPE
        if a.kind is not b.kind or a.name != b.name or len(a.params) != len(b.params):
            return False
        return a.kind not in _WITH_PARAMS or all(map(self._agree, a.params, b.params))

    def _substitute(self, found: Type, variable: Type) -> tuple[bool, bool]:
        """Try to bind the variable to the type; also return whether it was bound before."""
        if found == variable:
            return True, True
        bound = self._bound.get(variable.name)
        if bound is not None:
            if found == bound:
                return True, True
            if not self._agree(found, bound):
                return False, True
            general = more_general(found, bound)
            if not self._refers(general, variable):
                self._bound[variable.name] = general
            return True, True
        if self._refers(found, variable):
            return False, False
        self._bound[variable.name] = found
        return True, False

    def _refers(self, each: Type, variable: Type) -> bool:
        """Whether the variable occurs in the type; binding it would be infinite."""
        if each == variable:
            return True
        if each.kind is Kind.PARAM:
            bound = self._bound.get(each.name)
            return bound is not None and self._refers(bound, variable)
        return any(self._refers(inner, variable) for inner in each.params)
