"""The words in the texts of a pod and of its updates that are its own: names, ids, addresses and times.

    words = words_of(stored, update)
    words.marked(update)               # …"name":"␀0␀","uid":"␀1␀",…

A word stands between quotation marks and has a form that no keyword of the API has; it is taken for the pod's own
wherever it stands in those sections of a text where such words are looked for. All that is taken for something else
stays in the text. Called by ``like_updates.py``, which says what that is good for.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import msgspec

from mooring.api import times
from mooring.store.kv import KeyValue

_NAME, _UID, _NODE, _POD_IP, _HOST_IP, _INDEX, _VERSION, _CONTAINERS = range(8)
_TIMES = 100
"""The numbers of marks: those of containers begin at `_CONTAINERS`, those of times here, with the earliest."""
_MOST_CONTAINERS, _MOST_TIMES = _TIMES - _CONTAINERS, 256 - _TIMES

_DASHED = rb"(?=[a-z0-9.-]{1,63}\")[a-z0-9.]*-[a-z0-9.-]*"
"""A name that may stand wherever one may, even in a label, and that is not said of anything else."""
_BEGINNING = re.compile(
    rb'\{"kind":"Pod","apiVersion":"v1","metadata":\{"name":"(%b)",'
    rb'(?:"(?:generateName|namespace)":"[^"\\]*",)*"uid":"([0-9a-f-]{36})"' % _DASHED
)
_OWNERS, _SPEC, _STATUS = b',"managedFields":[', b',"spec":{', b',"status":{'
_NODE_NAME = re.compile(rb'"nodeName":"(%b)"' % _DASHED)
_OCTET = rb"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_ADDRESSES = tuple(
    (mark, re.compile(rb'"%b":"(%b(?:\.%b){3})"' % (field, _OCTET, _OCTET)))
    for mark, field in ((_POD_IP, b"podIP"), (_HOST_IP, b"hostIP"))
)
_KEYED_ADDRESS = b'k:{\\"ip\\"'
_POD_INDEX = re.compile(rb'"apps\.kubernetes\.io/pod-index":"([0-9]{1,10})"')
_POD_INDEX_IS = b'"apps.kubernetes.io/pod-index":"%b"'
_CONTAINER = re.compile(rb'"(containerd://[0-9a-f]{64})"')
_TIME = re.compile(rb'"(2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)"')
_MARK = re.compile(rb"\x00([0-9]+)\x00")


Places: TypeAlias = list[tuple[bytes, bytes]]
Template: TypeAlias = tuple[list[bytes], list[int]]
"""A text as parts, and the marks of the words that are to be put in the place of every second part."""


class Words(msgspec.Struct, frozen=True):
    """What is a pod's own."""

    by_mark: dict[int, bytes]
    places: tuple[Places, Places, Places, Places]
    """By section, where words but for times stand, each with what is put there instead."""
    times: dict[bytes, int] = {}
    """The marks of times."""

    @property
    def node(self) -> str:
        return self.by_mark.get(_NODE, b"").decode()

    def marked(self, text: bytes) -> list[bytes]:
        """The sections of a text with marks in the place of words, but for times."""
        found = sections(text)
        for number, places in enumerate(self.places):
            for word, mark in places:
                found[number] = found[number].replace(word, mark)
        return found


def sections(text: bytes) -> list[bytes]:
    """A pod's metadata, who owns its fields, what it is to be, and what it is; all of another text is the first."""
    status = text.rfind(_STATUS) if text.endswith(b"}}") else -1
    status = status if status >= 0 else len(text)
    spec = text.find(_SPEC, 0, status)
    spec = spec if spec >= 0 else status
    owners = text.find(_OWNERS, 0, spec)
    owners = owners if owners >= 0 else spec
    return [text[:owners], text[owners:spec], text[spec:status], text[status:]]


