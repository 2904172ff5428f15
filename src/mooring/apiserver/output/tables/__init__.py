"""Tables of objects: the columns that kubectl prints, by kind.

`Tables` is shared by all requests; a `Table` has the columns and rows of one kind. Kinds without columns of their own
show name and age. A printer serves all versions of its kind, whose fields have the same names.
"""

from mooring.api import codec
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import TableColumnDefinition
from mooring.apiserver.output.tables import cluster, custom, networking, pods, storage, workloads
from mooring.apiserver.output.tables.printer import Printer
from mooring.apiserver.output.tables.row import Row, Times, encode_row, split_metadata
from mooring.base.bounded_cache import BoundedCache

_MAX_ROWS = 65_536
"""The maximum number of cached Table rows; each takes 370 bytes."""

_PRINTERS: dict[str, Printer] = {
    **cluster.PRINTERS,
    **networking.PRINTERS,
    **pods.PRINTERS,
    **storage.PRINTERS,
    **workloads.PRINTERS,
}
"""The printers by kind and group, as in `Deployment.apps`."""


class Tables:
    """The tables of all kinds, with one cache for their rows."""

    def __init__(self) -> None:
        self._rows: BoundedCache[str, Row] = BoundedCache(_MAX_ROWS)

    def of(self, kind: Kind) -> "Table":
        return Table(kind, self._rows)


class Table:
    """The columns of a kind, as `kubectl get` shows them, and the cached rows of its objects."""

    def __init__(self, kind: Kind, rows: BoundedCache[str, Row]) -> None:
        self.kind = kind
        self._printer = printer = _printer(kind)
        self.columns: list[TableColumnDefinition] = [*printer.columns]
        self.cached = rows.get
        """The cached rows by the keys of stored objects; callers compare kind and revision."""
        self._cache = rows.put
        self._write = printer.write or self._decode_and_write

    def row(self, key: str, revision: int, text: bytes, begin: int) -> Row:
        """Return an object's Table row: the cached one if it has this revision, else a new one."""
        row = self.cached(key) if key else None
        if row is None or row.revision != revision or row.kind is not self.kind:
            row = self.make_row(key, revision, text, begin)
        return row

    def make_row(self, key: str, revision: int, text: bytes, begin: int) -> Row:
        """Build the Table row of an object's JSON; cache it unless the key is empty.

        `begin` is the offset at which its metadata continues after the resourceVersion, which stored objects lack.
        """
        written, times, end = self._write(text)
        row = Row(self.kind, revision, end - begin, written, times)
        if key:
            self._cache(key, row)
        return row

    def _decode_and_write(self, text: bytes) -> tuple[bytes, Times, int]:
        """Return a row as JSON, the times in it (shown as ages), and the index where the metadata ends."""
        printer = self._printer
        shown, end = split_metadata(text)
        obj = printer.read(text) if printer.read else codec.decode_own(shown, self.kind.type)
        conditions = printer.conditions(obj) if printer.conditions else []
        return *encode_row(printer.cells(obj), conditions), end


def _printer(kind: Kind) -> Printer:
    if kind.custom:
        return custom.make_printer(kind.custom.version)
    return _PRINTERS.get(f"{kind.kind}.{kind.group}" if kind.group else kind.kind, cluster.DEFAULT)
