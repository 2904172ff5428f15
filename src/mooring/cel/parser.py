"""From text to a syntax tree: the whole grammar of CEL, by recursive descent, with operators on an explicit stack.

Mistakes gather in `Source.issues`; each has the position that cel-go reports. Macros are expanded on the way (see
macros.py). Nesting costs a few Python frames a level and is limited, so hostile input gives an issue and not a crash.
Called by environment.py; read next: checker.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

from . import operators as op
from .errors import Issue
from .lexer import RESERVED, BadLiteral, Token, bytes_value, integer, string_value, tokenize, unsigned
from .library import Macro
from .macros import Expander
from .syntax import (
    Call,
    Entry,
    Expr,
    FieldInit,
    Ident,
    ListExpr,
    Literal,
    MapExpr,
    Select,
    StructExpr,
    children,
)
from .values import Value

MAX_LENGTH: Final = 100_000
"""Code points in an expression."""
MAX_DEPTH: Final = 250
"""Levels of nesting, in the text and in the tree."""
MAX_NODES: Final = 20_000
"""Macros that copy their target can make a small text large."""
MAX_ISSUES: Final = 100

MacroTable = Mapping[tuple[str, bool, int | None], Macro]
"""By name, whether it has a receiver, and number of arguments (None: any)."""

_PRECEDENCE: Final = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("<", "<=", ">=", ">", "==", "!=", "in"), 3),
    "+": 4,
    "-": 4,
    "*": 5,
    "/": 5,
    "%": 5,
}
_CLOSES: Final = frozenset({")", "]", "}", "eof", ",", ":"})
_PRIMARY: Final = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)


class Source:
    """The text of an expression, and what was found to be wrong with it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._issues: list[Issue] = []

    def report(self, offset: int, message: str) -> None:
        if len(self._issues) < MAX_ISSUES:
            self._issues.append(self.issue(offset, message))

    def issue(self, offset: int, message: str) -> Issue:
        if not self.text:
            return Issue(message, 1, 0)
        start = self.text.rfind("\n", 0, offset) + 1
        end = self.text.find("\n", start)
        line = self.text[start:] if end < 0 else self.text[start:end]
        return Issue(message, self.text.count("\n", 0, offset) + 1, offset - start + 1, line)

    @property
    def issues(self) -> tuple[Issue, ...]:
        """In the order of the text."""
        return tuple(sorted(self._issues, key=lambda issue: (issue.line, issue.column)))


class _GiveUpError(Exception):
    """Parsing cannot go on; the reason is already among the issues."""


def parse(source: Source, macros: MacroTable, *, optional_syntax: bool = True) -> Expr | None:
    """The syntax tree, or None when there are issues."""
    if len(source.text) > MAX_LENGTH:
        size = f"size: {len(source.text)}, limit {MAX_LENGTH}"
        source.report(0, f"expression code point size exceeds limit: {size}")
        return None
    parser = _Parser(source, macros, optional_syntax)
    try:
        expr = parser.whole()
    except _GiveUpError:
        return None
    _limit_depth(source, expr)
    return None if source.issues else expr


