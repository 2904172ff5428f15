"""The format of backups: lines of JSON, compressed with gzip, so that `zcat` and `jq` can read them too.

    {"format":"mooring-backup","formatVersion":1,"madeBy":{…},"created":"…","source":"…","prefix":"/registry/",
     "revision":5170,"keys":20000}                                                       one line
    {"key":"/registry/pods/default/web","created":12,"revision":40,"value":"{\\"kind\\":…"}   one for each key
    {"end":true,"keys":20000,"resources":{"pods":…},"sha256":"…"}                        the last line

Values are strings, so that their bytes are preserved exactly; a value that is not UTF-8 is in `base64`. The checksum
covers all lines before it, uncompressed. A backup is read completely and verified before it is used.

It is written under a temporary name and renamed after fsync: a file with the final name is complete.
"""

import base64
import gzip
import hashlib
import os
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import msgspec

from mooring.base.clock import Clock, SystemClock
from mooring.store.errors import Damaged, Foreign, NewerSchema, NotEmpty, StoreError
from mooring.store.kv import KeyValue
from mooring.store.sqlite_file import flush_to_disk, translate_errors
from mooring.store.tools.contents import ROOT, Snapshot, resource_of

FORMAT = "mooring-backup"
FORMAT_VERSION = 1
MAGIC = b"\x1f\x8b"
_LONGEST_LINE = 64 * 1024 * 1024
_LEVEL = 4  # compression level: a third of the time of the best, nearly as small


