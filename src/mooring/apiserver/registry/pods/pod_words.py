"""The words in the texts of a pod and of its updates that are its own: names, ids, addresses and times.

    words = words_of(sections_of(stored), revision, sections_of(update))
    words.marked(sections_of(update))  # …"name":"␀0␀","uid":"␀1␀",…

A word stands between quotation marks and has a form that no keyword of the API has; it is taken for the pod's own
wherever it stands in those sections of a text where such words are looked for. All that is taken for something else
stays in the text. Of texts that were taken apart so, a `Form` can be made, by which others like them are read in a
fifth of the time. Called by ``like_updates.py``, which says what that is good for.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from struct import Struct
from typing import TypeAlias

import msgspec

from mooring.api import times

_NAME, _UID, _NODE, _POD_IP, _HOST_IP, _INDEX, _VERSION, _CONTAINERS = range(8)
_TIMES = 100
"""The numbers of marks: those of containers begin at `_CONTAINERS`, those of times here, with the earliest."""
_MOST_CONTAINERS, _MOST_TIMES = _TIMES - _CONTAINERS, 256 - _TIMES

_DASHED = rb"(?=[a-z0-9.-]{1,63}\")[a-z0-9.]*-[a-z0-9.-]*"
"""A name that may stand wherever one may, even in a label, and that is not said of anything else."""
_OCTET = rb"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_ADDRESS = re.compile(rb"%b(?:\.%b){3}(?=\")" % (_OCTET, _OCTET))
_KEYED_ADDRESS = b'k:{\\"ip\\"'
_BEGINNING = re.compile(
    rb'\{"kind":"Pod","apiVersion":"v1","metadata":\{"name":"(%b)",'
    rb'(?:"(?:generateName|namespace)":"[^"\\]*",)*"uid":"([0-9a-f-]{36})"' % _DASHED
)
_OWNERS, _SPEC, _STATUS = b',"managedFields":[', b',"spec":{', b',"status":{'
_NODE_NAME, _NODE_NAMED = b'"nodeName":"', re.compile(rb"%b(?=\")" % _DASHED)
_POD_INDEX, _NUMBER = b'"apps.kubernetes.io/pod-index":"', re.compile(rb"[0-9]{1,10}(?=\")")
_CONTAINER, _CONTAINER_ID = b'"containerd://', re.compile(rb'containerd://[0-9a-f]{64}(?=")')
_TIME = re.compile(rb'"(2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)"')
_TIME_LENGTH = len("2026-01-01T00:00:00Z")
_MARK = re.compile(rb"\x00([0-9]+)\x00")
_UNQUOTED = re.compile(rb'[^"\\]+')
_ANY_NAME, _ANY_ADDRESS = re.compile(rb"[a-z0-9.]*-[a-z0-9.-]*"), re.compile(rb"%b(?:\.%b){3}" % (_OCTET, _OCTET))
_SHAPES = {
    _NAME: _ANY_NAME,
    _UID: re.compile(rb"[0-9a-f-]{36}"),
    _NODE: _ANY_NAME,
    _POD_IP: _ANY_ADDRESS,
    _HOST_IP: _ANY_ADDRESS,
    _INDEX: re.compile(rb"[0-9]{1,10}"),
    _VERSION: re.compile(rb"[0-9]+"),
    **dict.fromkeys(range(_CONTAINERS, _TIMES), re.compile(rb"containerd://[0-9a-f]{64}")),
}
"""What words look like, by their marks, wherever one is expected."""
_LONGEST_NAME = 63
_MOST_LAYOUTS = 32


Sections: TypeAlias = tuple[bytes, bytes, bytes, bytes]
Place: TypeAlias = tuple[bytes, bytes]
Places: TypeAlias = list[Place]
_Pick: TypeAlias = Callable[[Sequence[bytes]], tuple[bytes, ...]]
Template: TypeAlias = tuple[list[bytes], list[int]]
"""A text as parts, and the marks of the words that are to be put in the place of every second part."""


class Words(msgspec.Struct, frozen=True):
    """What is a pod's own."""

    by_mark: dict[int, bytes]
    times: dict[bytes, int] = {}
    """The marks of times."""

    @property
    def node(self) -> str:
        return self.by_mark.get(_NODE, b"").decode()

    def order_of(self, moments: Sequence[bytes]) -> bytes | None:
        """The marks of times, which are learned; None where one is wrong."""
        found = _ordered(tuple(moments)) if len(moments) <= _MOST_TIMES else None
        if found is None:
            return None
        order, by_mark, marks = found
        self.by_mark.update(by_mark)
        self.times.update(marks)
        return order

    def marked(self, *texts: Sections) -> list[list[bytes]]:
        """The sections of texts with marks in the place of words, but for times."""
        places = _places(self.by_mark)
        return [_marked(sections, places) for sections in texts]


