"""Read a snapshot from files: the output of `kubectl get … -o yaml` or `-o json`, manifests, directories, or stdin.

A document that cannot be parsed, or whose kind Mooring does not know, is noted with its file and line. It is not among
the typed objects, but in `raw` as far as it could be parsed. Of two objects with one name the last is used.
"""

import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec

from mooring.admission.options import AdmissionOptions
from mooring.advisor.lint import documents, sources
from mooring.advisor.snapshot.admitting import DEFAULT_NAMESPACE, ClusterLookups, admit_object, index_by_name
from mooring.advisor.snapshot.objects import Note, RawObject, Snapshot, SnapshotError, full_scheme, to_newest
from mooring.api import codec, times
from mooring.api.dynamic import Dynamic
from mooring.api.meta_v1 import Resource
from mooring.api.scheduling_v1 import PriorityClass
from mooring.api.storage_v1 import StorageClass

MAX_BYTES = 2 * 1024**3


class _TypeMeta(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


class _List(msgspec.Struct, tag_field="kind", tag="List", rename="camel"):
    """A JSON list as `kubectl get -o json` and `mooring dump` write it; the latter adds the last three fields."""

    items: list[msgspec.Raw]
    missing: Any = None
    taken_at: Any = None
    server: Any = None
    spec: msgspec.UnsetType = msgspec.UNSET


def dump(
    paths: Sequence[Path],
    *,
    stdin: IO[bytes] | None = None,
    options: AdmissionOptions | None = None,
    namespace: str = DEFAULT_NAMESPACE,
    jobs: int = 1,
) -> Snapshot:
    """Read a snapshot from files; `namespace` is for objects without one.

    Large YAML is parsed by up to `jobs` processes.
    Raise `SnapshotError` if a file cannot be read, or if there are no objects in the files.
    """
    named = [str(path) for path in paths]
    found = list(sources.find_sources(named))
    origin = f"the dump {', '.join(named)}"
    if not found:
        raise SnapshotError(f"there are no *.yaml, *.yml or *.json files in {', '.join(named)}")
    reading = _FileReader(jobs)
    for source in found:
        reading.read(source, stdin or sys.stdin.buffer)
    if not reading.raw:
        why = f": {reading.notes[0]}" if reading.notes else ""
        raise SnapshotError(f"there are no objects in {', '.join(named)}{why}")
    reading.admit(options, namespace)
    return Snapshot(
        origin,
        (obj for obj, _ in reading.objects),
        reading.raw,
        missing=reading.missing,
        notes=reading.notes,
        server=reading.server,
        taken_at=reading.taken_at,
    )


class _FileReader:
    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self.raw: list[RawObject] = []
        self.objects: list[tuple[Resource, str]] = []
        self.notes: list[Note] = []
        self.missing: dict[str, str] = {}
        self.server: dict[str, Any] | None = None
        self.taken_at: datetime | None = None
        self._generated = 0

    def read(self, source: sources.Source, stdin: IO[bytes]) -> None:
        try:
            text = sources.read_source(source, stdin, MAX_BYTES, unpacks=True)
        except sources.UnreadableError as error:
            raise SnapshotError(f"cannot read {source.name}: {error}") from error
        if text.lstrip().startswith("{"):
            try:
                self._read_list(source.name, msgspec.json.decode(text, type=_List))
            except (msgspec.MsgspecError, RecursionError):
                pass  # an object, another list, YAML in braces, or a mistake that the other way names
            else:
                return
        for line, tree in self._read_documents(source.name, text):
            if isinstance(tree, dict) and tree.get("kind") == "List":
                self._take_dump_fields(tree.get("missing"), tree.get("takenAt"), tree.get("server"))
            for item in documents.list_objects(tree):
                self._add_item(source.name, line, item)

    def _read_list(self, name: str, found: _List) -> None:
        """Decode the items of a JSON list directly; only an unusual item is first parsed into dicts."""
        self._take_dump_fields(found.missing, found.taken_at, found.server)
        for index, body in enumerate(found.items):
            path = f"items[{index}]"
            try:
                meta = _TYPE_META.decode(body)
            except msgspec.MsgspecError:
                meta = _TypeMeta()
            kind = full_scheme().kind(meta.api_version, meta.kind)
            typed = None if kind is None or issubclass(kind.type, Dynamic) else codec.decode_exact(body, kind.type)
            if typed is None:
                for item in documents.list_objects(msgspec.json.decode(body), path):
                    self._add_item(name, 1, item)
                continue
            key = typed.metadata.namespace, typed.metadata.name
            self.raw.append(RawObject(meta.api_version, meta.kind, *key, name, 1, _body=bytes(body)))
            self._add_object(typed, f"{name}:1 {path}")

    def _take_dump_fields(self, missing: Any, taken_at: Any, server: Any) -> None:
        """Store what `mooring dump` records (unreadable kinds, the time, the server); ignore values of other types."""
        if isinstance(missing, dict):
            self.missing |= {str(plural): str(why) for plural, why in missing.items()}
            self.taken_at = _parse_time(taken_at) or self.taken_at
            self.server = server if isinstance(server, dict) else self.server

    def admit(self, options: AdmissionOptions | None, namespace: str) -> None:
        """Set the defaults of all objects that were read, admit new pods and claims, and note what is refused."""
        lookups = ClusterLookups(
            index_by_name(obj for obj, _ in self.objects if isinstance(obj, PriorityClass)),
            index_by_name(obj for obj, _ in self.objects if isinstance(obj, StorageClass)),
        )
        for obj, place in self.objects:
            complaint = str(admit_object(obj, lookups, options, namespace))
            if complaint:
                self.notes.append(Note(place, complaint))

    def _read_documents(self, name: str, text: str) -> Iterator[tuple[int, Any]]:
        if text.lstrip().startswith("{"):
            try:
                yield 1, msgspec.json.decode(text)
            except (msgspec.DecodeError, RecursionError):
                pass  # several values, YAML in braces, or a mistake that the other way names
            else:
                return
        for line, tree, problem in _parse_yaml(documents.split_pieces(text), self._jobs):
            if problem:
                self.notes.append(Note(f"{name}:{line}", f"not read: {problem}", is_unread=True))
            else:
                yield line, tree

    def _add_item(self, name: str, line: int, item: documents.Item) -> None:
        tree, place = item.tree, f"{name}:{line}" + (f" {item.path}" if item.path else "")
        if not isinstance(tree, dict) or not isinstance(tree.get("kind"), str) or not tree["kind"]:
            meant = isinstance(tree, dict) and "metadata" in tree  # other files lie beside manifests
            self.notes.append(Note(place, "not read: an object says its apiVersion and kind", is_unread=meant))
            return
        metadata = tree.get("metadata") if isinstance(tree.get("metadata"), dict) else {}
        api_version = tree.get("apiVersion") if isinstance(tree.get("apiVersion"), str) else ""
        entry = RawObject(
            str(api_version),
            tree["kind"],
            _string_in(metadata, "namespace"),
            _string_in(metadata, "name"),
            name,
            line,
            _tree=tree,
        )
        self.raw.append(entry)
        kind = full_scheme().kind(entry.api_version, entry.kind)
        if kind is None:
            self.notes.append(Note(place, f"Mooring does not know {entry.api_version} {entry.kind}"))
            return
        try:
            decoded = codec.decode_tree(tree, kind.type, codec.FieldValidation.WARN)
        except codec.DecodeError as error:
            self.notes.append(Note(place, f"not read: {error}"))
            return
        self.notes += [Note(place, f"{text} is ignored") for text in decoded.warnings]
        self._add_object(decoded.object, place)

    def _add_object(self, decoded: Resource, place: str) -> None:
        obj = to_newest(decoded)
        if not obj.metadata.name and obj.metadata.generate_name:
            self._generated += 1
            obj.metadata.name = f"{obj.metadata.generate_name}{self._generated:05d}"
        if not obj.metadata.name:
            self.notes.append(Note(place, f"left out: a {obj.kind} without a name"))
            return
        self.objects.append((obj, place))


_TYPE_META = msgspec.json.Decoder(_TypeMeta)


def _parse_time(value: Any) -> datetime | None:
    try:
        return times.parse(value) if isinstance(value, str) else None
    except times.TimeError:
        return None


def _string_in(metadata: Any, name: str) -> str:
    value = metadata.get(name)
    return value if isinstance(value, str) else ""


class _Document(NamedTuple):
    """A parsed YAML document and its first line, or the error of a document that cannot be parsed."""

    line: int
    tree: Any
    problem: str = ""


def _parse_yaml(pieces: Sequence[documents.Piece], jobs: int) -> Iterator[_Document]:
    """Yield the documents of a text in order; parse much text with up to `jobs` processes."""
    if jobs == 1 or sum(len(piece.text) for piece in pieces) < documents.POOL_LENGTH:
        yield from _parse_pieces(pieces)
        return
    # Ctrl-C is for the process that has started these.
    with ProcessPoolExecutor(jobs, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)) as pool:
        for found in documents.map_in_order(pool, _parse_pieces, documents.batch_pieces(pieces), 4 * jobs):
            yield from found


def _parse_pieces(pieces: Sequence[documents.Piece]) -> list[_Document]:
    found = []
    for piece in pieces:
        try:
            parsed = codec.read_yaml(piece.text, max_bytes=len(piece.text))
            found += [_Document(piece.lines_before + document.line, document.tree) for document in parsed]
        except codec.YamlError as error:
            found.append(_Document(piece.lines_before + error.line, None, str(error).partition(": ")[2]))
        except codec.DecodeError as error:
            found.append(_Document(piece.lines_before + 1, None, str(error)))
    return found
