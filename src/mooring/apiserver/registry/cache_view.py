"""How objects are shown to a cache that watches them: without what it would throw away (``api/for_caches.py``).

Events of pods that are deleted by the thousand are most of what a server sends then; a third of an object is who owns
its fields. Texts are cut, nothing is decoded. Used by ``watching.py``.
"""

from collections.abc import Sequence

from mooring.api import for_caches
from mooring.api.core_v1 import Pod
from mooring.apiserver.registry.context import Call
from mooring.apiserver.registry.stored import Stored
from mooring.apiserver.registry.views import WholeView
from mooring.store.kv import Event, KeyValue

_METADATA, _UID = b'"metadata":{', b'"uid":"'
_OWNERS, _BEHIND = b',"managedFields":[', b'}]},"'
_AT_THE_END = b"}]}}"
_SPEC = b',"spec":{'


class CacheView(WholeView):
    """Objects of the API's own kinds, as far as caches keep them."""

    is_for_many = False

    def object(self, value: bytes, revision: int) -> bytes:
        return without_owners(super().object(value, revision))

    def last(self, value: bytes, revision: int) -> bytes:
        return identity(super().object(value, revision))

    def renewed(self, previous: KeyValue, current: KeyValue) -> bytes:
        """The metadata of a pod that differs from what it was in nothing else, as when it is to be deleted."""
        if self.kind.type is not Pod:
            return b""  # nothing else changes so by the thousand
        value = current.value
        spec = value.find(_SPEC)
        if spec < 0 or not previous.value.endswith(value[spec:]):
            return b""
        shown = self.object(value[:spec] + b"}", current.mod_revision)
        return b'{"type":"MODIFIED","since":"%d","object":%b}\n' % (previous.mod_revision, shown)

    def worth_telling(self, events: Sequence[Event]) -> Sequence[Event]:
        gone = {event.key: event.revision for event in events if event.current is None}
        if not gone:
            return events
        return [
            event
            for event in events
            if event.previous is None or event.current is None or event.revision > gone.get(event.key, 0)
        ]


def is_for_cache(call: Call, stored: object) -> bool:
    """Whether a client asks for that, and of what it can be had."""
    is_plain = call.accepted.format == "json" and not call.accepted.shown_as
    is_own = isinstance(stored, Stored) and not call.kind.custom
    return is_plain and is_own and call.request.flag(for_caches.PARAMETER)


def without_owners(text: bytes) -> bytes:
    """An object without `metadata.managedFields`, which is always the last of the metadata.

    >>> without_owners(b'{"metadata":{"name":"a","managedFields":[{"manager":"m"}]},"spec":{}}')
    b'{"metadata":{"name":"a"},"spec":{}}'
    """
    begin = text.find(_OWNERS)
    if begin < 0 or text.find(_METADATA, text.find(_METADATA) + 1, begin) >= 0:
        return text  # there are none, or those of a template
    end = text.find(_BEHIND, begin)
    if end >= 0:
        return text[:begin] + text[end + 2 :]
    return text[:begin] + b"}}" if text.endswith(_AT_THE_END) else text


def identity(text: bytes) -> bytes:
    """The name, namespace, uid and version of an object, which its metadata begin with.

    >>> identity(b'{"kind":"Pod","metadata":{"resourceVersion":"7","name":"a","uid":"1","labels":{}},"spec":{}}')
    b'{"kind":"Pod","metadata":{"resourceVersion":"7","name":"a","uid":"1"}}'
    """
    begin = text.find(_METADATA) + len(_METADATA)
    at = text.find(_UID, begin)
    if at < 0 or text.find(b"{", begin, at) >= 0:
        return text  # it has none of its own
    return text[: text.find(b'"', at + len(_UID)) + 1] + b"}}"
