"""Rows of pods that are written like one before but for what is a pod's own: of such pods nothing is decoded.

Thousands that run differ in names, ids, times, nodes and addresses alone. Ids and times are as long in one as in the
other, so that what stands around them is cut out in one go, and compared:

    …"metadata":{"name":"web-1","namespace":"default","uid":"____","creationTimestamp":"____","labels":…
    ,"spec":{…"nodeName":"node-1",…},"status":{…"lastTransitionTime":"2026-____Z"…,"hostIP":"…
    "podIPs":[{"ip":"10.1.0.1"}],"startTime":"2026-____Z",…"containerID":"containerd://____"…}}

Called by ``pod_rows.py``, which says what is known of the text of pods.
"""

import re
import struct
import sys
from collections.abc import Iterable, Iterator

from mooring.apiserver.output.tables.printer import AGE, Times

SPEC_KEY = b',"spec":{'
NEARLY = 32
"""Managed fields have addresses of the pod in them, of which some are that much shorter than others, or less."""
_NAME, _NODE, _HOST, _ADDRESS = b'"metadata":{"name":"', b',"nodeName":"', b',"hostIP":"', b'"podIPs":[{"ip":"'
_CELLS, _NEXT = b'{"cells":["', b'","'
_QUOTE, _BACKSLASH = b'"\\'
_BORN = re.compile(rb'"[^{}]*"uid":"([0-9a-f-]{36})"[^{}]*"creationTimestamp":"([0-9TZ:-]{20})".{5}')
"""From the end of the name to where it is clear whether the pod is being deleted: the time of that would follow."""
_TIME = len("2026-01-01T00:00:00Z")
_OWN = re.compile(rb'":"(?:[0-9]{4}-([0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})Z|[a-z-]+://([0-9a-f]{64}))"')
_OWN_KEYS = (b"Time", b"At", b'"containerID')
"""Rows tell of none of these, nor of what would fit in behind one that is shorter, with two exceptions: a row with the
time of a restart has no form, and ids are looked at where there are init containers, for `started` may follow on them.
"""
_INIT, _ID = b'"initContainerStatuses":[', 64
_Span = tuple[int, int]


class _Stretch:
    """A part of the text of a pod, with own words in it."""

    __slots__ = ("compared", "cut", "size")

    def __init__(self, text: bytes, begin: int, end: int, own: Iterable[_Span]) -> None:
        layout = _layout(begin, own, "{}s{}x")
        cut = struct.Struct(f"{layout}{end - begin - struct.calcsize(layout)}s")
        self.cut = cut.unpack_from
        """Takes from a text, from a place on, what stands around the own words."""
        self.compared = self.cut(text, begin)
        self.size = cut.size


class Form:
    """How a pod is written, and what its row says, but for its own words."""

    __slots__ = ("_before", "_born", "_created", "_end", "_head", "_ids", "_middle", "_name", "_nearly", "_tail")

    def __init__(self, text: bytes, end: int, row: bytes) -> None:
        """Of a pod with metadata until `end`, and a row that tells of one time; raises ValueError if it is unusual."""
        name = text.index(_NAME) + len(_NAME)
        name_end = text.index(b'"', name)
        node = text.index(_NODE, end) + len(_NODE)
        node_end = text.index(b'"', node)
        address = text.rindex(_ADDRESS) + len(_ADDRESS)
        address_end = text.index(b'"', address)
        host = text.rindex(_HOST, node_end, address) + len(_HOST)
        born = _BORN.match(text, name_end, end)
        if born is None or text.count(_NODE, end, host) > 1:  # one may be a label of nodes
            raise ValueError("the pod is not written as usual")
        own = list(_own(text, address_end, len(text)))
        ids = [span for span in own if span[1] - span[0] == _ID] if text.find(_INIT, address_end) > 0 else []
        self._name = name
        self._born = _Stretch(text, name_end, born.end(), (born.span(1), born.span(2)))
        self._created = born.start(2) - name_end
        self._nearly = max(end - name_end - NEARLY, 0)
        self._before = text[end:node]
        self._head = _Stretch(text, node_end, host, _own(text, node_end, host))
        self._tail = _Stretch(text, address_end, len(text), own)
        self._ids = struct.Struct(_layout(address_end, ids, "{}x{}s")).unpack_from if ids else None
        middle = row.index(AGE) + len(AGE + _NEXT)
        self._middle = row[len(_CELLS) + name_end - name : middle]
        self._end = row[middle + address_end - address + len(_NEXT) + node_end - node :]

    def row(self, text: bytes) -> tuple[bytes, str, int] | None:
        """The row of a pod, when it was created, and where its metadata ends; None for one of another form."""
        name, before, born, head, tail = self._name, self._before, self._born, self._head, self._tail
        name_end = text.find(b'"', name)
        end = text.find(SPEC_KEY, name_end + self._nearly)
        if not text.startswith(before, end):
            return None
        node = end + len(before)
        node_end = text.find(b'"', node)
        host, address_end = node_end + head.size, len(text) - tail.size
        address = text.rfind(_ADDRESS, host, address_end) + len(_ADDRESS)
        try:
            if (
                head.cut(text, node_end) != head.compared
                or tail.cut(text, address_end) != tail.compared
                or born.cut(text, name_end) != born.compared
                or (self._ids is not None and _QUOTE in b"".join(self._ids(text, address_end)))
                or text.find(SPEC_KEY, host, address) >= 0  # what seemed to be the spec stood among the managed fields
            ):
                return None
        except struct.error:  # it is too short
            return None
        ip, created = text[address:address_end], name_end + self._created
        row = b"".join((_CELLS, text[name:name_end], self._middle, ip, _NEXT, text[node:node_end], self._end))
        if not ip or _QUOTE in ip or _BACKSLASH in row:
            return None
        return row, sys.intern(text[created : created + _TIME].decode()), end


def form_of(text: bytes, made: tuple[bytes, Times, int]) -> Form | None:
    """The form of a pod, by what its row says; None where that cannot be told."""
    row, _, end = made
    try:
        form = Form(text, end, row)
    except ValueError:
        return None
    return form if form.row(text) == made else None


def _own(text: bytes, begin: int, end: int) -> Iterator[_Span]:
    """Where ids stand, and times, but for what these have in common."""
    for found in _OWN.finditer(text, begin, end):
        if text.endswith(_OWN_KEYS, begin, found.start()):
            yield found.span(found.lastindex or 0)


def _layout(begin: int, spans: Iterable[_Span], form: str) -> str:
    """How to cut a text into spans and what stands before them."""
    layout = ""
    for start, end in spans:
        layout += form.format(start - begin, end - start)
        begin = end
    return layout
