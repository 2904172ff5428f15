"""Split a file into documents, so that each can be parsed alone.

A file is cut where a YAML document begins, or where a JSON value ends. So a mistake in one document hides no other,
equal documents can be recognised by their text, and a large file can be distributed to processes. Called by
``runner.py`` (`split_pieces`) and ``linter.py`` (`parse_trees`, `list_objects`).
"""

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple, TypeVar

from mooring.api import codec

_BEGIN = re.compile(r"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
_NOT_CUT = re.compile(r"^(?:%|\.\.\.(?=\s|\Z))", re.MULTILINE)
_SPACE = re.compile(r"[ \t\r\n]*")
_MAX_LIST_DEPTH = 8
POOL_LENGTH, BATCH_LENGTH = 1024 * 1024, 128 * 1024
"""The length of text from which lint starts several processes, and that of one batch of work."""
T = TypeVar("T")
R = TypeVar("R")


class Piece(NamedTuple):
    """A part of a file to parse alone, normally one YAML document, and the number of lines before it."""

    text: str
    lines_before: int


class Item(NamedTuple):
    """An object of a document, as parsed, and its path in the document if it is an item of a list."""

    tree: Any
    path: str


def split_pieces(text: str) -> list[Piece]:
    """Split a file's text into parts that can be parsed separately: YAML documents, JSON values."""
    found = list(_json_pieces(text)) if text.lstrip().startswith("{") else []
    return found or list(_yaml_pieces(text))


def batch_pieces(found: Sequence[Piece]) -> Iterator[Sequence[Piece]]:
    """Yield batches of consecutive parts of a file, about 128 KiB each: a worker process's task."""
    start = length = 0
    for end, piece in enumerate(found, 1):
        length += len(piece.text)
        if length >= BATCH_LENGTH or end == len(found):
            yield found[start:end]
            start, length = end, 0


def map_in_order(pool: Executor, work: Callable[[T], R], items: Iterable[T], most: int) -> Iterator[R]:
    """Map a function over items in an executor; yield the results in order. At most `most` items are in progress."""
    under_way: deque[Future[R]] = deque()
    for item in items:
        under_way.append(pool.submit(work, item))
        while len(under_way) > most:
            yield under_way.popleft().result()
    while under_way:
        yield under_way.popleft().result()


def _json_pieces(text: str) -> Iterator[Piece]:
    decoder = json.JSONDecoder()
    found = []
    position = _SPACE.match(text).end()  # type: ignore[union-attr] # it matches the empty text too
    while position < len(text):
        try:
            _, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            return
        found.append((position, end))
        position = _SPACE.match(text, end).end()  # type: ignore[union-attr] # as above
    line = counted = 0
    for start, end in found:
        line += text.count("\n", counted, start)
        counted = start
        yield Piece(text[start:end], line)


def _yaml_pieces(text: str) -> Iterator[Piece]:
    if _NOT_CUT.search(text):  # directives and explicit ends are rare, and belong to the document beside them
        yield Piece(text, 0)
        return
    starts = [0, *(found.start() for found in _BEGIN.finditer(text) if found.start())]
    line = 0
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        piece = text[start:end]
        yield Piece(piece, line)
        line += piece.count("\n")


def parse_trees(piece: str) -> list[Any]:
    """Parse the YAML documents of a text into dicts and lists; skip empty ones. Raise `DecodeError` on bad YAML."""
    return [document.tree for document in codec.read_yaml(piece, max_bytes=len(piece))]


def list_objects(tree: Any, path: str = "", depth: int = 0) -> Iterator[Item]:
    """Yield the object of a parsed document; of a list (`kubectl get -o yaml`), its items."""
    if not _is_list(tree) or depth > _MAX_LIST_DEPTH:
        yield Item(tree, path)
        return
    prefix = f"{path}.items" if path else "items"
    inherited = {}
    if tree["kind"] != "List":  # the items of a typed list need not say what they are
        inherited = {"apiVersion": tree.get("apiVersion"), "kind": tree["kind"].removesuffix("List")}
    for index, item in enumerate(tree["items"] or ()):
        if isinstance(item, dict) and "kind" not in item and "apiVersion" not in item:
            item.update(inherited)
        yield from list_objects(item, f"{prefix}[{index}]", depth + 1)


def _is_list(tree: Any) -> bool:
    if not isinstance(tree, dict) or "items" not in tree or not isinstance(tree["items"], list | None):
        return False
    kind = tree.get("kind")
    return isinstance(kind, str) and kind.endswith("List") and "spec" not in tree
