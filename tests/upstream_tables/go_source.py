"""Read values from Go source: composite literals, calls and short functions, as test tables use them.

This is no Go compiler. Expressions are parsed completely; functions are kept as their statements, of which assignments,
calls, `if`, and `return` are understood. What a name or a method means is for the caller to say (``go_objects.py``);
anything else raises `UnreadableError`, which names it.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

_TOKEN = re.compile(
    r"(?P<space>\s+|//[^\n]*|/\*.*?\*/)|(?P<number>0x[0-9a-fA-F]+|[0-9][0-9_.]*(?:e[+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<string>\"(?:[^\"\\\n]|\\.)*\"|`[^`]*`)|(?P<rune>'(?:[^'\\]|\\.)+')"
    r"|(?P<op>:=|\.\.\.|<-|&&|\|\||[=!<>+*/-]=|<<|>>|\+\+|--|[-+*/%&|^<>=!()\[\]{},;.:])",
    re.DOTALL,
)
_BINARY = {"||": 1, "&&": 2, "==": 3, "!=": 3, "<": 3, "<=": 3, ">": 3, ">=": 3, "+": 4, "-": 4, "|": 4, "*": 5}
_BINARY |= {"/": 5, "%": 5, "<<": 5, ">>": 5, "&": 5}


class UnreadableError(Exception):
    """Something in the source has no meaning here; `str()` names it."""


class Name(NamedTuple):
    name: str


class Literal(NamedTuple):
    value: Any


class Select(NamedTuple):
    holder: Any
    name: str


class Call(NamedTuple):
    function: Any
    arguments: list[Any]


class Index(NamedTuple):
    holder: Any
    index: Any


class Composite(NamedTuple):
    """`type{key: value, …}`; the type is its source text, empty where Go lets it be left out."""

    type: str
    items: list[tuple[Any, Any]]


class Operation(NamedTuple):
    operator: str
    operands: list[Any]


class Function(NamedTuple):
    """A function literal: its parameters' names and the tokens of its body."""

    parameters: list[str]
    body: list[str]


def tokens(source: str) -> list[str]:
    """Split source into tokens, with a `;` where Go inserts one; stop where the source is cut off."""
    found: list[str] = []
    position = 0
    while position < len(source):
        match = _TOKEN.match(source, position)
        if match is None:
            break
        position = match.end()
        if match.lastgroup != "space":
            found.append(match[0])
        elif "\n" in match[0] and found and _ends_statement(found[-1]):
            found.append(";")
    return found


def _ends_statement(token: str) -> bool:
    is_operand = token in ")]}" or re.match(r"[\w\"`']", token) is not None
    return is_operand and token not in ("return", "case")


