"""Environments and programs: the entry point for users of the engine.

    env = Environment(variables={"x": INT}, libraries=(STANDARD,))
    program = env.compile("x * 2 > 10")
    program.issues         ()
    program.output_type    bool
    program.evaluate({"x": 6})    True

An environment is immutable and can be shared between threads; so can programs. `extend` returns a larger one. The
phases that `compile` runs are files of their own: parser.py, checker.py, validators.py, estimator.py, interpreter.py,
codegen.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from . import checker, costs
from .checker import Declarations
from .codegen import Evaluate, generate
from .costs import CallCost, Range
from .counted import EvaluateCounted, generate_counted
from .errors import CompileError, DeclarationError, Issue
from .estimator import Sizes, estimate
from .interpreter import FoldingError, Interpreter, Options, plan
from .library import Constant, Library, Overload
from .parser import MacroTable, Source, parse
from .reads import Reads, find_reads
from .standard import CROSS_TYPE_COMPARISONS, STANDARD
from .syntax import Expr
from .types import DYN, ObjectType, OpenTypes, Type, type_of
from .validators import Validator
from .values import TypeValue, Value


class Evaluation(NamedTuple):
    """A value and the cost of evaluating it."""

    value: Value
    cost: int


def _no_sizes(_path: tuple[str, ...]) -> Range | None:
    return None


class _Settings(NamedTuple):
    """The constructor arguments of an environment."""

    variables: Mapping[str, Type]
    libraries: tuple[Library, ...]
    types: tuple[ObjectType, ...]
    container: str
    optional_syntax: bool
    cross_type_numeric: bool
    optimize: bool
    has_cost: int
    sizes: Sizes
    open_types: tuple[str, ...] = ()


class _MergedLibraries(NamedTuple):
    """The merged declarations of an environment's libraries; immutable and shared by extended environments."""

    functions: dict[str, list[Overload]]
    constants: dict[str, Constant]
    types: dict[str, ObjectType]
    equality: dict[Type, CallCost]
    validators: list[Validator]
    macros: MacroTable


class Environment:
    """The declarations that expressions may use.

    `variables` by name (dots allowed), `types` the object types of their fields, `libraries` whose later ones add
    overloads to earlier ones. `container` is the namespace in which short names are looked up.

    `optional_syntax` allows `a.?b`, `a[?b]`, `[?x]`, `{?k: v}`. `cross_type_numeric` allows `1 < 1.5`. `optimize`
    computes conversions of literals when compiling, so that `int('x')` is an issue and `int('1')` costs nothing.
    `has_cost` is the cost of `has()`. `sizes` says how large variables may be, for the estimate (see estimator.py).
    `open_types` are roots of types that are not declared and have any field (see `types.OpenTypes`).
    """

    def __init__(
        self,
        *,
        variables: Mapping[str, Type] | None = None,
        libraries: Iterable[Library] = (STANDARD,),
        types: Iterable[ObjectType] = (),
        container: str = "",
        optional_syntax: bool = True,
        cross_type_numeric: bool = True,
        optimize: bool = True,
        has_cost: int = 1,
        sizes: Sizes = _no_sizes,
        open_types: Iterable[str] = (),
    ) -> None:
        self._settings = _Settings(
            variables=dict(variables or {}),
            libraries=tuple(libraries),
            types=tuple(types),
            container=container,
            optional_syntax=optional_syntax,
            cross_type_numeric=cross_type_numeric,
            optimize=optimize,
            has_cost=has_cost,
            sizes=sizes,
            open_types=tuple(open_types),
        )
        self._prepare()

    def extend(
        self,
        *,
        variables: Mapping[str, Type] | None = None,
        libraries: Iterable[Library] = (),
        types: Iterable[ObjectType] = (),
        **changed: Any,
    ) -> Environment:
        """Return an environment with additional declarations; other settings are replaced by keyword."""
        old, libraries = self._settings, tuple(libraries)
        extended = object.__new__(Environment)
        extended._settings = old._replace(
            variables={**old.variables, **(variables or {})},
            libraries=(*old.libraries, *libraries),
            types=(*old.types, *types),
            **changed,
        )
        same = not libraries and extended._settings.cross_type_numeric == old.cross_type_numeric
        extended._prepare(self._merged if same else None)
        return extended

    def _prepare(self, merged: _MergedLibraries | None = None) -> None:
        """Build the lookup tables of the phases; `merged` are those of an environment with the same libraries."""
        settings = self._settings
        if merged is None:
            libraries = settings.libraries
            if settings.cross_type_numeric and CROSS_TYPE_COMPARISONS not in libraries:
                libraries = (*libraries, CROSS_TYPE_COMPARISONS)
            merged = _merge_libraries(libraries)
        self._merged = merged
        constants = dict(merged.constants)
        objects = {each.name: each for each in settings.types} | merged.types
        for name, declared in objects.items():
            constants.setdefault(name, Constant(type_of(declared.type), TypeValue(name)))
        if settings.open_types:
            objects = OpenTypes(settings.open_types, objects)
        self._declarations = Declarations(settings.container, settings.variables, merged.functions, constants, objects)
        self._options = Options(objects, merged.equality, settings.has_cost, settings.optimize)

    def compile(self, expression: str, *, check_types: bool = True) -> Program:
        """Compile an expression; check the program's `issues` first. Without type checking every value is dyn."""
        try:
            return self._compile(expression, check_types)
        except RecursionError:
            return self._compile_with_room(expression, check_types)

    def _compile_with_room(self, expression: str, check_types: bool) -> Program:
        """Compile in a new thread, so that the allowed depth does not depend on the caller's stack."""
        import threading  # noqa: PLC0415  hardly ever needed

        made: list[Program] = []

        def run() -> None:
            try:
                made.append(self._compile(expression, check_types))
            except RecursionError:
                source = Source(expression)
                source.report(0, "expression nested too deeply")
                made.append(Program(expression, source.issues))

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return made[0]

    def _compile(self, expression: str, check_types: bool) -> Program:
        source = Source(expression)
        expr = parse(source, self._merged.macros, optional_syntax=self._settings.optional_syntax)
        if expr is not None:
            checker.check(source, expr, self._declarations, lenient=not check_types)
        if expr is not None and check_types and not source.issues:
            for validator in self._merged.validators:
                for where, message in validator(expr):
                    source.report(where.offset, message)
        if expr is None or source.issues:
            return Program(expression, source.issues)
        try:
            interpreter = plan(expr, self._options)
        except FoldingError as error:
            return Program(expression, (Issue(f"program: {error}"),))
        evaluate = generate(expr, self._options, lambda bindings: interpreter.evaluate(bindings)[0])
        cost = Range(0, costs.MAX)
        if check_types:
            settings, options = self._settings, self._options
            cost = estimate(expr, settings.sizes, has_cost=options.has_cost, equality=options.equality)
        return Program(expression, (), _Compiled(expr, cost, self._options, interpreter, evaluate))


