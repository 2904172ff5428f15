"""Mount a container's file system without following links that a program has left in a volume.

``sandbox.py`` runs this source in a new mount namespace, before bubblewrap: it must not import other modules of
Mooring. A path is opened component by component with O_NOFOLLOW and mounted by its descriptor, so that a program that
replaces a directory by a link meanwhile makes the mount fail instead of reaching a file of the machine.
"""

import ctypes
import json
import os
import stat
import sys
from collections.abc import Sequence
from pathlib import PurePosixPath

_OPEN = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442  # the same numbers on every architecture that Linux runs on
_AT_EMPTY_PATH, _AT_RECURSIVE, _CLONE = 0x1000, 0x8000, 1
_FROM_DESCRIPTOR_TO_DESCRIPTOR = 0x04 | 0x40
_READ_ONLY = 1
_NOSUID, _NODEV = 2, 4


def open_beneath(start: int, path: str, *, create: bool = False, is_file: bool = False) -> int:
    """Open a path below the directory `start`, following no links; return its file descriptor.

    With `create`, missing components are created as directories, the last one as a file if `is_file`.
    Raise OSError where a component is a link or `..`.
    """
    parts = PurePosixPath(path.lstrip("/")).parts
    current = os.dup(start)
    for number, part in enumerate(parts, 1):
        try:
            if create:
                _create_if_missing(current, part, is_file=is_file and number == len(parts))
            below = os.open(part, _OPEN, dir_fd=current)
        finally:
            os.close(current)
        current = below
        if part == ".." or stat.S_ISLNK(os.fstat(current).st_mode):
            os.close(current)
            raise OSError(f"{'/'.join(parts[:number])} is a link, or leads upwards")
    return current


def _create_if_missing(directory: int, name: str, *, is_file: bool) -> None:
    try:
        if is_file:
            os.close(os.open(name, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=directory))
        else:
            os.mkdir(name, 0o755, dir_fd=directory)
    except FileExistsError:
        pass


class _MountCalls:
    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)

    def mount(self, kind: str, target: int, flags: int, options: str) -> None:
        place = f"/proc/self/fd/{target}".encode()
        self._raise_if_failed(
            self._libc.mount(kind.encode(), place, kind.encode(), ctypes.c_ulong(flags), options.encode())
        )

    def bind_mount(self, source: int, target: int, *, read_only: bool) -> None:
        flags = _CLONE | _AT_EMPTY_PATH | _AT_RECURSIVE | os.O_CLOEXEC
        tree = self._call_kernel(_OPEN_TREE, source, b"", flags)
        if read_only:
            attributes = (ctypes.c_uint64 * 4)(_READ_ONLY)
            size = ctypes.c_size_t(ctypes.sizeof(attributes))
            self._call_kernel(_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH | _AT_RECURSIVE, attributes, size)
        self._call_kernel(_MOVE_MOUNT, tree, b"", target, b"", _FROM_DESCRIPTOR_TO_DESCRIPTOR)
        os.close(tree)

    def _call_kernel(self, number: int, *arguments: object) -> int:
        return self._raise_if_failed(self._libc.syscall(ctypes.c_long(number), *arguments))

    @staticmethod
    def _raise_if_failed(result: int) -> int:
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result


def mount_all(root: str, options: str, binds: Sequence[tuple[str, str, str, bool]]) -> None:
    """Mount an overlay at `root` with a /tmp of its own, then each bind: source, base folder, path below it, read-only.

    The base folder is `root`, or one that only Mooring writes to.
    """
    kernel = _MountCalls()
    top = os.open("/", _OPEN | os.O_DIRECTORY)
    kernel.mount("overlay", open_beneath(top, root), 0, options)
    temporary = open_beneath(open_beneath(top, root), "tmp", create=True)
    kernel.mount("tmpfs", temporary, _NOSUID | _NODEV, "mode=1777")
    for source, base, path, read_only in binds:
        try:
            opened = open_beneath(top, source)
            is_file = not stat.S_ISDIR(os.fstat(opened).st_mode)
            target = open_beneath(open_beneath(top, base), path, create=True, is_file=is_file)
            kernel.bind_mount(opened, target, read_only=read_only)
        except OSError as error:
            raise OSError(f"cannot mount a volume at {path}: {error}") from error


def main() -> None:
    """Mount the file systems that the first argument describes in JSON, then execute the remaining arguments."""
    try:
        mount_all(**json.loads(sys.argv[1]))
        os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606 - by its whole path
    except OSError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
