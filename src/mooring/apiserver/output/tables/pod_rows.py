"""Rows of pods from their text: of a pod like one before it, little more is read than what is its own.

Lists of many pods are lists of few templates. Pods of a template have the same bytes between metadata and status except
for the node, so that these are compared instead of decoded; and most cells follow from parts of the status that are the
same for thousands. Unusual pods are decoded by the functions of ``pods.py``; a property test compares both. Called by
``__init__.py``.
"""

import sys
from collections.abc import Callable
from typing import Any

from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder, Encoder

from mooring.api.codec import MANAGED_FIELDS
from mooring.api.meta_v1 import TableRowCondition
from mooring.apiserver.output.tables.pod_parts import Condition, PodParts, Spec, Status
from mooring.apiserver.output.tables.printer import AGE, NONE, Ago, Metadata, Times
from mooring.apiserver.output.tables.row import written
from mooring.base.bounded_cache import BoundedCache

_NODE_KEY, _SPEC_KEY, _STATUS_KEY = b',"nodeName":"', b',"spec":{', b',"status":'
_ADDRESS_BYTES = 32
"""By how much the managed fields of pods of one template differ in length: they have the pod's addresses in them."""
_CELLS, _NONE = b'{"cells":[', NONE.encode()
_GATED, _G = b"SchedulingGated", ord("G")
_READY, _INITIALIZED = Condition("Ready", "True"), Condition("Initialized", "True")
_CASES: tuple[list[Condition], ...] = ([], [_READY], [_INITIALIZED], [_READY, _INITIALIZED])
"""The conditions that can make a difference where a pod is not gated and has no readiness gates."""
_WORDS = 4096


class _Cut(Struct):
    metadata: Raw
    spec: Spec
    status: Raw


class _Own(Metadata, kw_only=True):
    """What a pod has of its own, as one object: its metadata, but for the managed fields, with its status in it."""

    status: Status


_CUT, _OWN, _PARTS, _ENCODER = Decoder(_Cut), Decoder(_Own), Decoder(PodParts), Encoder()


class _Like(Struct, frozen=True):
    """A spec, and what stands around the name of its node from the end of the metadata to the status."""

    spec: Spec
    before: bytes
    after: bytes
    nearly: int
    """So far behind the begin of the managed fields, or a little further, the spec begins in pods like its own."""


class PodRows:
    """Makes rows of pods, one after another.

    A pod is valid JSON that this server wrote: kind, apiVersion, metadata, spec and status, in this order. So where all
    of a spec is found, and right behind it a status that ends one brace before the pod does, they are the pod's own.
    """

    def __init__(
        self, cells: Callable[[PodParts], list[Any]], conditions: Callable[[PodParts], list[TableRowCondition]]
    ) -> None:
        self._cells = cells
        self._conditions = conditions
        self._like = _Like(Spec(), b"\0", b"", 0)
        self._words: BoundedCache[Any, tuple[bytes, bytes]] = BoundedCache(_WORDS)
        """What stands in rows between name and address, and behind the node."""

    def __call__(self, text: bytes) -> tuple[bytes, Times, int]:
        """Return a row, and where the metadata of its pod ends."""
        begin, managed, like = text.index(b"{", 1), text.find(MANAGED_FIELDS), self._like
        end = text.find(_SPEC_KEY, managed + like.nearly)
        if managed > 0 and text.startswith(like.before, end):
            node = end + len(like.before)
            node_end = text.find(b'"', node) if like.after else node
            if text.startswith(like.after, node_end):
                own = text[begin:managed] + text[node_end + len(like.after) :]
                try:
                    return self._row(text, end, own, like.spec, text[node:node_end])
                except MsgspecError:  # it was the name of a field that is managed
                    pass
        return self._read(text, begin)

    def _read(self, text: bytes, begin: int) -> tuple[bytes, Times, int]:
        """The same of a pod unlike the last; the next may be like this one."""
        cut = _CUT.decode(text)
        end, managed = begin + len(bytes(cut.metadata)), text.find(MANAGED_FIELDS)
        status = len(text) - len(bytes(cut.status)) - len(_STATUS_KEY) - 1
        before, key, rest = text[end:status].partition(_NODE_KEY)
        node, quote, after = rest.partition(b'"')
        is_label = _NODE_KEY in after or bool(key) != bool(cut.spec.node_name)  # of nodes that the pod selects
        if not is_label and b"\\" not in node:
            self._like = _Like(cut.spec, before + key, quote + after, max(end - managed - _ADDRESS_BYTES, 0))
        metadata = text[begin : managed if 0 < managed < end else end - 1]
        own = metadata + text[status + (metadata == b"{") :]
        return self._row(text, end, own, cut.spec, _ENCODER.encode(cut.spec.node_name)[1:-1])

    def _row(self, text: bytes, end: int, own_text: bytes, spec: Spec, node: bytes) -> tuple[bytes, Times, int]:
        """`node` is the name of the node as JSON, without quotes; the spec may have that of another pod."""
        own = _OWN.decode(own_text)
        created, status = own.creation_timestamp, own.status
        gated = _G in own_text and own_text.find(_GATED) >= 0  # a byte is looked for ten times as fast
        if gated or spec.readiness_gates or not created:
            return self._ordinary(text, end)
        key = (
            not own.deletion_timestamp,
            len(spec.containers),
            spec.init_containers,
            status.phase,
            status.reason,
            status.nominated_node_name,
            status.init_container_statuses,
            status.container_statuses,
        )
        words = self._words.get(key)
        if words is None:
            words = self._learned(_PARTS.decode(text))
            if words is None:
                return self._ordinary(text, end)
            self._words.put(key, words)
        address = status.pod_ips[0].ip if status.pod_ips else status.pod_ip
        name, ip = _ENCODER.encode(own.name), _ENCODER.encode(address or NONE)
        row = b"".join((_CELLS, name, words[0], ip, b',"', node or _NONE, words[1]))
        return row, sys.intern(created), end

    def _learned(self, pod: PodParts) -> tuple[bytes, bytes] | None:
        """What follows the name in a row, and the node; None where it is of this pod only."""
        cells: list[Any] = []
        for case in _CASES:
            pod.status.conditions = case
            before, cells = cells, self._cells(pod)
            if type(cells[3]) is Ago or (before and cells != before):
                return None
        middle, _ = written(cells[1:4], [])
        last, _ = written(cells[7:], self._conditions(pod))
        return b',%b,"%b",' % (middle[len(_CELLS) : -1], AGE), b'",' + last[len(_CELLS) :]

    def _ordinary(self, text: bytes, end: int) -> tuple[bytes, Times, int]:
        pod = _PARTS.decode(text)
        return *written(self._cells(pod), self._conditions(pod)), end
