"""Evaluate `test`, `[`, `[[`, `expr` and the arithmetic of `$((…))`."""

import re
from collections.abc import Callable, Sequence

from mooring.shell.syntax import NotUnderstood

_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_]\w*)|(\*\*|&&|\|\||[<>=!]=|[-+*/%<>()!]))")
_LARGEST = 2**63


def divide(left: int, right: int) -> int:
    """Divide, rounding towards zero as C does."""
    if right == 0:
        raise ZeroDivisionError
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


_LEVELS: tuple[dict[str, Callable[[int, int], int]], ...] = (
    {"||": lambda a, b: int(bool(a or b))},
    {"&&": lambda a, b: int(bool(a and b))},
    {"==": lambda a, b: int(a == b), "!=": lambda a, b: int(a != b)},
    {
        "<": lambda a, b: int(a < b),
        "<=": lambda a, b: int(a <= b),
        ">": lambda a, b: int(a > b),
        ">=": lambda a, b: int(a >= b),
    },
    {"+": lambda a, b: a + b, "-": lambda a, b: a - b},
    {"*": lambda a, b: a * b, "/": divide, "%": lambda a, b: a - b * divide(a, b)},
)


def evaluate_arithmetic(text: str, value_of: Callable[[str], str]) -> int:
    """Return the value of `$((text))`. Raise NotUnderstood or ZeroDivisionError."""
    tokens: list[str] = []
    at = 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise NotUnderstood(f"$(({text}))")
        tokens.append(match[0].strip())
        at = match.end()
    return _Arithmetic(tokens, value_of).all()


_SIGNS: dict[str, Callable[[int], int]] = {"+": lambda a: a, "-": lambda a: -a, "!": lambda a: int(not a)}


class _Arithmetic:
    def __init__(self, tokens: Sequence[str], value_of: Callable[[str], str]) -> None:
        self._tokens = list(tokens)
        self._value_of = value_of
        self._depth = 0

    def all(self) -> int:
        found = self._level(0) if self._tokens else 0
        if self._tokens:
            raise NotUnderstood(f"`{self._tokens[0]}` in a sum")
        return found

    def _level(self, level: int) -> int:
        if level == len(_LEVELS):
            return self._single()
        found = self._level(level + 1)
        while self._tokens and self._tokens[0] in _LEVELS[level]:
            operator = self._tokens.pop(0)
            found = _wrap_int64(_LEVELS[level][operator](found, self._level(level + 1)))
        return found

    def _single(self) -> int:
        self._depth += 1
        if not self._tokens or self._depth > 50:
            raise NotUnderstood("a sum that does not end")
        token = self._tokens.pop(0)
        if token == "(":  # noqa: S105 - a bracket
            found = self._level(0)
            if not self._tokens or self._tokens.pop(0) != ")":
                raise NotUnderstood("`(` without `)` in a sum")
        elif token in _SIGNS:
            found = _SIGNS[token](self._single())
        elif token.isdecimal():
            found = _wrap_int64(int(token[:20]))
        elif token.isidentifier():
            found = parse_integer(self._value_of(token) or "0")
        else:
            raise NotUnderstood(f"`{token}` in a sum")
        self._depth -= 1
        return found


def _wrap_int64(value: int) -> int:
    return (value + _LARGEST) % (2 * _LARGEST) - _LARGEST


def parse_integer(text: str) -> int:
    """Parse an integer. Raise NotUnderstood otherwise: shells differ in their error."""
    text = text.strip()
    if not re.fullmatch(r"[-+]?\d{1,19}", text):
        raise NotUnderstood(f"`{text[:40]}` as a number")
    return int(text)


_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": lambda a, b: a == b,
    "-ne": lambda a, b: a != b,
    "-lt": lambda a, b: a < b,
    "-le": lambda a, b: a <= b,
    "-gt": lambda a, b: a > b,
    "-ge": lambda a, b: a >= b,
}


def evaluate_test(words: Sequence[str], of_file: Callable[[str, str], bool]) -> bool:
    """Evaluate `test words`; `of_file` evaluates `-e path` and similar operators."""
    for operator, combine in (("-o", any), ("-a", all)):
        if operator in words[1:-1]:
            at = list(words).index(operator, 1)
            return combine([evaluate_test(words[:at], of_file), evaluate_test(words[at + 1 :], of_file)])
    match list(words):
        case []:
            return False
        case ["!", *rest] if rest:
            return not evaluate_test(rest, of_file)
        case [text] | ["-n", text]:
            return bool(text)
        case ["-z", text]:
            return not text
        case ["-e" | "-f" | "-r" | "-w" | "-s" | "-d" | "-x" as operator, path]:
            return of_file(operator, path)
        case [left, "=" | "==", right]:
            return left == right
        case [left, "!=", right]:
            return left != right
        case [left, operator, right] if operator in _NUMBERS:
            return _NUMBERS[operator](parse_integer(left), parse_integer(right))
    raise NotUnderstood(f"test {' '.join(words)[:60]}")


_EXPR: dict[str, Callable[[int, int], int]] = {name: how for level in _LEVELS[3:] for name, how in level.items()}


def expr(words: Sequence[str]) -> str:
    """Return what `expr words` prints. Raise NotUnderstood."""
    match list(words):
        case [text]:
            return text
        case [left, "=" | "!=" as operator, right]:
            return str(int((left == right) is (operator == "=")))
        case [left, operator, right] if operator in _EXPR:
            return str(_EXPR[operator](parse_integer(left), parse_integer(right)))
    raise NotUnderstood(f"expr {' '.join(words)[:60]}")
