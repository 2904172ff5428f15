"""Files in memory: some directories are shared (volumes), all others belong to one container.

A file has a time of creation, because a script is computed at once but takes (virtual) time.
"""

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from mooring.shell.syntax import MAX_TEXT_LENGTH, NotUnderstood

Store: TypeAlias = dict[str, tuple[float, str]]
"""Time of writing and content, by path below the directory. A directory is a path that ends with `/`."""
DEVICES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/termination-log"})
MOST = 1000
_ENTRY_EFFORT = 8
_ROOT = frozenset(["bin", "dev", "etc", "home", "lib", "proc", "root", "sys", "tmp", "usr", "var"])
"""Directories that nearly every image has."""


class Files(msgspec.Struct):
    """The files of a container."""

    places: Mapping[str, Store] = msgspec.field(default_factory=dict)
    """Directories whose files are all known, by path without a final `/`."""
    own: Store = msgspec.field(default_factory=dict)
    work: int = 0
    """Characters read and written so far, plus eight per directory entry read."""

    def read(self, path: str, now: float) -> str | None:
        """Return a file's content, None if it does not exist. Raise NotUnderstood where the image may have one."""
        if path in DEVICES:
            return ""
        store, rest, known = self._find(path)
        found = store.get(rest)
        if found is not None and found[0] <= now:
            self.work += len(found[1])
            return found[1]
        if not known and found is None:
            raise NotUnderstood(f"the file {path} of an image")
        return None

    def write(self, path: str, text: str, now: float, *, append: bool = False) -> None:
        if path in DEVICES:
            return
        store, rest, _ = self._find(path)
        before = store.get(rest)
        if append and before is not None:
            text = before[1] + text
        if len(text) > MAX_TEXT_LENGTH or len(store) >= MOST:
            raise NotUnderstood("so many files, or one so large")
        self.work += len(text)
        since = before[0] if before is not None else now
        store[rest] = (min(since, now), text)

    def remove(self, path: str) -> bool:
        store, rest, _ = self._find(path)
        self.work += _ENTRY_EFFORT * len(store)
        inside = [name for name in store if name == rest or name.startswith(f"{rest}/")]
        for name in inside:
            del store[name]
        return bool(inside)

    def make_directory(self, path: str, now: float) -> None:
        self.write(f"{path.rstrip('/')}/", "", now)

    def is_directory(self, path: str, now: float) -> bool:
        if path.rstrip("/") in self.places or path in ("/", "/tmp"):  # noqa: S108 - no file of this machine
            return True
        store, rest, known = self._find(path.rstrip("/"))
        self.work += _ENTRY_EFFORT * len(store)
        inside = any(since <= now for name, (since, _) in store.items() if name.startswith(f"{rest}/"))
        if not inside and not known:
            raise NotUnderstood(f"the directory {path} of an image")
        return inside

    def names(self, path: str, now: float) -> list[str]:
        """List a directory. Raise NotUnderstood where only the image knows its content."""
        if not path.strip("/"):
            paths = [*self.places, *(name for name, (since, _) in self.own.items() if since <= now)]
            return sorted(_ROOT | {path.strip("/").partition("/")[0] for path in paths} - {""})
        store, rest, known = self._find(f"{path.rstrip('/')}/")
        if not known:
            raise NotUnderstood(f"the directory {path} of an image")
        self.work += _ENTRY_EFFORT * len(store)
        inside = [name.removeprefix(rest) for name, (since, _) in store.items() if since <= now]
        return sorted({name.partition("/")[0] for name in inside if name})

    def _find(self, path: str) -> tuple[Store, str, bool]:
        """Return the store and path of a file, and whether all files of its directory are known."""
        if not path.startswith("/"):
            path = f"/{path}"
        best = max((place for place in self.places if path.startswith(f"{place}/")), key=len, default=None)
        self.work += _ENTRY_EFFORT * len(self.places)
        if best is not None:
            return self.places[best], path[len(best) + 1 :], True
        return self.own, path, path.startswith("/tmp/")  # noqa: S108 - as above
