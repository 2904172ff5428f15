"""Read and write YAML as Kubernetes does.

`read` parses a file into documents: trees of plain values as in ``json_tree.py``, with their first lines. Unquoted
scalars have kubectl's meaning (YAML 1.1 as in Go): `yes`, `on` and `y` are true, `010` is eight, `1:30` and dates are
strings. Anchors, aliases and merge keys work, within an expansion limit. `write` prints keys in kubectl's order. Called
by ``codec.py`` and the command line.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
import yaml
from yaml._yaml import CParser

from mooring.api import json_tree

_ALIAS_LIMIT = 100_000  # total values that aliases may expand to
_TAG = "tag:yaml.org,2002:"
_TRUE = frozenset({"y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE = frozenset({"n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_KEYWORDS: dict[str, bool | None] = {
    **dict.fromkeys(_TRUE, True),
    **dict.fromkeys(_FALSE, False),
    **dict.fromkeys(_NULL, None),
}
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INTEGER = re.compile(r"([-+]?)(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_KINDS: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}
_UNFIT_FOR_BLOCK = re.compile(r"[ \t]\n|[ \t]$|^\s")
_MERGE = object()
NextEvent = Callable[[], Any]
"""Return the parser's next event, which PyYAML does not type."""


class YamlError(json_tree.DecodeError):
    """The text is not valid YAML for Kubernetes; the message names the line."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line


class Document(msgspec.Struct, frozen=True):
    """One document: its tree and first line."""

    tree: Any
    line: int


def read(
    source: str | bytes, max_bytes: int = json_tree.MAX_BYTES, most: json_tree.Elements | None = None
) -> list[Document]:
    """Return the documents of a file, without the empty ones; read JSON as well. Raise DecodeError.

    `most` limits the elements of each document; files that a user reads with the command line have no such limit.
    """
    text = json_tree.decode_utf8(source) if isinstance(source, bytes) else source
    if len(text) > max_bytes:
        raise json_tree.TooLargeError(f"limit is {max_bytes}")
    if text.lstrip().startswith("{"):
        try:
            encoded = text.encode()
            if most is not None:
                json_tree.check_limits(encoded, most)
            return [Document(json_tree.parse_json(encoded), 1)]
        except json_tree.TooLargeError:
            raise
        except (json_tree.DecodeError, UnicodeEncodeError):
            pass  # braces are YAML too, and several documents may follow each other
    try:
        return [document for document in _documents(text, most) if document.tree is not None]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        last = text.count("\n", 0, len(text) - 1) + 1  # the parser counts one more when the text ends too early
        raise YamlError(min(mark.line + 1, last) if mark else 1, error.problem or "invalid YAML") from None
    except yaml.YAMLError as error:
        raise json_tree.DecodeError(f"invalid YAML: {str(error).splitlines()[0]}") from None
    except UnicodeEncodeError:
        raise json_tree.DecodeError("half of a surrogate pair is not a character") from None


def _documents(text: str, most: json_tree.Elements | None) -> Iterator[Document]:
    next_event: NextEvent = CParser(text).get_event
    while (event := next_event()).__class__ is not yaml.StreamEndEvent:
        if event.__class__ is yaml.DocumentStartEvent:
            first = next_event()
            yield Document(_Builder(next_event, most).node(first, 0), first.start_mark.line + 1)


class _Builder:
    """Build the tree of one document from parser events."""

    def __init__(self, next_event: NextEvent, most: json_tree.Elements | None = None) -> None:
        self._next = next_event
        self._most = most
        self._objects = 0
        self._anchors: dict[str, tuple[Any, int] | None] = {}
        self._size = 0
        self._unfolded = 0

    def node(self, event: Any, depth: int) -> Any:
        kind = event.__class__
        if kind is yaml.ScalarEvent and not event.anchor:  # nearly all are
            self._size += 1
            if self._most is not None and self._size > self._most.values:
                json_tree.check_elements(0, self._size, self._most)
            return _scalar(event)
        if depth > json_tree.MAX_DEPTH:
            raise YamlError(_line(event), f"nested more than {json_tree.MAX_DEPTH} levels deep")
        if kind is yaml.AliasEvent:
            return self._alias(event)
        if event.anchor:
            self._anchors[event.anchor] = None  # known, but not complete
        value: Any
        before = self._size
        self._size += 1
        self._objects += 1
        if self._most is not None:
            json_tree.check_elements(self._objects, self._size, self._most)
        if kind is yaml.MappingStartEvent:
            value = self._mapping(depth)
        elif kind is yaml.SequenceStartEvent:
            value = self._sequence(depth)
        else:
            value = _scalar(event)
        if event.anchor:
            self._anchors[event.anchor] = (value, self._size - before)
        return value

    def _alias(self, event: Any) -> Any:
        anchor = str(event.anchor)
        if anchor not in self._anchors:
            raise YamlError(_line(event), f"unknown anchor '{anchor}' referenced")
        target = self._anchors[anchor]
        if target is None:
            raise YamlError(_line(event), f"anchor '{anchor}' value contains itself")
        value, size = target
        self._size += size
        self._unfolded += size
        if self._unfolded > _ALIAS_LIMIT:
            raise YamlError(_line(event), "the document contains excessive aliasing")
        return value

    def _sequence(self, depth: int) -> list[Any]:
        items: list[Any] = []
        while (event := self._next()).__class__ is not yaml.SequenceEndEvent:
            items.append(self.node(event, depth + 1))
        return items

    def _mapping(self, depth: int) -> dict[str, Any]:
        pairs: list[tuple[str, Any]] = []
        merged: dict[str, Any] = {}
        while (event := self._next()).__class__ is not yaml.MappingEndEvent:
            key = self._key(event)
            value = self.node(self._next(), depth + 1)
            if key is _MERGE:
                _merge(merged, value, event)
            else:
                pairs.append((key if key.__class__ is str else _key_text(key, event), value))
        if merged:
            given = {name for name, _ in pairs}
            pairs = [(name, value) for name, value in merged.items() if name not in given] + pairs
        return json_tree.members(pairs)

    def _key(self, event: Any) -> Any:
        if event.__class__ is yaml.AliasEvent:
            return self._alias(event)
        if event.__class__ is not yaml.ScalarEvent:
            raise YamlError(_line(event), "a key must be a scalar")
        if event.value == "<<" and event.implicit[0]:
            return _MERGE
        value = _scalar(event)
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        return value


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _merge(merged: dict[str, Any], value: Any, event: Any) -> None:
    for one in value if isinstance(value, list) else [value]:
        if not isinstance(one, dict):
            raise YamlError(_line(event), "map merge requires map or sequence of maps as the value")
        for name, each in one.items():
            merged.setdefault(name, each)


def _key_text(key: Any, event: Any) -> str:
    """Convert a key to a string, as in JSON."""
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | float):
        return str(key)
    raise YamlError(_line(event), "a key must not be null")


def _scalar(event: Any) -> Any:
    """Return the value of a scalar: by its tag, or by its form if unquoted."""
    tag, text = event.tag, event.value
    if tag is None:
        return _plain(text, event) if event.implicit[0] else text
    if tag in {"!", f"{_TAG}str"}:
        return text
    value = _plain(text, event)
    kinds = _KINDS.get(tag.removeprefix(_TAG)) if tag.startswith(_TAG) else None
    if kinds is None:
        raise YamlError(_line(event), f"the tag {tag} is not supported")
    if type(value) not in kinds:
        raise YamlError(_line(event), f"cannot decode {text!r} as a {tag.removeprefix(_TAG)}")
    return value


def _plain(text: str, event: Any) -> Any:
    if text in _KEYWORDS:
        return _KEYWORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _NOT_FINITE.fullmatch(text):
        raise YamlError(_line(event), f"{text} is not a number of JSON")
    return _number(text)


def _number(text: str) -> Any:
    digits = text.replace("_", "")
    match = _INTEGER.fullmatch(digits)
    if match and len(digits) < 80:
        sign, number = match.groups()
        octal = len(number) > 1 and number[0] == "0" and number[1].isdigit()
        value = int(number, 8 if octal else 0)
        value = -value if sign == "-" else value
        if -(1 << 63) <= value < 1 << 64:
            return value
    if _FLOAT.fullmatch(digits) is None:
        return text
    number_ = float(digits)
    if number_ in {float("inf"), float("-inf")}:
        return text
    return int(number_) if number_.is_integer() and abs(number_) < 1e21 else number_


def find_duplicate_keys(source: bytes) -> list[str]:
    """List the duplicate keys of a valid document, as `line 9: key "foo" already set in map`."""
    found: list[str] = []
    open_ = [yaml.compose(json_tree.decode_utf8(source), Loader=yaml.CSafeLoader)]
    while open_:
        node = open_.pop()
        if isinstance(node, yaml.SequenceNode):
            open_ += reversed(node.value)
        elif isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, _ in node.value:
                if key.value in seen:
                    found.append(f'line {_line(key)}: key "{key.value}" already set in map')
                seen.add(key.value)
            open_ += reversed([value for _, value in node.value])
    return found


class _Dumper(yaml.CSafeDumper):
    """Write multi-line strings as blocks, and quote every string that would be read as another type."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the signature is that of PyYAML
        return True


def _text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text:
        style = None if _UNFIT_FOR_BLOCK.search(text) else "|"
    elif _looks_like_no_text(text):
        style = '"'
    return dumper.represent_scalar(f"{_TAG}str", text, style=style)


def _looks_like_no_text(text: str) -> bool:
    return bool(_NOT_FINITE.fullmatch(text)) or not isinstance(_plain(text, None), str)


_Dumper.add_representer(str, _text)


def write(trees: Iterable[Any]) -> str:
    """Write the trees as documents with sorted keys, as kubectl prints them."""
    return yaml.dump_all(
        trees,
        Dumper=_Dumper,
        sort_keys=True,
        default_flow_style=False,
        allow_unicode=True,
        width=2**30,
        explicit_start=False,
    )
