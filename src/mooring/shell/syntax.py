"""The syntax tree of a script, built by ``parser.py`` and interpreted by ``machine.py``."""

from typing import TypeAlias

import msgspec

MAX_TEXT_LENGTH = 16 * 1024


class NotUnderstood(ValueError):  # noqa: N818 - what it says is no error of the script
    """The script uses something that this shell does not know; the message names it."""


# -- words


class Text(msgspec.Struct, frozen=True):
    """Literal text."""

    text: str
    quoted: bool = False


class Variable(msgspec.Struct, frozen=True):
    """`$NAME`, `${NAME}`, `${NAME:-word}`."""

    name: str
    default: "Word | None" = None
    quoted: bool = False


class Substitution(msgspec.Struct, frozen=True):
    """A command substitution `$(script)`, which is replaced by the output of the script."""

    script: "Script"
    quoted: bool = False


class Arithmetic(msgspec.Struct, frozen=True):
    """An arithmetic expansion `$((sum))`, whose variables are not yet expanded."""

    sum: "Word"
    quoted: bool = False


Part: TypeAlias = Text | Variable | Substitution | Arithmetic
Word: TypeAlias = tuple[Part, ...]

# -- commands


class Redirect(msgspec.Struct, frozen=True):
    """A redirection of a stream: `> file`, `>> file`, `< file` or `2>&1`."""

    stream: int
    operator: str
    target: Word


class Simple(msgspec.Struct, frozen=True):
    """A program with its arguments, or assignments alone."""

    assignments: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()


class Pipeline(msgspec.Struct, frozen=True):
    """Commands that each read the output of the one before."""

    commands: tuple["Command", ...]
    negated: bool = False


class Chain(msgspec.Struct, frozen=True):
    """Commands joined by `&&` and `||`: `a && b || c`."""

    first: "Command"
    rest: tuple[tuple[str, "Command"], ...]


class If(msgspec.Struct, frozen=True):
    """Branches with their conditions, and the `else` branch."""

    branches: tuple[tuple["Script", "Script"], ...]
    otherwise: "Script | None"


class Loop(msgspec.Struct, frozen=True):
    """A `while` or `until` loop."""

    condition: "Script"
    body: "Script"
    until: bool


class For(msgspec.Struct, frozen=True):
    """A loop over words: `for name in words`."""

    name: str
    words: tuple[Word, ...]
    body: "Script"


class Group(msgspec.Struct, frozen=True):
    """`{ … }`, or `( … )`, whose variables are local."""

    body: "Script"
    apart: bool
    redirects: tuple[Redirect, ...] = ()


Command: TypeAlias = Simple | Pipeline | Chain | If | Loop | For | Group
Script: TypeAlias = tuple[Command, ...]

# -- exceptions that end a script or a loop


class RunsForever(Exception):  # noqa: N818 - no error
    """Raised when a script would run for ever."""


class Exits(Exception):  # noqa: N818 - as above
    """Raised by `exit`: the script ends with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class LeavesLoop(Exception):  # noqa: N818 - as above
    """Raised by `break` and, with `goes_on`, by `continue`, to leave the body of a loop."""

    def __init__(self, *, goes_on: bool) -> None:
        super().__init__()
        self.goes_on = goes_on
