"""Types what a page shows in its `console` blocks into one shell, and looks for what it says will be printed.

    $ kubectl get pods            a command; if it shows a state, it is asked again until it is the one expected
    web-…   1/1   Running         a line that has to be printed: `…` stands for anything, blanks for any number of them

A command may be continued with a backslash. Programs in the background go on printing; what they print counts.
"""

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
_SECONDS = 30.0
_END = "-- the command has ended with"
_ASKS = ("kubectl get ", "kubectl events ", "kubectl apply --dry-run")


@dataclass(frozen=True)
class Step:
    command: str
    expected: list[str]


def steps(page: Path) -> list[Step]:
    """Return what a page says to type."""
    return _typed(page.read_text())


def steps_by_section(page: Path) -> dict[str, list[Step]]:
    """Return the same by heading, of those under which there is something to type."""
    sections = re.findall(r"^## (.*)\n((?:(?!## ).*\n?)*)", page.read_text(), re.MULTILINE)
    return {heading: found for heading, text in sections if (found := _typed(text))}


def _typed(text: str) -> list[Step]:
    found = []
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for part in re.split(r"^\$ ", block.replace("\\\n", ""), flags=re.MULTILINE):
            if part.strip():
                command, *expected = part.splitlines()
                found.append(Step(command, [line for line in expected if line.strip()]))
    return found


@dataclass
class Console:
    """A shell that runs, with all that it and its programs have printed."""

    process: subprocess.Popen[str]
    lines: "queue.SimpleQueue[str]" = field(default_factory=queue.SimpleQueue)
    unseen: str = ""
    """What was printed since the last step was done."""

    def type(self, step: Step) -> None:
        """Type a command and wait until all that is expected was printed."""
        deadline = time.monotonic() + _SECONDS
        self._send(step.command)
        while not (all(_is_shown(line, self.unseen) for line in step.expected) and _END in self.unseen):
            assert time.monotonic() < deadline, f"$ {step.command}\n{self.unseen}"
            assert self.process.poll() is None, f"the shell has ended: {self.unseen}"
            with suppress(queue.Empty):
                self.unseen += self.lines.get(timeout=0.2)
                continue
            if _END in self.unseen and step.command.startswith(_ASKS):
                self._send(step.command)
        code = re.findall(rf"{_END} (\d+)", self.unseen)[-1]
        assert code == "0" or "error" in "".join(step.expected).lower(), f"$ {step.command}\n{self.unseen}"
        self.unseen = ""

    def _send(self, command: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{command}\necho '{_END}' $?\n")
        self.process.stdin.flush()

    def read(self) -> None:
        """Collect what is printed; runs in a thread of its own."""
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.put(line)


def _is_shown(line: str, printed: str) -> bool:
    pattern = r"\s+".join(re.escape(word).replace("…", ".*") for word in line.split())
    return re.search(pattern, printed) is not None


@contextmanager
def console(folder: Path) -> Iterator[Console]:
    """Yield a shell in a folder that has the repository's examples; all that it started ends with it."""
    (folder / "examples").symlink_to(ROOT / "examples")
    environment = {
        **os.environ,
        "HOME": str(folder),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONUNBUFFERED": "1",
    }
    environment.pop("KUBECONFIG", None)
    process = subprocess.Popen(
        ["/bin/bash", "--norc"],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    shell = Console(process)
    reader = threading.Thread(target=shell.read)
    reader.start()
    try:
        yield shell
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)  # a session of its own
        assert process.stdin
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.wait(_SECONDS)
        reader.join(_SECONDS)
        assert process.stdout
        process.stdout.close()