def _merge_libraries(libraries: tuple[Library, ...]) -> _MergedLibraries:
    macros = {(macro.name, macro.receiver, macro.args): macro for library in libraries for macro in library.macros}
    merged = _MergedLibraries({}, {}, {}, {}, [], macros)
    for library in libraries:
        for function in library.functions:
            _add_overloads(merged.functions.setdefault(function.name, []), function.name, function.overloads)
        merged.constants.update(library.constants)
        merged.equality.update(library.equality)
        merged.validators.extend(library.validators)
        for each in library.types:
            if isinstance(each, ObjectType):
                merged.types[each.name] = each
            else:
                merged.constants[each.name] = Constant(type_of(each), TypeValue(each.name))
    return merged


def _add_overloads(known: list[Overload], function: str, more: Sequence[Overload]) -> None:
    ids = {each.id: each for each in known}
    for overload in more:
        if ids.setdefault(overload.id, overload) is not overload:
            raise DeclarationError(f"function '{function}' has two overloads '{overload.id}'")
        if overload not in known:
            known.append(overload)


class _Compiled(NamedTuple):
    expr: Expr
    cost: Range
    options: Options
    interpreter: Interpreter
    evaluate: Evaluate


class Program:
    """A compiled expression. `evaluate(bindings)` returns its value or raises `EvaluationError`."""

    __slots__ = (
        "_compiled",
        "_counted",
        "_reads",
        "evaluate",
        "expression",
        "issues",
        "max_cost",
        "min_cost",
        "output_type",
    )

    evaluate: Callable[[Mapping[str, Value]], Value]

    def __init__(self, expression: str, issues: tuple[Issue, ...], compiled: _Compiled | None = None) -> None:
        self.expression = expression
        self.issues = issues
        self._compiled = compiled
        self._counted: EvaluateCounted | None = None
        self._reads: Reads | None = None
        self.output_type: Type = DYN if compiled is None else compiled.expr.type
        self.min_cost, self.max_cost = Range(0, 0) if compiled is None else compiled.cost
        self.evaluate = self._refuse if compiled is None else compiled.evaluate

    def _refuse(self, _bindings: Mapping[str, Value]) -> Value:
        raise CompileError(self.issues)

    def evaluate_counted(self, bindings: Mapping[str, Value], limit: int = costs.MAX) -> Evaluation:
        """Return the value and its cost. Raise `CostLimitExceeded` as soon as the cost exceeds the limit."""
        return Evaluation(*self.counted(bindings, limit))

    @property
    def counted(self) -> EvaluateCounted:
        """`evaluate_counted` for frequent callers, returning a plain pair. Generated on first use."""
        if self._counted is None:
            if self._compiled is None:
                raise CompileError(self.issues)
            compiled = self._compiled
            self._counted = generate_counted(compiled.expr, compiled.options, compiled.interpreter)
        return self._counted

    @property
    def expr(self) -> Expr | None:
        """The checked syntax tree with macros expanded, for static analysis; None if there are issues."""
        return None if self._compiled is None else self._compiled.expr

    @property
    def reads(self) -> Reads:
        """The parts of its variables that the expression reads (see reads.py)."""
        if self._reads is None:
            self._reads = {} if self._compiled is None else find_reads(self._compiled.expr)
        return self._reads

    def __repr__(self) -> str:
        return f"Program({self.expression!r})"