class _Parser:
    def __init__(self, source: Source, macros: MacroTable, optional_syntax: bool) -> None:
        self._source = source
        self._macros = macros
        self._optional_syntax = optional_syntax
        self._tokens = tokenize(source.text, source.report)
        self._position = 0
        self._last_id = 0
        self._depth = 0
        self._at_end = False

    def whole(self) -> Expr:
        expr = self._expression()
        if self._kind != "eof":
            self._unexpected(f"extraneous input {self._quoted()} expecting <EOF>")
        return expr

    # Tokens

    @property
    def _kind(self) -> str:
        return self._tokens[self._position].kind

    def _quoted(self) -> str:
        return f"'{self._tokens[self._position].text}'"

    def _next(self) -> Token:
        token = self._tokens[self._position]
        self._position += 1
        return token

    def _accept(self, kind: str) -> bool:
        if self._kind != kind:
            return False
        self._position += 1
        return True

    def _expect(self, kind: str) -> Token:
        if self._kind != kind:
            if self._kind == "eof":
                return self._missing(kind)
            if self._tokens[self._position + 1].kind != kind:
                self._unexpected(f"mismatched input {self._quoted()} expecting '{kind}'")
            self._report(f"extraneous input {self._quoted()} expecting '{kind}'")
            self._position += 1
        return self._next()

    def _missing(self, kind: str) -> Token:
        """At the end of the text everything that is open is taken for closed, and reported once."""
        if not self._at_end:
            self._at_end = True
            self._report(f"missing '{kind}' at '<EOF>'")
        return self._tokens[self._position]

    def _report(self, message: str) -> None:
        self._source.report(self._tokens[self._position].offset, f"Syntax error: {message}")

    def _unexpected(self, message: str) -> NoReturn:
        self._report(message)
        raise _GiveUpError

    def _id(self) -> int:
        self._last_id += 1
        if self._last_id > MAX_NODES:
            self._source.report(0, f"expression too large: more than {MAX_NODES} nodes")
            raise _GiveUpError
        return self._last_id

    # Operators

    def _expression(self) -> Expr:
        """A conditional, or anything that binds tighter, with operators by precedence.

        `a && b && c` becomes a balanced tree, everything else leans to the left; chains of `?:` nest only in the tree.
        """
        self._enter()
        conditions: list[tuple[int, Expr]] = []
        branches: list[Expr] = []
        operands: list[Expr | _Chain] = []
        pending: list[Token] = []
        while True:
            operands.append(self._operand())
            precedence = _PRECEDENCE.get(self._kind, 0)
            while pending and _PRECEDENCE[pending[-1].kind] >= precedence:
                self._reduce(operands, pending.pop())
            if precedence:
                pending.append(self._next())
                continue
            value = self._finished(operands.pop())
            if len(conditions) > len(branches):
                self._expect(":")
                branches.append(value)
            elif self._kind == "?":
                conditions.append((self._next().offset, value))
            else:
                break
        for (offset, condition), branch in zip(reversed(conditions), reversed(branches), strict=True):
            value = Call(self._id(), offset, op.CONDITIONAL, (condition, branch, value))
        self._depth -= 1
        return value

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._source.report(self._tokens[self._position].offset, _too_deep())
            raise _GiveUpError

    def _reduce(self, operands: list[Expr | _Chain], token: Token) -> None:
        right = self._finished(operands.pop())
        left = operands.pop()
        if token.kind in ("&&", "||"):
            if isinstance(left, _Chain) and left.kind == token.kind:
                left.terms.append(right)
                left.offsets.append(token.offset)
                operands.append(left)
            else:
                operands.append(_Chain(token, self._finished(left), right))
            return
        function = op.BINARY[token.kind]
        operands.append(Call(self._id(), token.offset, function, (self._finished(left), right)))

    def _finished(self, operand: Expr | _Chain) -> Expr:
        if isinstance(operand, _Chain):
            return self._balanced(operand, 0, len(operand.offsets) - 1)
        return operand

    def _balanced(self, chain: _Chain, low: int, high: int) -> Expr:
        middle = (low + high + 1) // 2
        left = chain.terms[middle] if middle == low else self._balanced(chain, low, middle - 1)
        right = chain.terms[middle + 1] if middle == high else self._balanced(chain, middle + 1, high)
        function = op.AND if chain.kind == "&&" else op.OR
        return Call(self._id(), chain.offsets[middle], function, (left, right))

    def _operand(self) -> Expr:
        """Signs, a primary expression, and the selectors, indices and calls behind it."""
        sign, odd = self._signs()
        is_name = False
        expr: Expr
        match self._kind:
            case "(":
                self._next()
                expr = self._expression()
                self._expect(")")
            case "[":
                expr = self._list(self._next().offset)
            case "{":
                expr = self._map(self._next().offset)
            case "id" | ".":
                expr, is_name = self._name(), True
            case "int" | "float" if odd and sign is not None and sign.kind == "-":
                expr, odd = self._number(sign), False
            case "-" if self._tokens[self._position + 1].kind in ("int", "float"):
                expr = self._number(self._next())
            case _:
                expr = self._literal()
        expr = self._members(expr, is_name=is_name)
        if sign is None or not odd:
            return expr
        return Call(self._id(), sign.offset, op.NOT if sign.kind == "!" else op.NEGATE, (expr,))

    def _signs(self) -> tuple[Token | None, bool]:
        """The first of several `!` or `-`, and whether their number is odd; an even number cancels out."""
        if self._kind not in ("!", "-"):
            return None, False
        first = self._next()
        odd = True
        while self._kind == first.kind:
            self._next()
            odd = not odd
        return first, odd

    def _members(self, expr: Expr, *, is_name: bool) -> Expr:
        for _ in range(MAX_DEPTH):
            kind = self._kind
            if kind == "." and self._is_method():
                self._next()
                function = self._next().text
                expr = self._call(function, expr, self._next().offset)
            elif kind == ".":
                expr = self._select(expr, self._next().offset)
            elif kind == "[":
                offset = self._next().offset
                function = op.OPTIONAL_INDEX if self._optional("'[?'") else op.INDEX
                index = self._expression()
                self._expect("]")
                expr = Call(self._id(), offset, function, (expr, index))
            elif kind == "(" and is_name and isinstance(expr, Ident):
                expr = self._call(expr.name, None, self._next().offset)
                is_name = False
            elif kind == "{" and (name := _dotted(expr)) is not None:
                expr = self._struct(name, self._next().offset)
            else:
                return expr
        self._source.report(expr.offset, _too_deep())
        raise _GiveUpError

    def _is_method(self) -> bool:
        """Whether `.name(` stands here."""
        following = self._tokens[self._position + 1 : self._position + 3]
        return [token.kind for token in following] == ["id", "("]

    def _select(self, operand: Expr, offset: int) -> Expr:
        if self._optional("'.?'"):
            name = Literal(self._id(), offset, self._field_name())
            return Call(self._id(), offset, op.OPTIONAL_SELECT, (operand, name))
        return Select(self._id(), offset, operand, self._field_name())

    @property
    def _shown(self) -> str:
        """The present token as it stands in the text; the end is nothing."""
        token = self._tokens[self._position]
        return "" if token.kind == "eof" else token.text

    def _field_name(self) -> str:
        if self._kind == "id":
            return self._next().text
        if self._kind == "escaped":
            return self._next().text[1:-1]
        return self._unexpected(f"no viable alternative at input '.{self._shown}'")

    def _optional(self, syntax: str) -> bool:
        """Whether a `?` stands here; it is passed over."""
        if self._kind != "?":
            return False
        if not self._optional_syntax:
            self._source.report(self._tokens[self._position].offset, f"unsupported syntax {syntax}")
        self._position += 1
        return True

    def _call(self, function: str, target: Expr | None, offset: int) -> Expr:
        args: list[Expr] = []
        if self._kind != ")":
            args.append(self._expression())
            while self._accept(","):
                args.append(self._expression())
        self._expect(")")
        call = Call(self._id(), offset, function, args, target)
        return self._expanded(call)

    def _expanded(self, call: Call) -> Expr:
        receiver = call.target is not None
        macro = self._macros.get((call.function, receiver, len(call.args))) or self._macros.get(
            (call.function, receiver, None)
        )
        if macro is None:
            return call
        new = Expander(call.offset, self._id, self._source.report)
        return macro.expand(new, call.target, call.args) or call

    # Primary expressions

    def _name(self) -> Expr:
        leading_dot = "." if self._accept(".") else ""
        if self._kind != "id":
            self._unexpected(f"no viable alternative at input '.{self._shown}'")
        token = self._next()
        if token.text in RESERVED:
            self._source.report(token.offset, f"reserved identifier: {token.text}")
        return Ident(self._id(), token.offset, leading_dot + token.text)

    def _literal(self) -> Expr:
        token = self._tokens[self._position]
        if token.kind in ("int", "float"):
            return self._number(None)
        if token.kind in ("uint", "string", "bytes", "true", "false", "null"):
            return Literal(self._id(), token.offset, self._literal_value(self._next()))
        return self._stray()

    def _stray(self) -> Expr:
        """Reports; if what follows could begin an expression, the stray token is passed over to find more mistakes."""
        self._enter()
        self._report(f"mismatched input {self._quoted()} expecting {_PRIMARY}")
        following = self._tokens[min(self._position + 1, len(self._tokens) - 1)].kind
        if self._kind in _CLOSES or following in _CLOSES or following in _PRECEDENCE:
            raise _GiveUpError
        self._position += 1
        return self._operand()

    def _number(self, sign: Token | None) -> Expr:
        token = self._next()
        offset = token.offset if sign is None else sign.offset
        value: Value
        if token.kind == "int":
            value = integer(token.text, sign is not None)
            if value is None:
                self._source.report(offset, "invalid int literal")
        else:
            value = float(token.text)
            if value == float("inf"):
                self._source.report(offset, "invalid double literal")
            value = value if sign is None else -value
        return Literal(self._id(), offset, value)

    def _literal_value(self, token: Token) -> Value:
        match token.kind:
            case "true" | "false":
                return token.kind == "true"
            case "null":
                return None
            case "uint":
                value = unsigned(token.text)
                if value is None:
                    self._source.report(token.offset, "invalid uint literal")
                return value
        try:
            return string_value(token.text) if token.kind == "string" else bytes_value(token.text)
        except BadLiteral as problem:
            self._source.report(token.offset, str(problem))
            return ""

    def _list(self, offset: int) -> Expr:
        elements: list[Expr] = []
        optional: set[int] = set()
        while self._kind != "]" and (elements or not self._accept(",")):
            if self._optional("'?'"):
                optional.add(len(elements))
            elements.append(self._expression())
            if not self._accept(","):
                break
        self._expect("]")
        return ListExpr(self._id(), offset, elements, frozenset(optional))

    def _map(self, offset: int) -> Expr:
        entries: list[Entry] = []
        while self._kind != "}" and (entries or not self._accept(",")):
            optional = self._optional("'?'")
            key = self._expression()
            colon = self._expect(":")
            entries.append(Entry(colon.offset, key, self._expression(), optional))
            if not self._accept(","):
                break
        self._expect("}")
        return MapExpr(self._id(), offset, entries)

    def _struct(self, name: str, offset: int) -> Expr:
        fields: list[FieldInit] = []
        while self._kind != "}" and (fields or not self._accept(",")):
            optional = self._optional("'?'")
            field_name = self._field_name()
            colon = self._expect(":")
            fields.append(FieldInit(colon.offset, field_name, self._expression(), optional))
            if not self._accept(","):
                break
        self._expect("}")
        return StructExpr(self._id(), offset, name, fields)


class _Chain:
    """Terms joined by the same `&&` or `||`, waiting to become a balanced tree."""

    __slots__ = ("kind", "offsets", "terms")

    def __init__(self, token: Token, left: Expr, right: Expr) -> None:
        self.kind = token.kind
        self.terms = [left, right]
        self.offsets = [token.offset]


def _dotted(expr: Expr) -> str | None:
    """The name `a.b.c` that a chain of selects spells, if it is one."""
    parts: list[str] = []
    while isinstance(expr, Select) and not expr.test_only:
        parts.append(expr.name)
        expr = expr.operand
    if not isinstance(expr, Ident):
        return None
    return ".".join([expr.name, *reversed(parts)])


def _too_deep() -> str:
    return f"expression recursion limit exceeded: {MAX_DEPTH}"


def _limit_depth(source: Source, root: Expr) -> None:
    """Reports a tree that is too deep for the later phases, which recurse; this walk does not."""
    stack: list[tuple[Expr, int]] = [(root, 1)]
    while stack:
        expr, depth = stack.pop()
        if depth > MAX_DEPTH:
            source.report(expr.offset, _too_deep())
            return
        stack.extend((child, depth + 1) for child in children(expr))
