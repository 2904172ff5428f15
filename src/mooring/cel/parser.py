"""Parse source into a syntax tree: the full CEL grammar by recursive descent, with an explicit operator stack.

Errors are collected in `Source.issues` with the positions that cel-go reports. Macros are expanded during parsing (see
macros.py). Nesting costs a few Python frames per level and is limited, so hostile input gives an issue and not a crash.
Called by environment.py; read next: checker.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

from . import operators as op
from .errors import Issue
from .lexer import RESERVED, BadLiteral, Token, parse_bytes, parse_integer, parse_string, parse_unsigned, tokenize
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
    dotted_name,
)
from .values import Value

MAX_LENGTH: Final = 100_000
"""Maximum code points in an expression."""
MAX_DEPTH: Final = 250
"""Maximum nesting, in the source and in the tree."""
MAX_NODES: Final = 20_000
"""Maximum nodes: macros that copy their target can blow up a small source."""
MAX_ISSUES: Final = 100

MacroTable = Mapping[tuple[str, bool, int | None], Macro]
"""Macros by name, whether they have a receiver, and number of arguments (None: any)."""

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
    """The source of an expression and its issues."""

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
        """Issues in source order."""
        return tuple(sorted(self._issues, key=lambda issue: (issue.line, issue.column)))


class _GiveUpError(Exception):
    """Parsing cannot continue; the reason is among the issues."""


def parse(source: Source, macros: MacroTable, *, optional_syntax: bool = True) -> Expr | None:
    """Return the syntax tree, or None if there are issues."""
    if len(source.text) > MAX_LENGTH:
        size = f"size: {len(source.text)}, limit {MAX_LENGTH}"
        source.report(0, f"expression code point size exceeds limit: {size}")
        return None
    parser = _Parser(source, macros, optional_syntax)
    try:
        expr = parser.parse_all()
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

    def parse_all(self) -> Expr:
        expr = self._expression()
        if self._kind != "eof":
            self._fail(f"extraneous input {self._quote_token()} expecting <EOF>")
        return expr

    # Tokens

    @property
    def _kind(self) -> str:
        return self._tokens[self._position].kind

    def _quote_token(self) -> str:
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
                return self._report_missing(kind)
            if self._tokens[self._position + 1].kind != kind:
                self._fail(f"mismatched input {self._quote_token()} expecting '{kind}'")
            self._report(f"extraneous input {self._quote_token()} expecting '{kind}'")
            self._position += 1
        return self._next()

    def _report_missing(self, kind: str) -> Token:
        """Report unclosed brackets at the end of the source once, and treat them as closed."""
        if not self._at_end:
            self._at_end = True
            self._report(f"missing '{kind}' at '<EOF>'")
        return self._tokens[self._position]

    def _report(self, message: str) -> None:
        self._source.report(self._tokens[self._position].offset, f"Syntax error: {message}")

    def _fail(self, message: str) -> NoReturn:
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
        """Parse a conditional or tighter expression, with operators by precedence.

        `a && b && c` becomes a balanced tree, other operators are left-associative; chains of `?:` nest only in the
        tree.
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
            value = self._finish_operand(operands.pop())
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
        right = self._finish_operand(operands.pop())
        left = operands.pop()
        if token.kind in ("&&", "||"):
            if isinstance(left, _Chain) and left.kind == token.kind:
                left.terms.append(right)
                left.offsets.append(token.offset)
                operands.append(left)
            else:
                operands.append(_Chain(token, self._finish_operand(left), right))
            return
        function = op.BINARY[token.kind]
        operands.append(Call(self._id(), token.offset, function, (self._finish_operand(left), right)))

    def _finish_operand(self, operand: Expr | _Chain) -> Expr:
        if isinstance(operand, _Chain):
            return self._build_balanced(operand, 0, len(operand.offsets) - 1)
        return operand

    def _build_balanced(self, chain: _Chain, low: int, high: int) -> Expr:
        middle = (low + high + 1) // 2
        left = chain.terms[middle] if middle == low else self._build_balanced(chain, low, middle - 1)
        right = chain.terms[middle + 1] if middle == high else self._build_balanced(chain, middle + 1, high)
        function = op.AND if chain.kind == "&&" else op.OR
        return Call(self._id(), chain.offsets[middle], function, (left, right))

    def _operand(self) -> Expr:
        """Parse signs, a primary expression, and the selectors, indices and calls that follow."""
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
        """Return the first of several `!` or `-`, and whether their number is odd; an even number cancels out."""
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
                function = op.OPTIONAL_INDEX if self._accept_optional("'[?'") else op.INDEX
                index = self._expression()
                self._expect("]")
                expr = Call(self._id(), offset, function, (expr, index))
            elif kind == "(" and is_name and isinstance(expr, Ident):
                expr = self._call(expr.name, None, self._next().offset)
                is_name = False
            elif kind == "{" and (name := dotted_name(expr)) is not None:
                expr = self._struct(name, self._next().offset)
            else:
                return expr
        self._source.report(expr.offset, _too_deep())
        raise _GiveUpError

    def _is_method(self) -> bool:
        """Whether `.name(` follows."""
        following = self._tokens[self._position + 1 : self._position + 3]
        return [token.kind for token in following] == ["id", "("]

    def _select(self, operand: Expr, offset: int) -> Expr:
        if self._accept_optional("'.?'"):
            name = Literal(self._id(), offset, self._field_name())
            return Call(self._id(), offset, op.OPTIONAL_SELECT, (operand, name))
        return Select(self._id(), offset, operand, self._field_name())

    @property
    def _token_text(self) -> str:
        """The current token as in the source; empty at the end."""
        token = self._tokens[self._position]
        return "" if token.kind == "eof" else token.text

    def _field_name(self) -> str:
        if self._kind == "id":
            return self._next().text
        if self._kind == "escaped":
            return self._next().text[1:-1]
        return self._fail(f"no viable alternative at input '.{self._token_text}'")

    def _accept_optional(self, syntax: str) -> bool:
        """Consume a `?` if present; return whether it was."""
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
        return self._expand_macro(call)

    def _expand_macro(self, call: Call) -> Expr:
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
            self._fail(f"no viable alternative at input '.{self._token_text}'")
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
        return self._skip_stray()

    def _skip_stray(self) -> Expr:
        """Report a stray token; skip it if an expression may follow, to find more errors."""
        self._enter()
        self._report(f"mismatched input {self._quote_token()} expecting {_PRIMARY}")
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
            value = parse_integer(token.text, sign is not None)
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
                value = parse_unsigned(token.text)
                if value is None:
                    self._source.report(token.offset, "invalid uint literal")
                return value
        try:
            return parse_string(token.text) if token.kind == "string" else parse_bytes(token.text)
        except BadLiteral as problem:
            self._source.report(token.offset, str(problem))
            return ""

    def _list(self, offset: int) -> Expr:
        elements: list[Expr] = []
        optional: set[int] = set()
        while self._kind != "]" and (elements or not self._accept(",")):
            if self._accept_optional("'?'"):
                optional.add(len(elements))
            elements.append(self._expression())
            if not self._accept(","):
                break
        self._expect("]")
        return ListExpr(self._id(), offset, elements, frozenset(optional))

    def _map(self, offset: int) -> Expr:
        entries: list[Entry] = []
        while self._kind != "}" and (entries or not self._accept(",")):
            optional = self._accept_optional("'?'")
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
            optional = self._accept_optional("'?'")
            field_name = self._field_name()
            colon = self._expect(":")
            fields.append(FieldInit(colon.offset, field_name, self._expression(), optional))
            if not self._accept(","):
                break
        self._expect("}")
        return StructExpr(self._id(), offset, name, fields)


class _Chain:
    """Terms joined by the same `&&` or `||`, to be built into a balanced tree."""

    __slots__ = ("kind", "offsets", "terms")

    def __init__(self, token: Token, left: Expr, right: Expr) -> None:
        self.kind = token.kind
        self.terms = [left, right]
        self.offsets = [token.offset]


def _too_deep() -> str:
    return f"expression recursion limit exceeded: {MAX_DEPTH}"


def _limit_depth(source: Source, root: Expr) -> None:
    """Report a tree that is too deep for the later, recursive phases; this walk is iterative."""
    stack: list[tuple[Expr, int]] = [(root, 1)]
    while stack:
        expr, depth = stack.pop()
        if depth > MAX_DEPTH:
            source.report(expr.offset, _too_deep())
            return
        stack.extend((child, depth + 1) for child in children(expr))
