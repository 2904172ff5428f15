"""Render the subset of Go's text/template that upstream's scheduler_perf manifests use.

Supported: fields (``.Index``), variables (``$n := or .count 64``), function calls with parentheses and pipes,
``if``/``else``, ``range`` over a number or a list, and the functions in `_FUNCTIONS`. `TemplateError` reports the rest.

    >>> render("pod-{{Mod .Index 3}}", {"Index": 7})
    'pod-1'
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

_ACTION = re.compile(r"\{\{(-?)(.*?)(-?)\}\}", re.DOTALL)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|:=|[()|]|[^\s()|]+')


class TemplateError(ValueError):
    """Report a template that uses what is not supported, or a missing value."""


def _or(*values: Any) -> Any:
    return next((value for value in values if value), values[-1])


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "AddFloat": lambda *values: sum(map(float, values)),
    "AddInt": lambda *values: sum(map(int, values)),
    "DivideFloat": lambda a, b: float(a) / float(b),
    "DivideInt": lambda a, b: int(a) // int(b),
    "Int": int,
    "JSON": json.dumps,
    "Mod": lambda a, b: int(a) % int(b),
    "MultiplyFloat": lambda a, b: float(a) * float(b),
    "MultiplyInt": lambda a, b: int(a) * int(b),
    "SubtractInt": lambda a, b: int(a) - int(b),
    "eq": lambda a, *others: a in others,
    "ge": lambda a, b: a >= b,
    "or": _or,
}


def render(text: str, values: Mapping[str, Any]) -> str:
    """Return the text with its actions replaced by values."""
    pieces = _split(text)
    output, rest = _render_block(pieces, 0, _Scope(dict(values)))
    if rest != len(pieces):
        raise TemplateError(f"unexpected {{{{{pieces[rest][1]}}}}}")
    return output


class _Scope:
    """Hold the value of ``.`` and the variables of a block."""

    def __init__(self, dot: Any, variables: dict[str, Any] | None = None) -> None:
        self.dot = dot
        self.variables = dict(variables or {})

    def evaluate(self, action: str) -> Any:
        tokens = _TOKEN.findall(action)
        value, position = self._pipeline(tokens, 0)
        if position != len(tokens):
            raise TemplateError(f"cannot read {action!r}")
        return value

    def _pipeline(self, tokens: list[str], position: int) -> tuple[Any, int]:
        value, position = self._call(tokens, position, ())
        while position < len(tokens) and tokens[position] == "|":
            value, position = self._call(tokens, position + 1, (value,))
        return value, position

    def _call(self, tokens: list[str], position: int, piped: tuple[Any, ...]) -> tuple[Any, int]:
        if position < len(tokens) and (function := _FUNCTIONS.get(tokens[position])):
            arguments: list[Any] = []
            position += 1
            while position < len(tokens) and tokens[position] not in (")", "|"):
                value, position = self._operand(tokens, position)
                arguments.append(value)
            return function(*arguments, *piped), position
        if piped:
            raise TemplateError(f"{tokens[position]!r} is not a function")
        return self._operand(tokens, position)

    def _operand(self, tokens: list[str], position: int) -> tuple[Any, int]:
        if position >= len(tokens):
            raise TemplateError("an action ends too early")
        token = tokens[position]
        if token == "(":
            value, position = self._pipeline(tokens, position + 1)
            if position >= len(tokens) or tokens[position] != ")":
                raise TemplateError("a parenthesis is not closed")
            return value, position + 1
        return self._value(token), position + 1

    def _value(self, token: str) -> Any:
        if token == ".":
            return self.dot
        if token.startswith("."):
            return self.dot.get(token[1:]) if isinstance(self.dot, dict) else None
        if token.startswith("$"):
            if token not in self.variables:
                raise TemplateError(f"unknown variable {token}")
            return self.variables[token]
        if token == "nil":
            return None
        try:
            return json.loads(token)
        except ValueError:
            raise TemplateError(f"unknown function or literal {token!r}") from None


def _split(text: str) -> list[tuple[bool, str]]:
    """Split into (is an action, content), with the white space trimmed that ``{{-`` and ``-}}`` ask for."""
    pieces: list[tuple[bool, str]] = []
    end = 0
    trim = False
    for match in _ACTION.finditer(text):
        between = text[end : match.start()]
        between = between.lstrip() if trim else between
        pieces.append((False, between.rstrip() if match[1] else between))
        pieces.append((True, match[2].strip()))
        end, trim = match.end(), bool(match[3])
    rest = text[end:]
    pieces.append((False, rest.lstrip() if trim else rest))
    return pieces


def _render_block(pieces: list[tuple[bool, str]], position: int, scope: _Scope) -> tuple[str, int]:
    """Render up to the ``else`` or ``end`` that closes the block; return its position too."""
    output: list[str] = []
    while position < len(pieces):
        is_action, content = pieces[position]
        if not is_action:
            output.append(content)
        elif content in ("end", "else"):
            break
        elif content.startswith("/*"):
            pass
        elif content.startswith(("if ", "range ")):
            rendered, position = _render_compound(pieces, position, scope)
            output.append(rendered)
        elif assignment := re.fullmatch(r"(\$\w+)\s*:=(.*)", content, re.DOTALL):
            scope.variables[assignment[1]] = scope.evaluate(assignment[2])
        else:
            value = scope.evaluate(content)
            output.append("<no value>" if value is None else str(value))
        position += 1
    return "".join(output), position


def _render_compound(pieces: list[tuple[bool, str]], position: int, scope: _Scope) -> tuple[str, int]:
    """Render an ``if`` or ``range``; return the position of its ``end``."""
    keyword, _, header = pieces[position][1].partition(" ")
    variable = ""
    if assignment := re.fullmatch(r"(\$\w+)\s*:=(.*)", header, re.DOTALL):
        variable, header = assignment[1], assignment[2]
    value = scope.evaluate(header)
    if keyword == "range":
        items = range(value) if isinstance(value, int) else value or []
        scopes = [_Scope(item, scope.variables | ({variable: item} if variable else {})) for item in items]
    else:
        scopes = [_Scope(scope.dot, scope.variables)] if value else []
    rendered = [_render_block(pieces, position + 1, each)[0] for each in scopes]
    position = _skip_block(pieces, position + 1)
    if pieces[position][1] == "else":
        if not scopes:
            rendered.append(_render_block(pieces, position + 1, scope)[0])
        position = _skip_block(pieces, position + 1)
    return "".join(rendered), position


def _skip_block(pieces: list[tuple[bool, str]], position: int) -> int:
    """Return the position of the ``else`` or ``end`` that closes the block which begins here."""
    depth = 0
    while position < len(pieces):
        is_action, content = pieces[position]
        if is_action and content.startswith(("if ", "range ")):
            depth += 1
        elif is_action and content in ("else", "end"):
            if not depth:
                return position
            depth -= content == "end"
        position += 1
    raise TemplateError("a block has no {{end}}")
