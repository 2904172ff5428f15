"""Commands in simulated containers: rules first, then the small commands, and a shell that puts these together.

The shell knows `;`, `&&`, `||`, quotes, `$NAME`, redirection to the other output or to /dev/null, and `exit`. Whatever
else is asked of it, it says that it does not know, so that nobody takes a simulation for more than it is.
"""

import asyncio
import posixpath
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from mooring.api.simulation import PREFIX
from mooring.apiserver.streams.simulated.commands import COMMANDS, Surroundings
from mooring.apiserver.streams.simulated.rules import CommandRule, command_rule
from mooring.apiserver.streams.simulated.terminal import Interrupted, Stdio, Write

_SHELLS = frozenset({"ash", "bash", "dash", "sh", "zsh"})
_REDIRECTION = re.compile(r"([12&]?)>{1,2}\s*(?:&([12])|/dev/null\b)")
_MARK = "\x01"
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+|\?))")
_PUNCTUATION = ";&|<>()\n"
_NOT_FOUND, _NOT_UNDERSTOOD, _INTERRUPTED = 127, 2, 130
_MOST_STEPS = 1000


class _Exit(Exception):  # noqa: N818 - what happens, not a mistake
    def __init__(self, code: int) -> None:
        self.code = code


class _Unknown(Exception):  # noqa: N818 - as above
    """Something that the shell does not know."""


@dataclass(slots=True)
class _Step:
    """A command with its words, and on what it depends: `;`, `&&` or `||`."""

    joined_by: str = ";"
    words: list[str] = field(default_factory=list)
    redirected: list[str] = field(default_factory=list)
    """`12`: the first output goes to the second; `1`: it goes nowhere."""


class Shell:
    """Runs commands in one container."""

    def __init__(self, here: Surroundings) -> None:
        self._here = here
        self._last = 0

    async def run(self, words: Sequence[str], stdio: Stdio) -> int:
        """The exit code of a command."""
        try:
            return await self._run(words, stdio)
        except Interrupted:
            return _INTERRUPTED
        except _Exit as left:
            return left.code

    async def _run(self, words: Sequence[str], stdio: Stdio) -> int:
        rule = command_rule(self._here.pod, self._here.container, tuple(words))
        if rule is not None:
            return await self._by_rule(rule, stdio)
        name = posixpath.basename(words[0])
        if name in _SHELLS:
            return await self._nested(words[1:], stdio)
        command = COMMANDS.get(name)
        if command is None:
            about = f"nothing answers {shlex.join(words)[:200]!r} here; the annotation {PREFIX}exec can say what does"
            await stdio.err(f"{words[0]}: simulated: {about}\n".encode())
            return _NOT_FOUND
        return await command(self._here, stdio, words[1:])

    async def _by_rule(self, rule: CommandRule, stdio: Stdio) -> int:
        if rule.seconds:
            await self._here.clock.sleep(rule.seconds)
        if rule.stdout:
            await stdio.out(rule.stdout.encode())
        if rule.stderr:
            await stdio.err(rule.stderr.encode())
        return rule.exit_code

    async def _nested(self, words: Sequence[str], stdio: Stdio) -> int:
        """`sh -c SCRIPT`, or a shell that reads lines."""
        for index, word in enumerate(words):
            if re.fullmatch(r"-\w*c", word) and index + 1 < len(words):
                try:
                    return await self._script(words[index + 1], stdio)
                except _Exit as left:
                    return left.code
        try:
            return await self._interactive(stdio)
        except _Exit as left:
            return left.code

    async def _interactive(self, stdio: Stdio) -> int:
        while True:
            if stdio.tty:
                await stdio.out(b"$ ")
            try:
                line = await stdio.read_line()
                if not line:
                    return self._last
                self._last = await self._script(line.decode(errors="replace"), stdio)
            except Interrupted:
                self._last = _INTERRUPTED

    async def _script(self, script: str, stdio: Stdio) -> int:
        code = 0
        try:
            steps = _steps(script)
        except (_Unknown, ValueError) as error:
            await stdio.err(f"sh: simulated: {error}; the annotation {PREFIX}exec can say what it answers\n".encode())
            return _NOT_UNDERSTOOD
        for step in steps:
            if (step.joined_by == "&&" and code) or (step.joined_by == "||" and not code):
                continue
            words = [self._expanded(word) for word in step.words]
            if not words or not words[0]:
                continue
            if words[0] == "exit":
                raise _Exit(int(words[1]) & 255 if len(words) > 1 and words[1].isdigit() else code)
            code = self._last = await self._run(words, _redirected(stdio, step.redirected))
            await asyncio.sleep(0)  # a long script is not the only one who wants to run
        return code

    def _expanded(self, word: str) -> str:
        if "$" not in word:
            return word
        environment = self._here.environment()

        def value(found: re.Match[str]) -> str:
            name = found[1] or found[2]
            return str(self._last) if name == "?" else environment.get(name, "")

        return _VARIABLE.sub(value, word)


def _steps(script: str) -> list[_Step]:
    """The commands of a script; raises _Unknown, and ValueError for a quote that does not end."""
    marked = _REDIRECTION.sub(lambda found: f" {_MARK}{found[1] or '1'}{found[2] or ''} ", script)
    lexer = shlex.shlex(marked, posix=True, punctuation_chars=_PUNCTUATION)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    steps = [_Step()]
    for token in lexer:
        if token.startswith(_MARK):
            steps[-1].redirected.append(token[1:])
        elif token and not token.strip(_PUNCTUATION):
            joined_by = token.strip("\n") or ";"
            if joined_by not in {";", "&&", "||"}:
                raise _Unknown(f"this shell does not know {joined_by}")
            steps.append(_Step(joined_by))
        else:
            steps[-1].words.append(token)
    if len(steps) > _MOST_STEPS:
        raise _Unknown(f"a script has at most {_MOST_STEPS} commands")
    return steps


def _redirected(stdio: Stdio, redirected: Sequence[str]) -> Stdio:
    return _Redirected(stdio, redirected) if redirected else stdio


class _Redirected(Stdio):
    """The same input; each output where it was sent."""

    def __init__(self, stdio: Stdio, redirected: Sequence[str]) -> None:
        ways: dict[str, Write] = {"1": stdio.out, "2": stdio.err}
        for word in redirected:
            target = ways[word[1]] if len(word) > 1 else _nowhere
            ways.update({"1": target, "2": target} if word[0] == "&" else {word[0]: target})
        super().__init__(ways["1"], ways["2"])
        self._origin = stdio

    async def read(self) -> bytes:
        return await self._origin.read()


async def _nowhere(_: bytes) -> None:
    """/dev/null"""
