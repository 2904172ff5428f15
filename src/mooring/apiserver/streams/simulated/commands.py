"""The commands that simulated containers know by themselves: enough to try clients with; nothing is executed.

Files are those of the pod's annotation. A rule of the pod (``rules.py``) comes before any of these; ``shell.py`` calls
them.
"""

import io
import posixpath
import tarfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from mooring.api.core_v1 import Pod
from mooring.api.simulation import PREFIX
from mooring.apiserver.streams.simulated.container import spec_of
from mooring.apiserver.streams.simulated.rules import files
from mooring.apiserver.streams.simulated.terminal import Stdio
from mooring.base.clock import Clock

_FOLDERS = ("/", "/etc", "/tmp")  # noqa: S108 - what every container has, and nobody writes to
_LONGEST_SLEEP = 86400.0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a command can see: its container and the time."""

    pod: Pod
    container: str
    clock: Clock

    @property
    def hostname(self) -> str:
        return self.pod.spec.hostname or self.pod.metadata.name

    def environment(self) -> dict[str, str]:
        found = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOSTNAME": self.hostname, "HOME": "/root"}
        spec = spec_of(self.pod, self.container)
        return found | {each.name: each.value for each in (spec.env if spec else ()) if each.value_from is None}

    def files(self) -> Mapping[str, str]:
        own = {"/etc/hostname": f"{self.hostname}\n"}
        return own | {posixpath.join("/", path): text for path, text in files(self.pod).items()}

    def folders(self) -> set[str]:
        found = set(_FOLDERS)
        for path in self.files():
            while path := posixpath.dirname(path):
                if path in found:
                    break
                found.add(path)
        return found

    def path(self, text: str) -> str:
        spec = spec_of(self.pod, self.container)
        return posixpath.normpath(posixpath.join("/", (spec.working_dir if spec else "") or "", text))


Command = Callable[[Surroundings, Stdio, Sequence[str]], Awaitable[int]]


async def _cat(here: Surroundings, stdio: Stdio, words: Sequence[str]) -> int:
    code = 0
    for name in words or ("-",):
        if name == "-":
            while data := await stdio.read():
                await stdio.out(data)
        elif (text := here.files().get(here.path(name))) is not None:
            await stdio.out(text.encode())
        else:
            await stdio.err(f"cat: {name}: No such file or directory\n".encode())
            code = 1
    return code


async def _date(here: Surroundings, stdio: Stdio, words: Sequence[str]) -> int:
    now, form = here.clock.now(), words[0] if words else ""
    text = now.strftime(form[1:]) if form.startswith("+") else f"{now:%a %b} {now.day:2} {now:%H:%M:%S} UTC {now:%Y}"
    await stdio.out(f"{text}\n".encode())
    return 0


async def _echo(_: Surroundings, stdio: Stdio, words: Sequence[str]) -> int:
    without_end = bool(words) and words[0] == "-n"
    text = " ".join(words[1:] if without_end else words)
    await stdio.out(text.encode() if without_end else f"{text}\n".encode())
    return 0


async def _env(here: Surroundings, stdio: Stdio, words: Sequence[str]) -> int:
    environment = here.environment()
    if not words:
        await stdio.out("".join(f"{name}={value}\n" for name, value in environment.items()).encode())
        return 0
    found = [environment[name] for name in words if name in environment]
    await stdio.out("".join(f"{value}\n" for value in found).encode())
    return 0 if len(found) == len(words) else 1


async def _false(*_: object) -> int:
    return 1


async def _hostname(here: Surroundings, stdio: Stdio, _: Sequence[str]) -> int:
    await stdio.out(f"{here.hostname}\n".encode())
    return 0


async def _ls(here: Surroundings, stdio: Stdio, words: Sequence[str]) -> int:
    code, known, folders = 0, here.files(), here.folders()
    for name in [word for word in words if not word.startswith("-")] or ["."]:
        path = here.path(name)
        if path in known:
            await stdio.out(f"{name}\n".encode())
        elif path in folders:
            inside = {each for each in (*known, *folders) if each != "/" and posixpath.dirname(each) == path}
            await stdio.out("".join(f"{posixpath.basename(each)}\n" for each in sorted(inside)).encode())
        else:
            await stdio.err(f"ls: {name}: No such file or directory\n".encode())
            code = 1
    return code


async def _pwd(here: Surroundings, stdio: Stdio, _: Sequence[str]) -> int:
    await stdio.out(f"{here.path('')}\n".encode())
    return 0


async def _sleep(here: Surroundings, stdio: Stdio, words: Sequence[str]) -> int:
    try:
        await here.clock.sleep(min(float(words[0]), _LONGEST_SLEEP))
    except (IndexError, ValueError):
        await stdio.err(b"sleep: say how many seconds\n")
        return 1
    return 0


async def _tar(here: Surroundings, stdio: Stdio, words: Sequence[str]) -> int:
    """`tar cf - PATH…`, which `kubectl cp` runs to read. Writing would need files that somebody keeps."""
    if not words or "x" in words[0].split("=")[0]:
        why = f"a simulated container has the files of the annotation {PREFIX}files, and takes no others"
        await stdio.err(f"tar: {why}\n".encode())
        return 2
    packed = io.BytesIO()
    code = 0
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in (word for word in words[1:] if not word.startswith("-")):
            path = here.path(name)
            found = {each: text for each, text in here.files().items() if each == path or each.startswith(f"{path}/")}
            for each, text in found.items():
                entry = tarfile.TarInfo(each.lstrip("/"))
                entry.size, entry.mtime = len(text.encode()), int(here.clock.now().timestamp())
                archive.addfile(entry, io.BytesIO(text.encode()))
            if not found:
                await stdio.err(f"tar: {name}: Cannot stat: No such file or directory\n".encode())
                code = 2
    await stdio.out(packed.getvalue())
    return code


async def _test(here: Surroundings, _: Stdio, words: Sequence[str]) -> int:
    checks: dict[str, Callable[[str], bool]] = {
        "-d": lambda text: here.path(text) in here.folders(),
        "-e": lambda text: here.path(text) in here.folders() or here.path(text) in here.files(),
        "-f": lambda text: here.path(text) in here.files(),
        "-n": bool,
        "-z": lambda text: not text,
    }
    match [word for word in words if word != "]"]:
        case [check, text] if check in checks:
            return 0 if checks[check](text) else 1
        case [one, ("=" | "=="), other]:
            return 0 if one == other else 1
        case [one, "!=", other]:
            return 0 if one != other else 1
    return 2


async def _true(*_: object) -> int:
    return 0


async def _uname(_: Surroundings, stdio: Stdio, __: Sequence[str]) -> int:
    await stdio.out(b"Linux\n")
    return 0


async def _whoami(_: Surroundings, stdio: Stdio, __: Sequence[str]) -> int:
    await stdio.out(b"root\n")
    return 0


COMMANDS: Mapping[str, Command] = {
    ":": _true,
    "[": _test,
    "cat": _cat,
    "date": _date,
    "echo": _echo,
    "env": _env,
    "false": _false,
    "hostname": _hostname,
    "ls": _ls,
    "printenv": _env,
    "pwd": _pwd,
    "sleep": _sleep,
    "tar": _tar,
    "test": _test,
    "true": _true,
    "uname": _uname,
    "whoami": _whoami,
}