class Form(msgspec.Struct, frozen=True):
    """What texts say but for a pod's own words, and where these stand."""

    parts: tuple[bytes, ...]
    """What stands before each word, and behind the last."""
    marks: list[int]
    """Those of the words."""
    others: frozenset[bytes]
    """What stands between quotation marks elsewhere."""
    own: list[int]
    """The marks of words but for times, each once."""
    shape: re.Pattern[bytes]
    """What these words look like, with NUL between them."""
    firsts: _Pick
    """Take these words from the pieces of a text."""
    repeated: _Pick
    """Take all that stand once more."""
    repeats: _Pick
    """Take what these have to be."""
    moments: _Pick
    """Take the times."""

    @classmethod
    def of(cls, parts: Sequence[bytes], marks: list[int]) -> "Form":
        """That of texts in which words with these marks stand between parts."""
        firsts, repeated, moments = dict[int, int](), list[int](), list[int]()
        for place, mark in enumerate(marks):
            if mark >= _TIMES:
                moments.append(2 * place + 1)
            elif firsts.setdefault(mark, 2 * place + 1) != 2 * place + 1:
                repeated.append(2 * place + 1)
        repeats = [firsts[marks[place // 2]] for place in repeated]
        shape = re.compile(b"\0".join(_SHAPES[mark].pattern for mark in firsts))
        picks = map(_picking, ([*firsts.values()], repeated, repeats, moments))
        return cls(tuple(parts), marks, frozenset(_UNQUOTED.findall(b'"'.join(parts))), [*firsts], shape, *picks)

    def pieces(self, text: bytes) -> tuple[bytes, ...] | None:
        """The parts of a text, with its words between them; None where it says something else."""
        found: dict[int, int] = {}
        pieces: list[bytes] = []
        at = 0
        for part, mark in zip(self.parts, self.marks, strict=False):
            if not text.startswith(part, at):
                return None
            at += len(part)
            length = _TIME_LENGTH if mark >= _TIMES else found.get(mark)
            if length is None:
                match = _SHAPES[mark].match(text, at)
                if match is None:
                    return None
                length = found[mark] = len(match[0])
            pieces += (part, text[at : at + length])
            at += length
        return (*pieces, text[at:])

    def words(self, pieces: Sequence[bytes], revision: int, now: bytes) -> tuple[Words, bytes] | None:
        """The words among the pieces of a text that says this, and the order of its times with the time that it is.

        They are those that `words_of` finds, and the rest is the same: no word stands anywhere but in the place of one.
        """
        firsts, version = self.firsts(pieces), b"%d" % revision
        if self.repeated(pieces) != self.repeats(pieces) or not self.shape.fullmatch(b"\0".join(firsts)):
            return None
        found = dict(zip(self.own, firsts, strict=True))
        if found.setdefault(_VERSION, version) != version:
            return None
        distinct = set(found.values())
        if len(distinct) < len(found) or not self.others.isdisjoint(distinct):
            return None
        if len(found[_NAME]) > _LONGEST_NAME or len(found.get(_NODE, b"")) > _LONGEST_NAME:
            return None
        words = Words(found)
        order = words.order_of((*self.moments(pieces), now))
        return (words, order) if order is not None else None


class Forms(msgspec.Struct, frozen=True):
    """The forms of texts that are mostly alike."""

    known: dict[bytes, Form | int | None] = {}
    """By what they say; what is no form stands for one that there is not, or not yet."""
    layouts: dict[int, Struct] = {}
    """By the length of a text, where the pieces of the last such text were: they are mostly there in the next, too."""

    def read(self, text: bytes, revision: int, now: bytes) -> tuple[bytes, Words, bytes] | None:
        """What a text says, its words, and the order of its times with the time that it is; None for an unknown one."""
        layout = self.layouts.get(len(text))
        if layout is not None:
            pieces = layout.unpack(text)
            parts = pieces[::2]
            for said, form in self.known.items():
                if isinstance(form, Form) and form.parts == parts and (found := form.words(pieces, revision, now)):
                    return said, *found
        for said, form in self.known.items():
            if isinstance(form, Form) and (there := form.pieces(text)) and there[::2] == form.parts:
                self._remember(text, there)
                if found := form.words(there, revision, now):
                    return said, *found
        return None

    def _remember(self, text: bytes, pieces: Sequence[bytes]) -> None:
        if len(self.layouts) >= _MOST_LAYOUTS:
            del self.layouts[next(iter(self.layouts))]
        self.layouts[len(text)] = Struct("".join(f"{len(piece)}s" for piece in pieces))


def sections_of(text: bytes) -> Sections:
    """A pod's metadata, who owns its fields, what it is to be, and what it is; all of another text is the first."""
    status = text.rfind(_STATUS) if text.endswith(b"}}") else -1
    status = status if status >= 0 else len(text)
    spec = text.find(_SPEC, 0, status)
    spec = spec if spec >= 0 else status
    owners = text.find(_OWNERS, 0, spec)
    owners = owners if owners >= 0 else spec
    return text[:owners], text[owners:spec], text[spec:status], text[status:]


def words_of(old: Sections, revision: int, update: Sections) -> Words | None:
    """The own words of a stored pod and of an update, but for times; None where they are not as usual."""
    metadata, _, spec, status = old
    beginning = _BEGINNING.match(metadata)
    if beginning is None:
        return None
    name, uid = beginning.groups()
    containers = dict.fromkeys((*_containers(status), *_containers(update[3])))
    if len(containers) > _MOST_CONTAINERS:
        return None
    found = {_NAME: name, _UID: uid, _VERSION: b"%d" % revision, **dict(enumerate(containers, _CONTAINERS))}
    for mark, text, before, word in (
        (_NODE, spec, _NODE_NAME, _NODE_NAMED),
        (_INDEX, metadata, _POD_INDEX, _NUMBER),
        (_POD_IP, update[3] or status, b'"podIP":"', _ADDRESS),
        (_HOST_IP, update[3] or status, b'"hostIP":"', _ADDRESS),
    ):
        at = text.find(before)
        if at >= 0 and (match := word.match(text, at + len(before))):
            found[mark] = match[0]
    return Words(found)


def _places(found: Mapping[int, bytes]) -> tuple[Places, Places, Places, Places]:
    """By section, where such words are looked for, each with what is put there instead."""
    metadata = [_place(found, _NAME), _place(found, _UID)]
    metadata.append((b'"resourceVersion":"%b"' % found[_VERSION], b'"resourceVersion":"\0%d\0"' % _VERSION))
    owners, spec = list[Place](), [_place(found, _NAME)]
    status = [_place(found, mark) for mark in found if _CONTAINERS <= mark < _TIMES]
    if _INDEX in found:
        metadata.append((b'%b%b"' % (_POD_INDEX, found[_INDEX]), b'%b\0%d\0"' % (_POD_INDEX, _INDEX)))
    if _NODE in found:
        spec.append(_place(found, _NODE))
    if _POD_IP in found:
        status.append(_place(found, _POD_IP))
        owners.append((b'\\"%b\\"' % found[_POD_IP], b'\\"\0%d\0\\"' % _POD_IP))
    if _HOST_IP in found:
        status.append(_place(found, _HOST_IP))
    return metadata, owners, spec, status


def _place(found: Mapping[int, bytes], mark: int) -> Place:
    return b'"%b"' % found[mark], b'"\0%d\0"' % mark


def _containers(status: bytes) -> Iterator[bytes]:
    """The ids of containers, in the order in which they stand in a status."""
    at = status.find(_CONTAINER)
    while at >= 0:
        if found := _CONTAINER_ID.match(status, at + 1):
            yield found[0]
        at = status.find(_CONTAINER, at + 1)


def split_at_times(texts: Sequence[bytes], now: bytes, words: Words) -> tuple[list[bytes], bytes] | None:
    """What stands around the times in texts, and the marks of these, which are learned; None where one is wrong."""
    parts = _TIME.split(b"\0\0".join(texts))
    order = words.order_of([*parts[1::2], now])
    return (parts[::2], order) if order is not None else None


def template(text: bytes, words: Words) -> Template | None:
    """What a text says with whatever words; None where some of its words are from elsewhere."""
    if text.count(_KEYED_ADDRESS) > 1:  # which stand in an order that depends on what they say
        return None
    if any(moment not in words.times for moment in _TIME.findall(text)):
        return None
    [[metadata, owners, spec, status]] = words.marked(sections_of(text))
    metadata, owners, status = (_with_marked_times(part, words) for part in (metadata, owners, status))
    parts = _MARK.split(b"".join((metadata, owners, spec, status)))
    made = parts, [int(mark) for mark in parts[1::2]]
    return made if filled(made, words) == text else None


def form_of(texts: Sequence[bytes], words: Words) -> Form | None:
    """What texts say with whatever words, read as one with NUL between them; None where that cannot be told."""
    parts, marks = list[bytes](), list[int]()
    for text in texts:
        made = template(text, words)
        if made is None:
            return None
        first, *others = made[0][::2]
        if parts:
            parts[-1] += b"\0" + first
        else:
            parts.append(first)
        parts += others
        marks += made[1]
    if words.by_mark.keys() - {*marks, _VERSION, *range(_TIMES, _TIMES + _MOST_TIMES)}:
        return None  # two words are the same
    return Form.of(parts, marks)


def _marked(sections: Sections, places: tuple[Places, Places, Places, Places]) -> list[bytes]:
    found = list(sections)
    for number, section in enumerate(sections):
        if section:
            for word, mark in places[number]:
                section = section.replace(word, mark)  # noqa: PLW2901 - all of them in the same
            found[number] = section
    return found


def _picking(places: Sequence[int]) -> _Pick:
    """What takes the pieces in these places."""
    if len(places) > 1:
        return itemgetter(*places)
    first = places[0] if places else 0
    return itemgetter(slice(first, first + len(places)))  # a single place would not be taken as a tuple


def _with_marked_times(text: bytes, words: Words) -> bytes:
    return _TIME.sub(lambda found: b'"\0%d\0"' % words.times[found[1]], text)


def filled(made: Template, words: Words) -> bytes:
    """The text that a template says with other words."""
    parts, marks = made
    parts = parts.copy()
    by_mark = words.by_mark
    parts[1::2] = [by_mark[mark] for mark in marks]
    return b"".join(parts)


@lru_cache(maxsize=512)
def _ordered(moments: tuple[bytes, ...]) -> tuple[bytes, dict[int, bytes], dict[bytes, int]] | None:
    """The marks of times in their order, and both by each other; None where one is wrong. Like pods have the same."""
    distinct = sorted(set(moments))
    if not all(map(_is_time, distinct)):
        return None
    marks = {moment: mark for mark, moment in enumerate(distinct, _TIMES)}
    return bytes(map(marks.__getitem__, moments)), dict(enumerate(distinct, _TIMES)), marks


def _is_time(text: bytes) -> bool:
    """Whether a text that looks like a time is one."""
    try:
        return times.to_seconds(times.parse(text.decode())).encode() == text
    except (times.TimeError, UnicodeDecodeError):
        return False
