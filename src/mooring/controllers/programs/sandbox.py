"""Build the command line that gives a program a file system of its own: a folder as its root, and its volumes.

``mounts.py`` lays a layer of the container's own over the folder (overlayfs), so that programs may write and the folder
stays as it is, and mounts the volumes; bubblewrap (`bwrap`) makes that the root of a process with its own processes,
host name and /tmp. All of it is in a mount namespace, and gone with the last process. Called by ``container.py``.
"""

import inspect
import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from mooring.controllers.programs import mounts as mounts_source
from mooring.controllers.programs.process import StartError

_ISOLATED = ("--die-with-parent", "--unshare-pid", "--as-pid-1", "--unshare-ipc", "--unshare-uts")
_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID")
"""Capabilities of an ordinary root container."""
_MAX_LINKS = 40
_DEVICES = PurePosixPath("/dev")
_RESERVED = {PurePosixPath("/"), PurePosixPath("/proc"), _DEVICES}


class Mount(NamedTuple):
    """A mount in a container: its `path` there shows `source`, an absolute path of this machine without links."""

    path: str
    source: Path
    read_only: bool = False


def create_layer(layer: Path) -> None:
    """Create the folders of a container's writable overlay layer, empty."""
    shutil.rmtree(layer, ignore_errors=True)
    for name in ("upper", "work", "root", "devices"):
        (layer / name).mkdir(parents=True, exist_ok=True)


def build_isolation_command(
    root: Path, layer: Path, mounts: Iterable[Mount], *, hostname: str, directory: str
) -> list[str]:
    """Return the command prefix that isolates a program. Raise StartError for an impossible mount path."""
    resolved = sorted((PurePosixPath(resolve_links(root, each.path)), each) for each in mounts)
    _check_mount_paths([path for path, _ in resolved])
    binds, devices = [], list[str]()
    for path, mount in resolved:
        base, below = str(layer / "root"), str(path)
        if path.is_relative_to(_DEVICES):  # bubblewrap's /dev does not exist yet
            base, below = str(layer / "devices"), str(len(devices))
            devices += ["--bind", f"{base}/{below}", str(path)]
        binds.append((str(mount.source), base, below, mount.read_only))
    words = [*_build_mount_command(root, layer, binds), find_executable("bwrap"), *_ISOLATED]
    words += ["--hostname", hostname[:63], "--cap-drop", "ALL"]
    words += [word for name in _CAPABILITIES for word in ("--cap-add", f"CAP_{name}")]
    words += ["--bind", str(layer / "root"), "/", "--proc", "/proc", "--dev", "/dev", *devices]
    return [*words, "--chdir", directory or "/"]


def report_process_id_options(info: int) -> list[str]:
    """Return bubblewrap's last options, by which it writes the program's process id to the descriptor `info`."""
    return ["--info-fd", str(info), "--"]


def _check_mount_paths(paths: Sequence[PurePosixPath]) -> None:
    for path in paths:
        in_volume = path.is_relative_to(_DEVICES) and any(each in path.parents for each in paths)
        if path in _RESERVED or path.is_relative_to("/proc") or in_volume:
            raise StartError(f"mountPath {str(path)!r}: nothing can be mounted there")


def build_enter_command(process: int, directory: str) -> list[str]:
    """Return the command prefix that runs a command in the namespaces of a running process."""
    spaces = ["--mount", "--pid", "--ipc", "--uts"]
    if os.geteuid() != 0:
        spaces += ["--user", "--preserve-credentials"]
    return [find_executable("nsenter"), "--target", str(process), *spaces, f"--wdns={directory or '/'}", "--"]


def find_executable(name: str) -> str:
    """Return the path of an executable, found by this process's PATH because the container's differs; else its name."""
    return shutil.which(name) or name


def _build_mount_command(root: Path, layer: Path, binds: Sequence[tuple[str, str, str, bool]]) -> list[str]:
    options = f"lowerdir={root},upperdir={layer / 'upper'},workdir={layer / 'work'}"
    words = [find_executable("unshare"), "--mount"]
    if os.geteuid() != 0:
        words += ["--user", "--map-root-user"]
        options += ",userxattr"
    wanted = json.dumps({"root": str(layer / "root"), "options": options, "binds": binds})
    return [*words, sys.executable, "-I", "-S", "-c", inspect.getsource(mounts_source), wanted]


def resolve_links(root: Path, path: str) -> str:
    """Resolve the image's symbolic links in a path of the container, because ``mounts.py`` follows none."""
    done: list[str] = []
    left = _split_path(path)
    links = 0
    while left:
        part = left.pop(0)
        if part == "..":
            done = done[:-1]
            continue
        here = root.joinpath(*done, part)
        if here.is_symlink() and links < _MAX_LINKS:
            links += 1
            target = str(here.readlink())
            done = [] if target.startswith("/") else done
            left = [*_split_path(target), *left]
        else:
            done = [*done, part]
    return "/" + "/".join(done)


def _split_path(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in {"", "."}]
