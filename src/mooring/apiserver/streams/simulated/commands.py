"""Run commands in simulated containers: as the pod's annotations declare, else by the interpreter ``mooring.shell``.

Three commands need the client's input while they run, or files as bytes, and are implemented here: `cat` without a
file, an interactive shell, and `tar` (for `kubectl cp`). Files that a command writes are lost when it ends.
"""

import asyncio
import io
import posixpath
import shlex
import tarfile
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from mooring.api.core_v1 import Pod
from mooring.api.environment import UnknownValueError, environment_of, expand_references
from mooring.api.simulation import PREFIX
from mooring.apiserver.streams.simulated.container import ContainerRun, find_container_spec
from mooring.apiserver.streams.simulated.pod_annotations import find_declared_command, read_declared_files
from mooring.apiserver.streams.simulated.terminal import Interrupted, Stdio
from mooring.base.clock import Clock
from mooring.shell import Files, NotUnderstood, Outcome, bytes_of, command_line
from mooring.shell import run as interpret
from mooring.shell.machine import SHELLS

_KNOWN = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "PWD": "/"}
_NOT_UNDERSTOOD, _INTERRUPTED = 127, 130


class CommandContext(msgspec.Struct, frozen=True):
    """The simulated container in which a command runs: pod, container name, mounted files, clock."""

    pod: Pod
    container: str
    clock: Clock
    mounted: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Files of volumes, by path."""

    def files(self) -> Mapping[str, str]:
        own = {"/etc/hostname": f"{self.pod.spec.hostname or self.pod.metadata.name}\n"}
        return (
            own
            | dict(self.mounted)
            | {posixpath.join("/", path): text for path, text in read_declared_files(self.pod).items()}
        )

    def interpret(self, words: Sequence[str], began: datetime, seed: str = "") -> Outcome:
        """Run a shell command in ``mooring.shell``; return output and exit code. Raise NotUnderstood."""
        spec = find_container_spec(self.pod, self.container)
        try:
            variables = environment_of(self.pod, spec) if spec else {}
        except UnknownValueError:
            variables = {}
        known: dict[str, str | None] = {**_KNOWN, **variables}
        own = {path: (0.0, text) for path, text in self.files().items()}
        return interpret(list(words), known, Files(own=own), began=began.timestamp(), seed=seed)


def run_main_process(context: CommandContext, run: ContainerRun) -> Outcome | None:
    """Return the output of a container's `command` in a run; None if it has none or the shell cannot run it."""
    spec = find_container_spec(context.pod, context.container)
    line = command_line(spec.command, spec.args) if spec else []
    if spec is None or not line:
        return None
    try:
        variables = environment_of(context.pod, spec)
        words = [expand_references(word, variables) for word in line]
        return context.interpret(words, run.began, f"{context.pod.metadata.uid}/{context.container}/{run.restarts}")
    except (NotUnderstood, UnknownValueError):
        return None


async def run_command(context: CommandContext, words: Sequence[str], stdio: Stdio) -> int:
    """Run a command (of exec) in a simulated container, connected to a client's streams; return its exit code."""
    declared = await asyncio.to_thread(find_declared_command, context.pod, context.container, tuple(words))
    if declared is not None:
        if declared.seconds:
            await context.clock.sleep(declared.seconds)
        await stdio.out(declared.stdout.encode())
        await stdio.err(declared.stderr.encode())
        return declared.exit_code
    try:
        match posixpath.basename(words[0]), *words[1:]:
            case ["cat"] | ["cat", "-"]:
                return await repeat_input(stdio)
            case [shell, "-c", script] if shell in SHELLS and script.strip() in {"cat", "cat -"}:
                return await repeat_input(stdio)
            case ["tar", *rest]:
                return await _run_tar(context, rest, stdio)
            case [shell, *rest] if shell in SHELLS and all(word.startswith("-") and "c" not in word for word in rest):
                return await _run_interactive_shell(context, stdio)
        return await _run_in_interpreter(context, words, stdio)
    except Interrupted:
        return _INTERRUPTED


async def _run_in_interpreter(context: CommandContext, words: Sequence[str], stdio: Stdio) -> int:
    began = context.clock.now()
    try:
        outcome = await asyncio.to_thread(context.interpret, words, began)  # may run for long
    except NotUnderstood as error:
        asked = f"{shlex.join(words)[:200]!r} (it does not know {error})"
        about = f"the small shell of simulated containers does not understand {asked}"
        await stdio.err(f"{about}; the annotation {PREFIX}exec can say what it answers\n".encode())
        return _NOT_UNDERSTOOD
    passed = 0.0
    for printed in outcome.output:
        if printed.second > passed:
            await context.clock.sleep(printed.second - passed)
            passed = printed.second
        await (stdio.out if printed.stream == 1 else stdio.err)(bytes_of(printed.text))
    if outcome.exit_code is None:
        await asyncio.Event().wait()  # until the client leaves
    if outcome.seconds > passed:
        await context.clock.sleep(outcome.seconds - passed)
    return outcome.exit_code or 0


async def repeat_input(stdio: Stdio) -> int:
    """Write all input to the output, as `cat` does; return the exit code."""
    while data := await stdio.read():
        await stdio.out(data)
    return 0


async def _run_interactive_shell(context: CommandContext, stdio: Stdio) -> int:
    """Run a shell on a client's input, line by line, until `exit` or the end; return the exit code."""
    code = 0
    while True:
        if stdio.tty:
            await stdio.out(b"$ ")
        try:
            line = (await stdio.read_line()).decode(errors="replace")
            if not line:
                return code
            words = line.split()
            if words[:1] == ["exit"]:
                return int(words[1][-18:]) & 255 if len(words) > 1 and words[1].isdecimal() else code
            if words:
                script = line.strip()
                declared = await asyncio.to_thread(find_declared_command, context.pod, context.container, (script,))
                code = await run_command(context, [script] if declared else ["sh", "-c", line], stdio)
        except Interrupted:
            code = _INTERRUPTED


async def _run_tar(context: CommandContext, words: Sequence[str], stdio: Stdio) -> int:
    """Send files as `tar cf - PATH…` does; refuse other uses, since files are not kept. Return the exit code."""
    if not words or "c" not in words[0]:
        why = f"a simulated container has the files of the annotation {PREFIX}files, and takes no others"
        await stdio.err(f"tar: {why}\n".encode())
        return 2
    files = await asyncio.to_thread(context.files)
    packed: dict[str, str] = {}
    code = 0
    for name in (word for word in words[1:] if not word.startswith("-")):
        path = posixpath.normpath(posixpath.join("/", name))
        found = {each: text for each, text in files.items() if each == path or each.startswith(f"{path.rstrip('/')}/")}
        packed |= found
        if not found:
            await stdio.err(f"tar: {name}: Cannot stat: No such file or directory\n".encode())
            code = 2
    await stdio.out(await asyncio.to_thread(_make_tar_archive, packed, int(context.clock.now().timestamp())))
    return code


def _make_tar_archive(files: Mapping[str, str], modified: int) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for path, text in files.items():
            content = text.encode()
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size, entry.mtime = len(content), modified
            archive.addfile(entry, io.BytesIO(content))
    return written.getvalue()
