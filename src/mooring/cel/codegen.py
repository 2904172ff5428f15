"""The fast path: generate one Python function from a checked expression and compile it once.

`taint.key == 'cni' && size(taint.value) > 3` becomes::

    def evaluate(bindings):
        try:
            v0 = bindings['taint']
            return (((v0['key'] if v0.__class__ is dict else ...) == 'cni') and (len(...) > 3))
        except Exception:
            return strict(bindings)

Plain `and` and `or` are correct as long as nothing fails. On any exception the interpreter evaluates the expression
again, with CEL's error rules; so the generated code need not handle missing keys, overflows or unexpected types, it
only must raise. Where static types do not determine the operation, the source calls the same functions as the
interpreter.

Calls with constant arguments are evaluated at compile time. Expressions that are nested too deeply for Python's
compiler have no fast path. Called by environment.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from keyword import iskeyword
from typing import Any, Final, NamedTuple

from . import operators as op
from . import syntax, values
from .conversions import adapter
from .dispatch import invoker
from .fields import Accessor
from .interpreter import Options
from .standard import index_any, optional_index
from .steps import items_of
from .types import BOOL, STRING, Kind, Type
from .values import Value

Evaluate = Callable[[Mapping[str, Value]], Value]

_PLAIN: Final = frozenset(
    {Kind.BOOL, Kind.INT, Kind.UINT, Kind.STRING, Kind.BYTES, Kind.TIMESTAMP, Kind.DURATION, Kind.TYPE}
)
"""Types for which Python's `==` equals CEL's."""
_PLAIN_KEYS: Final = frozenset({Kind.INT, Kind.UINT, Kind.STRING})


_CHEAP: Final = 1_000
"""Highest cost of a call evaluated at compile time; costlier calls run at evaluation, where a limit can stop them."""


class Unsupported(Exception):  # noqa: N818  never leaves this module
    """Raised while generating source: the expression can only be interpreted."""


def generate(expr: syntax.Expr, options: Options, strict: Evaluate) -> Evaluate:
    """Return a function that evaluates the expression and falls back to `strict`."""
    generator = Generator(options)
    generator.names["strict"] = strict
    try:
        evaluate: Evaluate = generator.compile_function(expr)
    except Unsupported:
        return strict
    return evaluate


# What the generated source calls


def _boolean(value: Value) -> bool:
    if value is True or value is False:
        return value
    raise values.no_such_overload()


def _fold(items: Any, state: Value, condition: Any, step: Any) -> Value:
    for item in items:
        if not condition(state, item):
            break
        state = step(state, item)
    return state


def _items(container: Any, *, pairs: bool = False) -> Any:
    items = items_of(container, pairs=pairs)
    if items is None:
        raise values.no_such_overload()
    return items


def _present(items: list[tuple[Value, bool]]) -> list[Value]:
    """Build a list literal; skip absent optional elements."""
    return [item.value if optional else item for item, optional in items if not optional or item.present]


def _present_entries(entries: list[tuple[Value, Value, bool]]) -> dict[Value, Value]:
    """Build a map literal; skip absent optional entries."""
    return values.map_of_pairs(
        [(key, value.value if optional else value) for key, value, optional in entries if not optional or value.present]
    )


_HELPERS: Final[dict[str, Any]] = {
    "boolean": _boolean,
    "equal": values.equal,
    "contains": values.contains,
    "index_any": index_any,
    "optional_index": optional_index,
    "map_of_pairs": values.map_of_pairs,
    "present": _present,
    "present_entries": _present_entries,
    "pairs": partial(_items, pairs=True),
    "items": _items,
    "fold": _fold,
}


class Code(NamedTuple):
    """The source of an expression, and its value if it is constant."""

    source: str
    value: Value = None
    is_constant: bool = False


class Generator:
    """Writes the Python source of one expression. `names` are the objects that the source refers to."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.names: dict[str, Any] = dict(_HELPERS)
        self._variables: dict[str, tuple[str, str]] = {}
        self._scopes: list[dict[str, str]] = []
        self._locals = 0
        self._in_iterable = 0
        """Python allows no `:=` where a generator says what it iterates over."""

    def compile_function(self, expr: syntax.Expr) -> Any:
        """Compile the source that `function` writes; return the Python function."""
        try:
            code = compile(self.function(expr), "<cel>", "exec")
        except (SyntaxError, RecursionError, MemoryError):
            raise Unsupported from None
        exec(code, self.names)  # noqa: S102  the source is ours; what a user wrote enters it only by repr()
        return self.names["evaluate"]

    def function(self, expr: syntax.Expr) -> str:
        result = self._code(expr).source
        lines = ["def evaluate(bindings):", "    try:"]
        lines += [f"        {local} = {read}" for local, read in self._variables.values()]
        lines += [f"        return {result}", "    except Exception:", "        return strict(bindings)"]
        return "\n".join(lines)

    def _register(self, prefix: str, thing: Any) -> str:
        """Register an object; return its name in the source."""
        name = f"{prefix}{len(self.names)}"
        self.names[name] = thing
        return name

    def _local(self) -> str:
        self._locals += 1
        return f"x{self._locals}"

    def _constant(self, value: Value) -> Code:
        source = repr(value) if value.__class__ in _SPELLED else self._register("c", value)
        return Code(source, value, is_constant=True)

    def _code(self, expr: syntax.Expr) -> Code:
        match expr:
            case syntax.Literal():
                return self._constant(expr.value)
            case syntax.Call():
                return self._call(expr)
            case syntax.Select():
                return self._select(expr)
            case syntax.Ident():
                return self._ident(expr)
            case syntax.ListExpr():
                return self._list(expr)
            case syntax.MapExpr():
                return self._map(expr)
            case syntax.Comprehension():
                return Code(self._bind_source(expr) if expr.is_bind else self._loop(expr))
        raise Unsupported  # messages are rare: leave them to the interpreter

    def _source(self, expr: syntax.Expr) -> str:
        return self._code(expr).source

    def _lazy(self, expr: syntax.Expr, *, condition: bool = False) -> str:
        """Return the source of a subexpression that may be evaluated never, once or often."""
        return self._condition(expr) if condition else self._source(expr)

    def _condition(self, expr: syntax.Expr) -> str:
        source = self._source(expr)
        return source if expr.type == BOOL else f"boolean({source})"

    # Names and fields

    def _ident(self, expr: syntax.Ident) -> Code:
        if expr.constant is not None:
            return self._constant(expr.constant.value)
        if expr.variable is not None:
            return Code(self._variable(expr.variable, expr.type))
        for scope in reversed(self._scopes):
            if expr.name in scope:
                return Code(scope[expr.name])
        raise Unsupported

    def _variable(self, name: str, type_: Type) -> str:
        if name not in self._variables:
            adapt = adapter(type_)
            read = f"bindings[{name!r}]"
            read = read if adapt is None else f"{self._register('a', adapt)}({read})"
            self._variables[name] = f"v{len(self._variables)}", read
        return self._variables[name][0]

    def _select(self, expr: syntax.Select) -> Code:
        if expr.resolved is not None:
            return self._ident(expr.resolved)
        operand, name, type_ = self._source(expr.operand), expr.name, expr.operand.type
        if type_.kind is Kind.MAP:
            return Code(f"({name!r} in {operand})" if expr.test_only else f"{operand}[{name!r}]")
        if type_.is_dyn and not expr.test_only:  # a value that is not a mapping raises; the interpreter then evaluates
            return Code(f"{operand}[{name!r}]")
        accessor = Accessor(type_, name, self._options.objects)
        quick = (type_.kind is Kind.OBJECT or type_.is_dyn) and operand.isidentifier()
        if expr.test_only:
            test = f"{self._register('h', accessor.has)}({operand})"
            return Code(f"({name!r} in {operand} if {operand}.__class__ is dict else {test})" if quick else test)
        read = f"{self._register('f', accessor.read)}({operand})"
        return Code(self._quick_field(operand, accessor, read) if quick else read)

    def _quick_field(self, operand: str, accessor: Accessor, otherwise: str) -> str:
        """Return the source that reads a field: inline for a dict or plain object, with a call otherwise."""
        entry, attribute = f"{operand}[{accessor.name!r}]", accessor.attribute or ""
        readable = attribute.isidentifier() and not iskeyword(attribute) and not hasattr(dict, attribute)
        if accessor.adapt is not None:
            entry = f"{self._register('a', accessor.adapt)}({entry})"
        elif readable and not self._in_iterable:
            found = self._local()
            otherwise = f"({found} if ({found} := {operand}.{attribute}) is not None else {otherwise})"
        return f"({entry} if {operand}.__class__ is dict else {otherwise})"

    def _optional_select(self, call: syntax.Call) -> Code:
        operand, name = call.args
        if not isinstance(name, syntax.Literal):
            raise Unsupported
        accessor = Accessor(operand.type, name.value, self._options.objects)
        return Code(f"{self._register('f', accessor.read_optional)}({self._source(operand)})")

    # Calls

    def _call(self, call: syntax.Call) -> Code:
        match call.function:
            case op.AND | op.OR:
                word = "and" if call.function == op.AND else "or"
                return Code(f"({self._condition(call.args[0])} {word} {self._lazy(call.args[1], condition=True)})")
            case op.CONDITIONAL:
                condition, yes, no = call.args
                return Code(f"({self._lazy(yes)} if {self._condition(condition)} else {self._lazy(no)})")
            case op.OPTIONAL_SELECT:
                return self._optional_select(call)
            case op.NOT_STRICTLY_FALSE:
                return Code(self._condition(call.args[0]))
        if not call.overloads:
            raise Unsupported
        if call.overloads[0].lazy:
            return self._lazy_call(call)
        args: list[Code] = []
        for operand in call.operands:
            args.append(self._code(operand))  # noqa: PERF401  a comprehension would be one more frame a level
        folded = self._fold_call(call, args)
        return folded if folded is not None else Code(self._operation(call, args))

    def _lazy_call(self, call: syntax.Call) -> Code:
        impl = call.overloads[0].impl
        if invoker(call) is not impl:
            raise Unsupported
        *eager, last = call.operands
        sources = [self._source(each) for each in eager]
        return Code(f"{self._register('f', impl)}({', '.join(sources)}, lambda: {self._lazy(last)})")

    def _fold_call(self, call: syntax.Call, args: Sequence[Code]) -> Code | None:
        """Return the result of a call with constant arguments, if it is cheap and does not fail."""
        overload = call.overloads[0]
        if overload.cost.counts_result or not all(arg.is_constant for arg in args):
            return None
        constants = [arg.value for arg in args]
        if overload.cost.count(constants, None) > _CHEAP:
            return None
        try:
            return self._constant(invoker(call)(*constants))
        except Exception:
            return None

    def _operation(self, call: syntax.Call, args: Sequence[Code]) -> str:
        sources = [arg.source for arg in args]
        types = [operand.type for operand in call.operands]
        match call.function:
            case op.EQUALS | op.NOT_EQUALS:
                equals = call.function == op.EQUALS
                if types[0] == types[1] and _is_plain(types[0]):
                    return f"({sources[0]} {'==' if equals else '!='} {sources[1]})"
                return f"equal({', '.join(sources)})" if equals else f"(not equal({', '.join(sources)}))"
            case op.IN:
                return self._membership(types, args)
            case op.INDEX:
                container, index = types
                if container.kind is Kind.MAP and container.params[0] == index and index.kind in _PLAIN_KEYS:
                    return f"{sources[0]}[{sources[1]}]"
                if container.kind is Kind.LIST and args[1].value.__class__ is int and args[1].value >= 0:
                    return f"{sources[0]}[{sources[1]}]"
                return f"index_any({', '.join(sources)})"
            case op.OPTIONAL_INDEX:
                return f"optional_index({', '.join(sources)})"
        return self._invocation(call, sources)

    def _membership(self, types: Sequence[Type], args: Sequence[Code]) -> str:
        value, container = types
        same = bool(container.params) and container.params[0] == value
        if same and container.kind is Kind.MAP and value.kind in _PLAIN_KEYS:
            return f"({args[0].source} in {args[1].source})"
        if same and container.kind is Kind.LIST and _is_plain(value):
            hashable = args[1].is_constant and value.kind is Kind.STRING
            items = self._register("c", frozenset(args[1].value)) if hashable else args[1].source
            return f"({args[0].source} in {items})"
        return f"contains({args[1].source}, {args[0].source})"

    def _invocation(self, call: syntax.Call, sources: list[str]) -> str:
        overload = call.overloads[0]
        known = invoker(call) is overload.impl
        if known and overload.inline is not None:
            return overload.inline.format(*sources)
        invoked = f"{self._register('f', invoker(call))}({{}})".format
        dynamic = [index for index, operand in enumerate(call.operands) if operand.type.is_dyn]
        if overload.inline is None or len(call.overloads) > 1 or len(dynamic) != 1 or self._in_iterable:
            return invoked(", ".join(sources))
        [index] = dynamic
        if overload.args[index] != STRING:
            return invoked(", ".join(sources))
        given, sources[index] = sources[index], self._local()
        test = f"({sources[index]} := {given}).__class__ is str"
        return f"({overload.inline.format(*sources)} if {test} else {invoked(', '.join(sources))})"

    # Lists and maps

    def _list(self, expr: syntax.ListExpr) -> Code:
        elements = [self._code(each) for each in expr.elements]
        if expr.optional:
            items = ", ".join(f"({each.source}, {index in expr.optional})" for index, each in enumerate(elements))
            return Code(f"present([{items}])")
        if elements and all(each.is_constant for each in elements):
            return self._constant([each.value for each in elements])
        return Code(f"[{', '.join(each.source for each in elements)}]")

    def _map(self, expr: syntax.MapExpr) -> Code:
        entries = [(self._code(each.key), self._code(each.value), each.optional) for each in expr.entries]
        if any(optional for _, _, optional in entries):
            items = ", ".join(f"({key.source}, {value.source}, {optional})" for key, value, optional in entries)
            return Code(f"present_entries([{items}])")
        pairs = ", ".join(f"({key.source}, {value.source})" for key, value, _ in entries)
        return Code(f"map_of_pairs([{pairs}])" if pairs else "{}")

    # Loops

    def _bind_source(self, expr: syntax.Comprehension) -> str:
        value = self._source(expr.accu_init)
        name = self._local()
        self._scopes.append({expr.accu_var: name})
        body = self._source(expr.result)
        self._scopes.pop()
        return f"(lambda {name}: {body})({value})"

    def _loop(self, expr: syntax.Comprehension) -> str:
        self._in_iterable += 1
        container = self._source(expr.iter_range)
        self._in_iterable -= 1
        accu = self._local()
        targets = [self._local()] if expr.iter_var2 is None else [self._local(), self._local()]
        names = (expr.iter_var,) if expr.iter_var2 is None else (expr.iter_var, expr.iter_var2)
        self._scopes.append({expr.accu_var: accu})
        self._scopes.append(dict(zip(names, targets, strict=True)))
        gathered = self._quantifier_source(expr, container, targets) or self._collect_source(expr, container, targets)
        gathered = gathered or self._fold_source(expr, container, targets, accu)
        self._scopes.pop()
        result = self._source(expr.result)
        self._scopes.pop()
        return gathered if syntax.is_accumulator(expr.result) else f"(lambda {accu}: {result})({gathered})"

    def _items_source(self, expr: syntax.Comprehension, container: str) -> str:
        """Return the source of the items of a loop: keys or items, or pairs with two variables."""
        type_ = expr.iter_range.type
        if type_.kind is Kind.LIST:
            return container if expr.iter_var2 is None else f"enumerate({container})"
        if type_.kind is Kind.MAP and type_.params[0].kind in _PLAIN_KEYS:
            return container if expr.iter_var2 is None else f"{container}.items()"
        return f"items({container})" if expr.iter_var2 is None else f"pairs({container})"

    def _quantifier_source(self, expr: syntax.Comprehension, container: str, targets: Sequence[str]) -> str | None:
        if expr.quantifier is None:
            return None
        word = "any" if expr.quantifier.decisive else "all"
        verdict = self._lazy(expr.quantifier.predicate, condition=True)
        return f"{word}({verdict} for {', '.join(targets)} in {self._items_source(expr, container)})"

    def _collect_source(self, expr: syntax.Comprehension, container: str, targets: Sequence[str]) -> str | None:
        """Return the source for `map`, `filter` and `exists_one`: append to the accumulator, perhaps on a condition."""
        step = expr.step
        test = ""
        if isinstance(step, syntax.Call) and step.function == op.CONDITIONAL and syntax.is_accumulator(step.args[2]):
            test = f" if {self._lazy(step.args[0], condition=True)}"
            step = step.args[1]
        if not isinstance(step, syntax.Call) or step.function != op.ADD or not syntax.is_accumulator(step.args[0]):
            return None
        added, init = step.args[1], expr.accu_init
        loop = f"for {', '.join(targets)} in {self._items_source(expr, container)}{test}"
        if (
            isinstance(init, syntax.ListExpr)
            and not init.elements
            and isinstance(added, syntax.ListExpr)
            and len(added.elements) == 1
        ):
            return None if added.optional else f"[{self._added_source(step)} {loop}]"
        if (
            isinstance(init, syntax.Literal)
            and init.value == 0
            and isinstance(added, syntax.Literal)
            and added.value == 1
        ):
            return f"sum([{self._added_source(step)} {loop}])"
        return None

    def _added_source(self, step: syntax.Call) -> str:
        added = step.args[1]
        return self._source(added.elements[0] if isinstance(added, syntax.ListExpr) else added)

    def _fold_source(self, expr: syntax.Comprehension, container: str, targets: Sequence[str], accu: str) -> str:
        items = self._items_source(expr, container)
        condition, step = self._lazy(expr.condition, condition=True), self._lazy(expr.step)
        init = self._code(expr.accu_init)
        start = f"{init.source}.copy()" if isinstance(init.value, list | dict) else init.source
        if len(targets) == 1:
            return (
                f"fold({items}, {start}, lambda {accu}, {targets[0]}: {condition}, lambda {accu}, {targets[0]}: {step})"
            )
        pair, both = self._local(), ", ".join(targets)
        return (
            f"fold({items}, {start}, lambda {accu}, {pair}: (lambda {both}: {condition})(*{pair}), "
            f"lambda {accu}, {pair}: (lambda {both}: {step})(*{pair}))"
        )


_SPELLED: Final = frozenset({str, int, bool, bytes, type(None)})


def _is_plain(type_: Type) -> bool:
    if type_.kind is Kind.MAP:
        return type_.params[0].kind in _PLAIN_KEYS and _is_plain(type_.params[1])
    return type_.kind in _PLAIN or (type_.kind is Kind.LIST and _is_plain(type_.params[0]))
