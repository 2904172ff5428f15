"""Open traces: detect the format of files, and stream them repeatedly.

trace = Trace((Path("nodes.csv"), Path("pods.csv")))
for event in trace.events(): …
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from heapq import merge
from operator import attrgetter
from pathlib import Path
from typing import TypeAlias

from mooring.advisor.simulate.traces import audit_log, openb, own, sktrace, tables
from mooring.advisor.simulate.traces.events import Complaints, Event, PodArrival, TraceError
from mooring.api.core_v1 import Pod

FileReader: TypeAlias = Callable[[Path, Complaints], Iterator[Event]]
Reader: TypeAlias = Callable[[tuple[Path, ...], Complaints], Iterator[Event]]
FORMATS = "Mooring's own, openb, SimKube's .sktrace, an audit log, a stream of watch events"


class Trace:
    """A trace in one or more files, which can be read several times."""

    def __init__(self, paths: tuple[Path, ...], *, skips: bool = False) -> None:
        """Detect the formats of the files; raise TraceError for an unknown format."""
        self.paths = paths
        self._skips = skips
        self.complaints = Complaints(skips=skips)
        """The complaints of the current or last pass."""
        self._readers: dict[Reader, tuple[Path, ...]] = {}
        for path in paths:
            reader = _detect_reader(path)
            self._readers[reader] = (*self._readers.get(reader, ()), path)

    def events(self) -> Iterator[Event]:
        """Yield the events of all files in the order of time. Raise TraceError."""
        self.complaints = Complaints(skips=self._skips)
        return _merge_events([read(paths, self.complaints) for read, paths in self._readers.items()])

    def pods(self) -> Iterator[Pod]:
        return (event.pod for event in self.events() if isinstance(event, PodArrival))

    @property
    def size(self) -> int:
        """Return the size of the files in bytes."""
        return sum(path.stat().st_size for path in self.paths)


class TraceWorkload:
    """The pods of a trace, read from the files at each iteration, for plugins that sample them."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    def __iter__(self) -> Iterator[Pod]:
        return Trace(self._trace.paths, skips=True).pods()


def _merge_events(streams: list[Iterator[Event]]) -> Iterator[Event]:
    return streams[0] if len(streams) == 1 else merge(*streams, key=attrgetter("at"))


def _read_each(read: FileReader, paths: Iterable[Path], complaints: Complaints) -> Iterator[Event]:
    return _merge_events([read(path, complaints) for path in paths])


_OWN, _SIMKUBE = partial(_read_each, own.read_events), partial(_read_each, sktrace.read_events)


def _detect_reader(path: Path) -> Reader:
    try:
        with path.open("rb") as stream:
            start = stream.read(4096)
    except OSError as problem:
        raise TraceError(f"{path}: {problem.strerror}") from problem
    if not start:
        raise TraceError(f"{path}: the file is empty")
    if sktrace.is_sktrace(path, start):
        return _SIMKUBE
    if start.lstrip()[:1] == b"{":
        return audit_log.read_events
    columns = set(tables.read_header(path))
    if columns >= own.NEEDED:
        return _OWN
    if columns >= openb.NODE_COLUMNS or columns >= openb.POD_COLUMNS:
        return openb.read_events
    raise TraceError(f"{path}: the format is not known; there are {FORMATS} (docs/traces.md)")