def words_of(kv: KeyValue, update: bytes) -> Words | None:
    """The own words of a stored pod and of an update, but for times; None where they are not as usual."""
    old = kv.value
    beginning = _BEGINNING.match(old)
    if beginning is None:
        return None
    containers = dict.fromkeys((*_CONTAINER.findall(old), *_CONTAINER.findall(update)))
    if len(containers) > _MOST_CONTAINERS:
        return None
    found = {_NAME: beginning[1], _UID: beginning[2], **dict(enumerate(containers, _CONTAINERS))}
    in_metadata = [_place(_NAME, beginning[1]), _place(_UID, beginning[2])]
    in_metadata.append((b'"resourceVersion":"%d"' % kv.mod_revision, b'"resourceVersion":"\0%d\0"' % _VERSION))
    if index := _POD_INDEX.search(old):
        found[_INDEX] = index[1]
        in_metadata.append((index[0], _POD_INDEX_IS % (b"\0%d\0" % _INDEX)))
    in_spec = [_place(_NAME, beginning[1])]
    if node := _NODE_NAME.search(old, max(old.find(_SPEC), 0)):
        found[_NODE] = node[1]
        in_spec.append(_place(_NODE, node[1]))
    in_status = [_place(mark, word) for mark, word in enumerate(containers, _CONTAINERS)]
    in_owners: Places = []
    for mark, pattern in _ADDRESSES:
        if address := _in_status(pattern, update) or _in_status(pattern, old):
            found[mark] = address[1]
            in_status.append(_place(mark, address[1]))
    if _POD_IP in found:
        in_owners.append((b'\\"%b\\"' % found[_POD_IP], b'\\"\0%d\0\\"' % _POD_IP))
    return Words(found, (in_metadata, in_owners, in_spec, in_status))


def _place(mark: int, word: bytes) -> tuple[bytes, bytes]:
    return b'"%b"' % word, b'"\0%d\0"' % mark


def _in_status(pattern: re.Pattern[bytes], text: bytes) -> re.Match[bytes] | None:
    return pattern.search(text, max(text.rfind(_STATUS), 0))


def split_at_times(texts: Sequence[bytes], now: bytes, words: Words) -> tuple[list[bytes], bytes] | None:
    """What stands around the times in texts, and the marks of these, which are learned; None where one is wrong."""
    parts = _TIME.split(b"\0\0".join(texts))
    found = [*parts[1::2], now]
    moments = sorted(set(found))
    if len(moments) > _MOST_TIMES or not all(map(_is_time, moments)):
        return None
    words.times.update((moment, mark) for mark, moment in enumerate(moments, _TIMES))
    words.by_mark.update(enumerate(moments, _TIMES))
    return parts[::2], bytes([words.times[moment] for moment in found])


def template(text: bytes, words: Words) -> Template | None:
    """What a text says with whatever words; None where some of its words are from elsewhere."""
    if text.count(_KEYED_ADDRESS) > 1:  # which stand in an order that depends on what they say
        return None
    if any(moment not in words.times for moment in _TIME.findall(text)):
        return None
    metadata, owners, spec, status = words.marked(text)
    metadata, owners, status = (_with_marked_times(part, words) for part in (metadata, owners, status))
    parts = _MARK.split(b"".join((metadata, owners, spec, status)))
    made = parts, [int(mark) for mark in parts[1::2]]
    return made if filled(made, words) == text else None


def _with_marked_times(text: bytes, words: Words) -> bytes:
    return _TIME.sub(lambda found: b'"\0%d\0"' % words.times[found[1]], text)


def filled(made: Template, words: Words) -> bytes:
    """The text that a template says with other words."""
    parts, marks = made
    parts = parts.copy()
    by_mark = words.by_mark
    parts[1::2] = [by_mark[mark] for mark in marks]
    return b"".join(parts)


@lru_cache(maxsize=4096)
def _is_time(text: bytes) -> bool:
    """Whether a text that looks like a time is one."""
    try:
        return times.to_seconds(times.parse(text.decode())).encode() == text
    except times.TimeError:
        return False
