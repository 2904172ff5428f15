"""Interpret a script and record its effects: time passes only in `sleep`, and is virtual.

A script that uses up its steps without ending is taken to run for ever. Called through `run`.
"""

import random
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from mooring.shell import programs, syntax
from mooring.shell.conditions import evaluate_arithmetic
from mooring.shell.files import Files
from mooring.shell.parser import parse

SHELLS = frozenset({"sh", "bash", "ash", "dash"})
_MOST_STEPS, _MOST_OUTPUT = 20_000, 256 * 1024
_OWN_BUDGET = 1024 * 1024
"""Steps and characters of a run without a shared budget."""
_LETTERS_A_STEP, _SUM_EFFORT = 16, 8
FOR_EVER = 1e9
_GLOB = re.compile(r"[*?]")


class Printed(NamedTuple):
    """A line of output: when, in seconds since the start, and on which stream, 1 or 2."""

    second: float
    text: str
    stream: int = 1


class Budget(msgspec.Struct):
    """The steps that several scripts may take altogether, so that more scripts do not take more time."""

    steps: int

    def take(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise syntax.RunsForever


class Outcome(msgspec.Struct, frozen=True):
    """The result of a command."""

    exit_code: int | None
    """None if it does not exit."""
    seconds: float
    """How long it takes; without an exit, how far it was computed."""
    output: tuple[Printed, ...] = ()

    @property
    def text(self) -> str:
        """Return the output of both streams."""
        return "".join(each.text for each in self.output)


def command_line(command: Sequence[str], arguments: Sequence[str]) -> list[str]:
    """Return what a container runs as far as its pod specifies it; nothing where the image decides.

    Arguments alone are passed to the image's entrypoint. A complete `sh -c SCRIPT` is useful only if there is none, or
    one that executes its arguments, so it is taken as the command.
    """
    if command:
        return [*command, *arguments]
    match arguments:
        case [shell, option, *_] if shell.rpartition("/")[2] in SHELLS and option.strip("-elux") == "c":
            return list(arguments)
    return []


def run(
    command: Sequence[str],
    variables: Mapping[str, str | None] | None = None,
    files: Files | None = None,
    *,
    began: float = 0.0,
    seed: str = "",
    budget: Budget | None = None,
) -> Outcome:
    """Compute what a command line does. `began` is its start time, for shared files; `seed` determines `$RANDOM`.

    A variable that is None exists with an unknown value. A run that uses up its `budget` is taken to run for ever.
    Raise NotUnderstood for what this shell does not know.
    """
    chance = random.Random(seed)  # noqa: S311 - no secret
    budget = budget or Budget(_OWN_BUDGET)
    machine = Machine(dict(variables or {}), files or Files(), began, chance, budget)
    try:
        code = machine.program(list(command), "")
    except syntax.Exits as end:
        code = end.code
    except (syntax.RunsForever, RecursionError):
        return Outcome(None, machine.elapsed, tuple(machine.printed))
    except syntax.LeavesLoop:
        code = 0
    return Outcome(code, machine.elapsed, tuple(machine.printed))


class Machine(msgspec.Struct):
    """Interprets one script: its variables, files, virtual time and output so far."""

    variables: dict[str, str | None]
    files: Files
    began: float
    chance: random.Random
    budget: Budget
    elapsed: float = 0.0
    status: int = 0
    printed: list[Printed] = msgspec.field(default_factory=list)
    arguments: tuple[str, ...] = ()
    _steps: int = 0
    _length: int = 0

    @property
    def now(self) -> float:
        return self.began + self.elapsed

    def print(self, text: str, stream: int = 1) -> None:
        self._length += len(text)
        if self._length > _MOST_OUTPUT:
            raise syntax.RunsForever
        if text:
            self.printed.append(Printed(self.elapsed, text, stream))

    def sleep(self, seconds: float) -> None:
        self.elapsed += seconds
        if self.elapsed >= FOR_EVER:
            raise syntax.RunsForever

    def program(self, words: Sequence[str], stdin: str) -> int:
        """Start a program: a shell with a script, or one known by name."""
        name = words[0].rpartition("/")[2] if words else ""
        if name in SHELLS:
            return self._shell(words, stdin)
        known = programs.PROGRAMS.get(name)
        if known is None:
            raise syntax.NotUnderstood(f"the program {name[:60]}")
        before = self.files.work
        code = known(self, list(words[1:]), stdin)
        self._step(len(stdin) + self.files.work - before)
        return code

    def _shell(self, words: Sequence[str], stdin: str) -> int:
        options = [word for word in words[1:] if word.startswith("-")]
        rest = [word for word in words[1:] if not word.startswith("-")]
        if not options or not all(option.strip("-elux") == "c" for option in options) or not rest:
            raise syntax.NotUnderstood(f"{' '.join(words)[:60]}")
        del stdin
        before, self.arguments = self.arguments, tuple(rest[1:])
        self.budget.take(len(rest[0]))
        code = self.script(parse(rest[0]))
        self.arguments = before
        return code

    # -- commands

    def script(self, script: syntax.Script) -> int:
        for command in script:
            self.status = self.command(command, "")
        return self.status

    def _step(self, letters: int = 0) -> None:
        steps = 1 + letters // _LETTERS_A_STEP
        self._steps += steps
        self.budget.take(steps)
        if self._steps > _MOST_STEPS:
            raise syntax.RunsForever

    def command(self, command: syntax.Command, stdin: str) -> int:
        self._step()
        match command:
            case syntax.Simple():
                return self._simple(command, stdin)
            case syntax.Pipeline():
                return self._pipeline(command, stdin)
            case syntax.Chain(first, rest):
                self.status = self.command(first, stdin)
                for operator, following in rest:
                    if (self.status == 0) is (operator == "&&"):
                        self.status = self.command(following, stdin)
                return self.status
            case syntax.If(branches, otherwise):
                for condition, body in branches:
                    if self.script(condition) == 0:
                        return self.script(body) if body else 0
                return self.script(otherwise) if otherwise else 0
            case syntax.Loop(condition, body, until):
                self._loop(condition, body, until=until)
            case syntax.For(name, words, body):
                for value in self._fields(words):
                    self.variables[name] = value
                    if not self._iterate(body):
                        break
            case syntax.Group(body, apart, redirects):
                return self._group(body, redirects, apart=apart)
        return self.status

    def _loop(self, condition: syntax.Script, body: syntax.Script, *, until: bool) -> None:
        while (self.script(condition) == 0) is not until:
            if not self._iterate(body):
                return
        self.status = 0

    def _iterate(self, body: syntax.Script) -> bool:
        try:
            self.script(body)
        except syntax.LeavesLoop as leaving:
            return leaving.goes_on
        return True

    def _group(self, body: syntax.Script, redirects: Sequence[syntax.Redirect], *, apart: bool) -> int:
        kept = dict(self.variables)
        mark = len(self.printed)
        try:
            self.status = self.script(body)
        except syntax.Exits as end:
            if not apart:
                raise
            self.status = end.code
        if apart:
            self.variables = kept
        self._redirect(redirects, mark)
        return self.status

    def _pipeline(self, pipeline: syntax.Pipeline, stdin: str) -> int:
        for command in pipeline.commands[:-1]:
            stdin = self._capture(command, stdin)
        self.status = self.command(pipeline.commands[-1], stdin)
        if pipeline.negated:
            self.status = int(self.status == 0)
        return self.status

    def _capture(self, command: syntax.Command | syntax.Script, stdin: str = "") -> str:
        mark, kept = len(self.printed), dict(self.variables)
        try:
            self.status = self.script(command) if isinstance(command, tuple) else self.command(command, stdin)
        except syntax.Exits as end:
            self.status = end.code
        self.variables = kept
        text = "".join(each.text for each in self.printed[mark:] if each.stream == 1)
        self.printed[mark:] = [each for each in self.printed[mark:] if each.stream != 1]
        return text

    def _simple(self, command: syntax.Simple, stdin: str) -> int:
        words = self._fields(command.words)
        for name, value in command.assignments:
            if words:
                raise syntax.NotUnderstood("a variable for one command")
            self.variables[name] = self.text(value)
        if not words:
            return self.status if not command.redirects else 0
        for redirect in command.redirects:
            if redirect.operator == "<":
                found = self.files.read(self.text(redirect.target), self.now)
                if found is None:
                    return 1
                stdin = found
        mark = len(self.printed)
        code = self.program(words, stdin)
        self._redirect(command.redirects, mark)
        return code

    def _redirect(self, redirects: Sequence[syntax.Redirect], mark: int) -> None:
        """Move what was printed since `mark` to its stream or file."""
        ways: dict[int, int | str] = {1: 1, 2: 2}
        contents: dict[str, str] = {}
        appended: set[str] = set()
        for redirect in redirects:
            target = self.text(redirect.target) if redirect.operator != "<" else ""
            if redirect.operator == ">&":
                if target not in ("1", "2"):
                    raise syntax.NotUnderstood(f">&{target[:40]}")
                ways[redirect.stream] = ways[int(target)]
            elif target:
                ways[redirect.stream] = target
                contents[target] = ""
                appended.update([target] if redirect.operator == ">>" else [])
        kept = []
        for each in self.printed[mark:]:
            way = ways[each.stream]
            if isinstance(way, int):
                kept.append(each._replace(stream=way))
            else:
                contents[way] += each.text
        self.printed[mark:] = kept
        for path, text in contents.items():
            self.files.write(path, text, self.now, append=path in appended)

    # -- words

    def _fields(self, words: Sequence[syntax.Word]) -> list[str]:
        fields: list[str] = []
        for word in words:
            current: str | None = None
            for part in word:
                if isinstance(part, syntax.Text) and not part.quoted and _GLOB.search(part.text):
                    raise syntax.NotUnderstood(f"the pattern {part.text[:40]}")
                value = self._value(part)
                if len(current or "") > syntax.MAX_TEXT_LENGTH:
                    raise syntax.NotUnderstood("so long a word")
                if isinstance(part, syntax.Text) or part.quoted:
                    current = (current or "") + value
                    continue
                pieces = value.split()
                if not pieces:
                    continue
                current = (current or "") + pieces[0]
                for piece in pieces[1:]:
                    fields.append(current)
                    current = piece
            if current is not None:
                fields.append(current)
        return fields

    def text(self, word: syntax.Word) -> str:
        text = ""
        for part in word:
            text += self._value(part)
            if len(text) > syntax.MAX_TEXT_LENGTH:
                raise syntax.NotUnderstood("so long a text")
        return text

    def _value(self, part: syntax.Part) -> str:
        value = self._expand(part)
        self._step(len(value))
        return value

    def _expand(self, part: syntax.Part) -> str:
        match part:
            case syntax.Text(text):
                return text
            case syntax.Variable(name, default):
                found = self._variable(name)
                return self.text(default) if not found and default is not None else found
            case syntax.Substitution(script):
                return self._capture(script).rstrip("\n")
            case syntax.Arithmetic(word):
                text = self.text(word)
                self._step(len(text) * _SUM_EFFORT)
                try:
                    return str(evaluate_arithmetic(text, self._variable))
                except ZeroDivisionError:
                    raise syntax.Exits(2) from None

    def _variable(self, name: str) -> str:
        if name == "?":
            return str(self.status)
        if name in ("$", "!", "-"):
            return "1" if name == "$" else ""
        if name == "#":
            return str(len(self.arguments))
        if name in ("@", "*"):
            return " ".join(self.arguments)
        if name.isdecimal():
            return (("sh", *self.arguments)[int(name) : int(name) + 1] or ("",))[0]
        if name == "RANDOM":
            return str(self.chance.randrange(32768))
        value = self.variables.get(name, "")
        if value is None:
            raise syntax.NotUnderstood(f"the variable {name}")
        return value
