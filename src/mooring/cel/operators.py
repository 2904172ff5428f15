"""The function names of operators in the syntax tree (`a + b` is a call of `_+_`)."""

from __future__ import annotations

from typing import Final

CONDITIONAL: Final = "_?_:_"
AND: Final = "_&&_"
OR: Final = "_||_"
NOT: Final = "!_"
NEGATE: Final = "-_"
EQUALS: Final = "_==_"
NOT_EQUALS: Final = "_!=_"
LESS: Final = "_<_"
LESS_EQUALS: Final = "_<=_"
GREATER: Final = "_>_"
GREATER_EQUALS: Final = "_>=_"
ADD: Final = "_+_"
SUBTRACT: Final = "_-_"
MULTIPLY: Final = "_*_"
DIVIDE: Final = "_/_"
MODULO: Final = "_%_"
IN: Final = "@in"
INDEX: Final = "_[_]"
OPTIONAL_INDEX: Final = "_[?_]"
OPTIONAL_SELECT: Final = "_?._"
NOT_STRICTLY_FALSE: Final = "@not_strictly_false"

BINARY: Final = {
    "==": EQUALS,
    "!=": NOT_EQUALS,
    "<": LESS,
    "<=": LESS_EQUALS,
    ">": GREATER,
    ">=": GREATER_EQUALS,
    "in": IN,
    "+": ADD,
    "-": SUBTRACT,
    "*": MULTIPLY,
    "/": DIVIDE,
    "%": MODULO,
}
"""Function names by operator symbol."""
