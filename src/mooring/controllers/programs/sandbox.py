"""A file system for a program: a folder as its root, and volumes where it mounts them. Other tools make it.

`mount` lays a layer of the container's own over the folder (overlayfs), so that programs may write and the folder stays
as it is; bubblewrap (`bwrap`) makes that the root of a process with processes, a name and a /tmp of its own. All of it
is in a mount namespace, and gone with the last process. Called by ``container.py``.
"""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_MOUNT = 'mount -t overlay overlay -o "$0" "$1" && shift && exec "$@"'
_ISOLATED = ("--die-with-parent", "--unshare-pid", "--as-pid-1", "--unshare-ipc", "--unshare-uts")
_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID")
"""What a container of root usually may."""
_MOST_LINKS = 40


class Mount(NamedTuple):
    """A file or folder of this machine, seen at another place."""

    path: str
    source: Path
    read_only: bool = False


def clear(layer: Path) -> None:
    """Make the folders of an empty layer."""
    shutil.rmtree(layer, ignore_errors=True)
    for name in ("upper", "work", "root"):
        (layer / name).mkdir(parents=True, exist_ok=True)


def isolated(
    root: Path, layer: Path, mounts: Iterable[Mount], *, hostname: str, directory: str, info: int
) -> list[str]:
    """What to put before a command. `info` is a file descriptor by which bubblewrap tells the process's number."""
    words = [*_overlaid(root, layer), program("bwrap"), *_ISOLATED]
    words += ["--hostname", hostname[:63], "--info-fd", str(info), "--cap-drop", "ALL"]
    words += [word for name in _CAPABILITIES for word in ("--cap-add", f"CAP_{name}")]
    words += ["--bind", str(layer / "root"), "/", "--proc", "/proc", "--dev", "/dev"]
    words += ["--perms", "1777", "--tmpfs", "/tmp"]  # noqa: S108 - the container's
    for path, mount in sorted((inside(root, each.path), each) for each in mounts):
        words += ["--ro-bind" if mount.read_only else "--bind", str(mount.source), path]
    return [*words, "--chdir", directory or "/", "--"]


def entering(process: int, directory: str) -> list[str]:
    """What to put before a command that shall run where a process does."""
    spaces = ["--mount", "--pid", "--ipc", "--uts"]
    if os.geteuid() != 0:
        spaces += ["--user", "--preserve-credentials"]
    return [program("nsenter"), "--target", str(process), *spaces, f"--wdns={directory or '/'}", "--"]


def program(name: str) -> str:
    """Where it is by the variables of this process; those of the container are others."""
    return shutil.which(name) or name


def _overlaid(root: Path, layer: Path) -> list[str]:
    """Mount the root, with a layer of its own over it, at a folder that the layer has for it."""
    options = f"lowerdir={root},upperdir={layer / 'upper'},workdir={layer / 'work'}"
    words = [program("unshare"), "--mount"]
    if os.geteuid() != 0:
        words += ["--user", "--map-root-user"]
        options += ",userxattr"
    return [*words, program("sh"), "-c", _MOUNT, options, str(layer / "root")]


def inside(root: Path, path: str) -> str:
    """A path in the container without links, which bubblewrap would follow on this machine instead."""
    done: list[str] = []
    left = _parts(path)
    links = 0
    while left:
        part = left.pop(0)
        if part == "..":
            done = done[:-1]
            continue
        here = root.joinpath(*done, part)
        if here.is_symlink() and links < _MOST_LINKS:
            links += 1
            target = str(here.readlink())
            done = [] if target.startswith("/") else done
            left = [*_parts(target), *left]
        else:
            done = [*done, part]
    return "/" + "/".join(done)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]
