"""The file system that a program sees, as arguments of bubblewrap (`bwrap`), which makes it.

A program with a `root` sees that folder read-only, its volumes where it mounts them, and a /tmp of its own. Where a
mount point does not exist in the folder, the nearest folder above it that does is made anew in memory, with what was in
it mounted one by one: nothing is ever written into the root. Called by ``container.py``.
"""

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

_ISOLATED = ("--die-with-parent", "--unshare-pid", "--as-pid-1", "--unshare-ipc", "--unshare-uts")
_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID")
"""What a container of root usually may."""
_OWN = ("/proc", "/dev", "/tmp")  # noqa: S108 - the container's, which is in memory
_MOST_LINKS = 40


class Mount(NamedTuple):
    """A file or folder of this machine, seen at another place."""

    path: str
    source: Path
    read_only: bool = False


def isolated(root: Path, mounts: Iterable[Mount], *, hostname: str, directory: str, info: int) -> list[str]:
    """What to put before a command. `info` is a file descriptor that bubblewrap tells the process's number."""
    ordered = sorted(((_inside(root, mount.path), mount) for mount in mounts), key=lambda pair: pair[0])
    words = [_program("bwrap"), *_ISOLATED, "--hostname", hostname[:63], "--info-fd", str(info)]
    if os.geteuid() == 0:
        words += ["--cap-drop", "ALL"]
        words += [word for name in _CAPABILITIES for word in ("--cap-add", f"CAP_{name}")]
    for folder in sorted({"/", *(_opened(root, place) for place, _ in ordered)}):
        words += _made_anew(root, folder)
    words += ["--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--tmpfs", "/tmp"]  # noqa: S108 - as above
    for place, mount in ordered:
        words += ["--ro-bind" if mount.read_only else "--bind", str(mount.source), place]
    return [*words, "--chdir", directory or "/", "--"]


def entering(process: int, directory: str) -> list[str]:
    """What to put before a command that shall run where a process does."""
    spaces = ["--mount", "--pid", "--ipc", "--uts"]
    if os.geteuid() != 0:
        spaces += ["--user", "--preserve-credentials"]
    return [_program("nsenter"), "--target", str(process), *spaces, f"--wdns={directory or '/'}", "--"]


def _program(name: str) -> str:
    """Where it is by the variables of this process; those of the container are others."""
    return shutil.which(name) or name


def _made_anew(root: Path, folder: str) -> Iterator[str]:
    """A folder in memory, with all that is in it in the root."""
    yield from ("--tmpfs", folder)
    for entry in sorted(os.scandir(root / folder.lstrip("/")), key=lambda entry: entry.name):
        place = str(PurePosixPath(folder) / entry.name)
        if entry.is_symlink():
            yield from ("--symlink", str(Path(entry.path).readlink()), place)
        elif place not in _OWN:
            yield from ("--ro-bind", entry.path, place)


def _opened(root: Path, place: str) -> str:
    """The folder that must be made anew so that something can be mounted at a place; / where none must."""
    path = PurePosixPath(place)
    if _exists(root, path) or any(path.is_relative_to(own) for own in _OWN):
        return "/"
    return next(str(above) for above in path.parents if _exists(root, above))


def _exists(root: Path, path: PurePosixPath) -> bool:
    return (root / str(path).lstrip("/")).exists()


def _inside(root: Path, path: str) -> str:
    """A path in the container without links, which bubblewrap would follow on this machine instead."""
    done = PurePosixPath("/")
    left = _parts(path)
    links = 0
    while left:
        part = left.pop(0)
        if part == "..":
            done = done.parent
            continue
        here = root / str(done / part).lstrip("/")
        if here.is_symlink() and links < _MOST_LINKS:
            links += 1
            target = str(here.readlink())
            done = PurePosixPath("/") if target.startswith("/") else done
            left = [*_parts(target), *left]
        else:
            done /= part
    return str(done)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]