class Header(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    """The first line of a backup: its format, origin and revision, and how many keys follow."""

    format: str
    format_version: int
    made_by: dict[str, str] = {}
    created: str = ""
    source: str = ""
    prefix: str = ROOT
    revision: int
    keys: int


class _Record(msgspec.Struct, rename="camel", frozen=True, kw_only=True, omit_defaults=True, gc=False):
    key: str
    created: int
    revision: int
    expires: float = 0.0
    value: str | None = None
    base64: str | None = None


class _Trailer(msgspec.Struct, rename="camel", frozen=True, kw_only=True):
    end: bool
    keys: int
    resources: dict[str, int]
    sha256: str


_HEADERS = msgspec.json.Decoder(Header)
_RECORDS = msgspec.json.Decoder(_Record)
_TRAILERS = msgspec.json.Decoder(_Trailer)
_ENCODER = msgspec.json.Encoder()


class BackupTarget:
    """A `Target` that writes one backup file."""

    def __init__(
        self, path: Path, made_by: Mapping[str, str], *, overwrite: bool = False, clock: Clock | None = None
    ) -> None:
        """Raise `NotEmpty` if the file exists and `overwrite` is not set."""
        self.name = str(path)
        self.sha256 = ""
        self._path = path
        self._partial = path.with_name(f"{path.name}.partial-{os.getpid()}")
        self._made_by = dict(made_by)
        self._clock = clock or SystemClock()
        self._file: IO[bytes] | None = None
        self._compressed: gzip.GzipFile | None = None
        self._hash = hashlib.sha256()
        self._resources: Counter[str] = Counter()
        with translate_errors(path):
            if path.exists() and not overwrite:
                raise NotEmpty(f"{path} exists already")

    async def begin(self, snapshot: Snapshot) -> Collection[str]:
        with translate_errors(self._partial):
            self._file = os.fdopen(os.open(self._partial, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb")
        self._compressed = gzip.GzipFile("", "wb", _LEVEL, self._file, mtime=0)
        self._write_line(
            Header(
                format=FORMAT,
                format_version=FORMAT_VERSION,
                made_by=self._made_by,
                created=self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
                source=snapshot.name,
                revision=snapshot.revision,
                keys=len(snapshot.items),
            )
        )
        return ()

    async def put(self, items: Sequence[KeyValue]) -> None:
        for kv in items:
            self._resources[resource_of(kv.key)] += 1
            self._write_line(_encode_record(kv))

    async def delete(self, keys: Sequence[str]) -> None:  # noqa: ARG002 - of the interface
        raise RuntimeError("a backup is of one revision")

    async def finish(self, revision: int) -> None:  # noqa: ARG002 - it stands in the header
        self.sha256 = self._hash.hexdigest()
        keys = self._resources.total()
        self._write_line(
            _Trailer(end=True, keys=keys, resources=dict(sorted(self._resources.items())), sha256=self.sha256)
        )
        with translate_errors(self._partial):
            if self._compressed is None or self._file is None:
                raise RuntimeError("begin first")
            self._compressed.close()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._partial.replace(self._path)
            flush_to_disk(self._path.parent)

    async def close(self) -> None:
        if self._file is not None:
            with suppress(OSError, ValueError):  # a full disk was reported already, or the file is closed
                if self._compressed is not None:
                    self._compressed.close()
            with suppress(OSError):
                self._file.close()
            self._partial.unlink(missing_ok=True)

    def _write_line(self, content: msgspec.Struct) -> None:
        line = _ENCODER.encode(content) + b"\n"
        self._hash.update(line)
        with translate_errors(self._partial):
            if self._compressed is None:
                raise RuntimeError("begin first")
            self._compressed.write(line)


class BackupSource:
    """A `Source` that reads one backup file."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path

    async def snapshot(self) -> Snapshot:
        header, items = read(self._path)
        return Snapshot(self.name, header.revision, items, file_bytes=self._path.stat().st_size)

    async def wait_for_change(self, seconds: float) -> bool:  # noqa: ARG002 - a file does not change
        return False

    async def close(self) -> None:
        pass


def is_backup(path: Path) -> bool:
    """Whether a file starts with the magic bytes of a backup. Raise `StoreError` if it cannot be read."""
    with translate_errors(path), path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def read(path: Path) -> tuple[Header, list[KeyValue]]:
    """Read and verify a backup. Raise `Foreign`, `NewerSchema`, `Damaged` or another `StoreError`."""
    if not is_backup(path):
        raise Foreign(f"{path} is not a backup of Mooring, or its beginning is damaged")
    with translate_errors(path), path.open("rb") as file, gzip.GzipFile(fileobj=file) as lines:
        return _read_lines(path, lines)


def _read_lines(path: Path, lines: gzip.GzipFile) -> tuple[Header, list[KeyValue]]:
    checksum = hashlib.sha256()
    with _translate_decode_errors(path):
        first = lines.readline(_LONGEST_LINE)
    header = _parse_header(path, first)
    items: list[KeyValue] = []
    with _translate_decode_errors(path):
        checksum.update(first)
        while (line := lines.readline(_LONGEST_LINE)) and not line.startswith(b'{"end"'):
            checksum.update(line)
            items.append(_decode_record(_RECORDS.decode(line)))
        if not line:
            raise Damaged(f"{path} is not whole: its end is missing")
        trailer = _TRAILERS.decode(line)
        if lines.read(1):
            raise Damaged(f"{path} is damaged: there is data after its end")
    if trailer.sha256 != checksum.hexdigest():
        raise Damaged(f"{path} is damaged: it does not fit its checksum")
    if not header.keys == trailer.keys == len(items):
        raise Damaged(f"{path} is damaged: it should have {header.keys} keys, and has {len(items)}")
    return header, items


def _parse_header(path: Path, line: bytes) -> Header:
    foreign = Foreign(f"{path} is not a backup of Mooring, or its beginning is damaged")
    try:
        found = msgspec.json.decode(line)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise foreign
        version = found.get("formatVersion")
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise NewerSchema(
                f"{path} has format version {version}, and this Mooring knows up to {FORMAT_VERSION};"
                " use the newer Mooring that wrote it"
            )
        return _HEADERS.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise foreign from None


@contextmanager
def _translate_decode_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except StoreError:
        raise
    except EOFError:
        raise Damaged(f"{path} is not whole: its end is missing") from None
    except (gzip.BadGzipFile, zlib.error, ValueError, RecursionError) as error:
        raise Damaged(f"{path} is damaged: {error}") from None


def _encode_record(kv: KeyValue) -> _Record:
    value, encoded = None, None
    try:
        value = kv.value.decode()
    except UnicodeDecodeError:
        encoded = base64.b64encode(kv.value).decode()
    return _Record(
        key=kv.key,
        created=kv.create_revision,
        revision=kv.mod_revision,
        expires=kv.expires,
        value=value,
        base64=encoded,
    )


def _decode_record(record: _Record) -> KeyValue:
    value = base64.b64decode(record.base64) if record.base64 is not None else (record.value or "").encode()
    return KeyValue(record.key, value, record.created, record.revision, record.expires)