class Parser:
    """A cursor over tokens."""

    def __init__(self, found: list[str]) -> None:
        self._tokens, self._at = found, 0

    @property
    def token(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.token
        if expected and token != expected:
            raise UnreadableError(f"{token!r} where {expected!r} should be")
        self._at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.token == token:
            self._at += 1
            return True
        return False

    def skip_breaks(self) -> None:
        while self.accept(";"):
            pass

    def block(self) -> list[str]:
        """Take the tokens of a block in braces, without them."""
        self.take("{")
        start, depth = self._at, 1
        while depth and self._at < len(self._tokens):
            depth += {"{": 1, "}": -1}.get(self.take(), 0)
        return self._tokens[start : self._at - 1]

    def expression(self, level: int = 1, *, in_header: bool = False) -> Any:
        """Parse an expression; in the header of an `if`, `{` begins the block and no literal."""
        left = self._unary(in_header=in_header)
        while _BINARY.get(self.token, 0) >= level:
            operator = self.take()
            right = self.expression(_BINARY[operator] + 1, in_header=in_header)
            left = Operation(operator, [left, right])
        return left

    def _unary(self, *, in_header: bool) -> Any:
        if self.token in ("&", "*", "-", "!", "+"):
            operator = self.take()
            operand = self._unary(in_header=in_header)
            return operand if operator in "&*" else Operation(operator, [operand])
        return self._postfix(self._operand(in_header=in_header), in_header=in_header)

    def _operand(self, *, in_header: bool) -> Any:
        token = self.token
        if token == "(":
            self.take()
            inner = self.expression()
            self.take(")")
            return inner
        if token in ("[", "map", "struct") or (token == "*" and not in_header):
            text = self._type()
            return self._literal(text) if self.token == "{" else Name(text)
        if token == "func":
            return self._function()
        if token == "{":
            return self._literal("")
        self.take()
        if token[:1] in '"`':
            return Literal(token[1:-1] if token[0] == "`" else ast.literal_eval(token))
        if token[:1].isdigit():
            number = token.replace("_", "")
            return Literal(int(number, 0) if re.fullmatch(r"0x\w+|\d+", number) else float(number))
        if re.match(r"[A-Za-z_]", token):
            return Name(token)
        raise UnreadableError(f"the token {token!r}")

    def _type(self) -> str:
        """Take a type such as `[]*v1.Pod` or `map[string]int`; return its text."""
        text = ""
        while self.token in ("[", "*", "map", "]", "..."):
            text += self.take()
            if text.endswith("["):
                while self.token != "]":
                    text += self._type() or self.take()
        if self.token in ("struct", "interface", "func"):
            text += self.take()
            if text.endswith("func"):
                return text + self._signature()
            self.block()
            return text
        while re.match(r"[A-Za-z_]", self.token):
            text += self.take()
            if not self.accept("."):
                break
            text += "."
        if self.token == "[" and text and self._tokens[self._at + 1] != "]":
            self.take()
            while not self.accept("]"):
                self.take()
        return text

    def _signature(self) -> str:
        depth = 0
        while self.token != "{" or depth:
            depth += {"(": 1, ")": -1}.get(self.take(), 0)
        return ""

    def _function(self) -> Function:
        self.take("func")
        start = self._at
        self._signature()
        header = self._tokens[start : self._at]
        inner = header[1 : _closing(header, 0)]
        names = [each[0] for each in _split(inner, ",") if each]
        return Function(names, self.block())

    def _postfix(self, value: Any, *, in_header: bool) -> Any:
        while True:
            if self.accept("."):
                value = self._selected(value)
            elif self.token == "(":
                value = Call(value, self._arguments())
            elif self.token == "[":
                value = self._indexed(value)
            elif self.token == "{" and not in_header and (text := _type_text(value)):
                value = self._literal(text)
            else:
                return value

    def _selected(self, value: Any) -> Any:
        self.skip_breaks()
        if self.accept("("):  # a type assertion
            self._type()
            self.take(")")
            return value
        return Select(value, self.take())

    def _indexed(self, value: Any) -> Any:
        self.take("[")
        index = None if self.token == ":" else self.expression()
        while not self.accept("]"):
            self.take()
        return value if self.token in ("{", "(") and _type_text(value) else Index(value, index)

    def _arguments(self) -> list[Any]:
        self.take("(")
        self.skip_breaks()
        found = []
        while not self.accept(")"):
            found.append(self.expression())
            self.accept("...")
            self.skip_breaks()
            self.accept(",")
            self.skip_breaks()
        return found

    def _literal(self, text: str) -> Composite:
        self.take("{")
        items: list[tuple[Any, Any]] = []
        self.skip_breaks()
        while not self.accept("}"):
            key, value = None, self.expression()
            if self.accept(":"):
                self.skip_breaks()
                key, value = value, self.expression()
            items.append((key, value))
            self.skip_breaks()
            self.accept(",")
            self.skip_breaks()
        return Composite(text, items)


def _type_text(value: Any) -> str:
    if isinstance(value, Name):
        return value.name
    if isinstance(value, Select) and isinstance(value.holder, Name):
        return f"{value.holder.name}.{value.name}"
    return ""


def _closing(found: list[str], start: int) -> int:
    depth = 0
    for place in range(start, len(found)):
        depth += {"(": 1, ")": -1}.get(found[place], 0)
        if not depth:
            return place
    return len(found)


def _split(found: list[str], by: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    depth = 0
    for token in found:
        depth += {"(": 1, ")": -1, "[": 1, "]": -1, "{": 1, "}": -1}.get(token, 0)
        if token == by and not depth:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


class File:
    """A Go file: its functions and package variables, and the tables in it."""

    def __init__(self, path: Path) -> None:
        try:
            self._source = path.read_text()
        except OSError as error:
            raise UnreadableError(str(error)) from error

    def functions(self) -> dict[str, Function]:
        """Return the functions of the file that have no receiver."""
        found = {}
        for match in re.finditer(r"^func (\w+)\(", self._source, re.MULTILINE):
            parsed = Parser(tokens("func " + self._source[match.end() - 1 : self._end(match.end())])).expression()
            if isinstance(parsed, Function):
                found[match[1]] = parsed
        return found

    def _end(self, start: int) -> int:
        found = self._source.find("\n}\n", start)
        return len(self._source) if found < 0 else found + 2

    def body(self, function: str) -> str:
        match = re.search(rf"^func {function}\(.*?\{{\n", self._source, re.MULTILINE | re.DOTALL)
        if match is None:
            raise UnreadableError(f"there is no function {function}")
        return self._source[match.end() : self._end(match.end()) - 2]

    def table(self, function: str) -> tuple[list[tuple[str, Any]], Composite]:
        """Return the variables before the first table of a test, and the table."""
        body = self.body(function)
        match = re.search(r"^\t(?:\w+ := |for _, \w+ := range )(\[\]|map\[string\])struct ?\{\n", body, re.MULTILINE)
        if match is None:
            raise UnreadableError(f"{function} has no table of structs")
        variables = list(_variables(body[: match.start()]))
        literal = Parser(tokens(body[match.start(1) :])).expression()
        if not isinstance(literal, Composite):
            raise UnreadableError(f"the table of {function}")
        return variables, literal

    def variable(self, name: str) -> Any:
        """Return the value of a package variable."""
        match = re.search(rf"^var {name} = |^\t{name} += ", self._source, re.MULTILINE)
        if match is None:
            raise UnreadableError(f"there is no variable {name}")
        return Parser(tokens(self._source[match.end() :])).expression()

    def variables(self) -> Iterator[tuple[str, Any]]:
        """Yield package variables and constants that can be parsed."""
        pattern = r"^(?:(?:var|const) |\t)(\w+(?:, \w+)*)(?: +[\w.\[\]*]+)? += "
        for match in re.finditer(pattern, self._source, re.MULTILINE):
            parser = Parser(tokens(self._source[match.end() : match.end() + 6000]))
            try:
                for name in match[1].split(", "):
                    yield name, parser.expression()
                    parser.accept(",")
            except (UnreadableError, IndexError, RecursionError):
                continue


def _variables(source: str) -> Iterator[tuple[str, Any]]:
    """Yield the variables that statements at the top of a function define."""
    for match in re.finditer(r"^\t(?:var )?(\w+) :?= ", source, re.MULTILINE):
        try:
            yield match[1], Parser(tokens(source[match.end() :])).expression()
        except (UnreadableError, IndexError):
            continue
