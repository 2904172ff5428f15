"""The parts of a script, as ``parser.py`` makes them and ``machine.py`` goes through them, and how that may end."""

from dataclasses import dataclass
from typing import TypeAlias

LARGEST_TEXT = 16 * 1024
"""Of a variable, a word or a file."""


class NotUnderstood(ValueError):  # noqa: N818 - what it says is no error of the script
    """The script uses something that this shell does not know; the message says what."""


# -- words


@dataclass(frozen=True, slots=True)
class Text:
    """Letters that stand for themselves."""

    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Variable:
    """`$NAME`, `${NAME}`, `${NAME:-word}`."""

    name: str
    default: "Word | None" = None
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Substitution:
    """`$(script)`: what the script prints."""

    script: "Script"
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`$((sum))`, with its variables still in it."""

    sum: "Word"
    quoted: bool = False


Part: TypeAlias = Text | Variable | Substitution | Arithmetic
Word: TypeAlias = tuple[Part, ...]

# -- commands


@dataclass(frozen=True, slots=True)
class Redirect:
    """`> file`, `>> file`, `< file`, `2>&1`: which stream goes where."""

    stream: int
    operator: str
    target: Word


@dataclass(frozen=True, slots=True)
class Simple:
    """A program with its arguments; or assignments alone."""

    assignments: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands, each reading what the one before prints."""

    commands: tuple["Command", ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """`a && b || c`."""

    first: "Command"
    rest: tuple[tuple[str, "Command"], ...]


@dataclass(frozen=True, slots=True)
class If:
    """Conditions with what follows them, and what is done if none holds."""

    branches: tuple[tuple["Script", "Script"], ...]
    otherwise: "Script | None"


@dataclass(frozen=True, slots=True)
class Loop:
    """`while` and `until`."""

    condition: "Script"
    body: "Script"
    until: bool


@dataclass(frozen=True, slots=True)
class For:
    """`for name in words`."""

    name: str
    words: tuple[Word, ...]
    body: "Script"


@dataclass(frozen=True, slots=True)
class Group:
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
