"""The parts of a script, as ``parser.py`` makes them and ``machine.py`` goes through them, and how that may end."""

from typing import TypeAlias

import msgspec

LARGEST_TEXT = 16 * 1024
"""Of a variable, a word or a file."""


class NotUnderstood(ValueError):  # noqa: N818 - what it says is no error of the script
    """The script uses something that this shell does not know; the message says what."""


# -- words


class Text(msgspec.Struct, frozen=True):
    """Letters that stand for themselves."""

    text: str
    quoted: bool = False


class Variable(msgspec.Struct, frozen=True):
    """`$NAME`, `${NAME}`, `${NAME:-word}`."""

    name: str
    default: "Word | None" = None
    quoted: bool = False


class Substitution(msgspec.Struct, frozen=True):
    """`$(script)`: what the script prints."""

    script: "Script"
    quoted: bool = False


class Arithmetic(msgspec.Struct, frozen=True):
    """`$((sum))`, with its variables still in it."""

    sum: "Word"
    quoted: bool = False


Part: TypeAlias = Text | Variable | Substitution | Arithmetic
Word: TypeAlias = tuple[Part, ...]

# -- commands


class Redirect(msgspec.Struct, frozen=True):
    """`> file`, `>> file`, `< file`, `2>&1`: which stream goes where."""

    stream: int
    operator: str
    target: Word


class Simple(msgspec.Struct, frozen=True):
    """A program with its arguments; or assignments alone."""

    assignments: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()


class Pipeline(msgspec.Struct, frozen=True):
    """Commands, each reading what the one before prints."""

    commands: tuple["Command", ...]
    negated: bool = False


class Chain(msgspec.Struct, frozen=True):
    """`a && b || c`."""

    first: "Command"
    rest: tuple[tuple[str, "Command"], ...]


class If(msgspec.Struct, frozen=True):
    """Conditions with what follows them, and what is done if none holds."""

    branches: tuple[tuple["Script", "Script"], ...]
    otherwise: "Script | None"


class Loop(msgspec.Struct, frozen=True):
    """`while` and `until`."""

    condition: "Script"
    body: "Script"
    until: bool


class For(msgspec.Struct, frozen=True):
    """`for name in words`."""

    name: str
    words: tuple[Word, ...]
    body: "Script"


class Group(msgspec.Struct, frozen=True):
    """`{ … }`, or `( … )`, which keeps its variables to itself."""

    body: "Script"
    apart: bool
    redirects: tuple[Redirect, ...] = ()


Command: TypeAlias = Simple | Pipeline | Chain | If | Loop | For | Group
Script: TypeAlias = tuple[Command, ...]

# -- how the way through a script ends before its last command


class EndsNever(Exception):  # noqa: N818 - no error
    """The script goes on for ever."""


class Exits(Exception):  # noqa: N818 - as above
    """`exit`."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class LeavesLoop(Exception):  # noqa: N818 - as above
    """`break` and `continue`."""

    def __init__(self, *, goes_on: bool) -> None:
        super().__init__()
        self.goes_on = goes_on
