"""Structured logging on stderr, and deduplication of log messages.

A line is the time, the level, the message and `key=value` fields (or one JSON object with `--log-format json`).
Components log through `get(__name__)` and pass fields in `extra={"fields": {...}}`.
"""

import json
import logging
import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Literal

_ROOT = "mooring"
CLEAR_LINE = "\r\x1b[K"
"""Terminal control sequence: erase the current line."""


def get(name: str) -> logging.Logger:
    """Return the logger of a module."""
    return logging.getLogger(name)


def configure(verbosity: int = 0, form: Literal["text", "json"] = "text", *, over_status_line: bool = False) -> None:
    """Send Mooring's logs to stderr. Verbosity 0 shows warnings, 1 info, 2 and more debug.

    With `over_status_line`, clear the status line on the terminal before each log line.
    """
    handler = logging.StreamHandler(sys.stderr)
    formatter: logging.Formatter = _JsonFormatter() if form == "json" else _TextFormatter()
    handler.setFormatter(_OverStatusLine(formatter) if over_status_line and sys.stderr.isatty() else formatter)
    root = logging.getLogger(_ROOT)
    root.handlers[:] = [handler]
    root.propagate = False
    root.setLevel({0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG))


@contextmanager
def drop_lines_of(name: str) -> Iterator[None]:
    """Drop all log lines of a logger and of those below it while the context is entered."""
    logger = get(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(before)


class Once:
    """A bounded set of keys that were seen; the oldest are evicted."""

    def __init__(self, size: int = 4096) -> None:
        self._size = size
        self._seen: OrderedDict[Hashable, None] = OrderedDict()
        self._lock = threading.Lock()

    def first(self, key: Hashable) -> bool:
        """Add `key`; return whether it is new."""
        with self._lock:
            if key in self._seen:
                self._seen.move_to_end(key)
                return False
            self._seen[key] = None
            if len(self._seen) > self._size:
                self._seen.popitem(last=False)
            return True

    def clear(self) -> None:
        with self._lock:
            self._seen.clear()


_once = Once()


def once(key: Hashable) -> bool:
    """Return True the first time a key is seen in this process: to log once per cause, not once per pod."""
    return _once.first(key)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    fields = getattr(record, "fields", None)
    return fields if isinstance(fields, dict) else {}


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        parts = [f"{_time(record)} {record.levelname:<7} {record.getMessage()}"]
        parts += [f"{key}={json.dumps(value, default=str)}" for key, value in _fields(record).items()]
        line = " ".join(parts).replace("\n", "\\n")
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _OverStatusLine(logging.Formatter):
    """Clear the terminal's current line before writing."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        return CLEAR_LINE + self._inner.format(record)


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "ts": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps({**entry, **_fields(record)}, default=str)
