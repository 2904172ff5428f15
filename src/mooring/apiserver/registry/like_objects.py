"""Remembers what new objects came to, so that the next one that differs only in words of its own is not judged again.

Whoever makes many objects of a kind sends texts that differ in a few words: a name, a value, a number. Where a kind is
judged by its text alone, its strategy knows the words that nothing else depends on (`Strategy.free_word`). The rest of
a text tells what it comes to, but for these words, the uid and the time, which fill its gaps:

    {"metadata":{"name":"a"},"data":{"k":"1"}}  →  {…,"metadata":{"name":"␣","uid":"␣",…},"data":{"k":"␣"}}

To be sure, an outcome is used only from the fourth time on: the second makes it known, and the third, which is judged,
has to come to the very same. Each is judged as ever where a word is not sound, somebody else writes, or says it in
other words, the namespace has changed, a quota counts, or policies or webhooks want to hear of the kind.

Called by ``writing.py``; ``gaps.py`` has the texts. Pods, for which much is looked up: ``like_pods.py``.
"""

from functools import partial

import msgspec
from msgspec.structs import replace

from mooring.admission.pipeline import made_up_name, new_uid
from mooring.admission.policy.attributes import Sort
from mooring.admission.strategy import Request
from mooring.api import times
from mooring.api.admissionregistration_v1 import CREATE
from mooring.api.authentication_v1 import UserInfo
from mooring.api.meta_v1 import Resource
from mooring.apiserver.messages import users
from mooring.apiserver.messages.http import JSON
from mooring.apiserver.registry.context import Call, HandlerContext
from mooring.apiserver.registry.facts import Facts
from mooring.apiserver.registry.gaps import Gaps, Picked, gaps_of, parts_of, picked, sort_of
from mooring.apiserver.registry.parameters import WriteOptions
from mooring.apiserver.registry.stored import Stored
from mooring.base.bounded_cache import BoundedCache

_MOST, _MOST_LAYOUTS, _SEEN = 256, 4, 1024
_TRIES = 16
"""How often something is learned of texts of a sort, which is of no use where other parts than words differ."""
_LONGEST, _MOST_PARTS = 16 * 1024, 512
"""Of a longer text, or one of more parts, to remember all would take more than it is worth."""
Key = tuple[Stored, str, str, str, int]


class Like(msgspec.Struct, frozen=True):
    """What an object came to, and what it was judged by."""

    gaps: Gaps
    user: UserInfo
    options: WriteOptions
    facts: Facts
    is_certain: bool = False


class _Layout(msgspec.Struct, frozen=True, eq=False):
    """Texts whose words are in the same parts."""

    indices: tuple[int, ...]
    """Those of the other parts."""
    fixed: Picked


class Text(msgspec.Struct, frozen=True):
    """The text of a new object, and who says it."""

    key: Key
    """Its kind and namespace, the user and the manager of its fields, and how many parts it has."""
    parts: list[bytes]
    options: WriteOptions


class Found(msgspec.Struct, frozen=True):
    """What an object comes to."""

    gaps: Gaps
    words: list[bytes]
    uid: str
    now: str

    @property
    def has_made_up_name(self) -> bool:
        return bool(self.gaps.made_of)

    def named(self) -> tuple[str, bytes]:
        """The name and the value; if the name is made up, another one each time."""
        gaps = self.gaps
        name = made_up_name(gaps.made_of) if gaps.made_of else self.words[gaps.name].decode()
        return name, gaps.filled(self.words, self.uid, self.now, name)


class LikeObjects:
    """The objects of a server by the texts that they were made of."""

    def __init__(self, context: HandlerContext) -> None:
        self._context = context
        self._layouts: BoundedCache[Key, list[_Layout]] = BoundedCache(_MOST)
        self._known: BoundedCache[tuple[_Layout, tuple[bytes, ...]], Like | None] = BoundedCache(_MOST)
        """By the parts of texts that are no words; None where what they come to varies."""
        self._seen: BoundedCache[int, int] = BoundedCache(_SEEN)
        """By the hashes of their sorts, how often texts came of which nothing was known."""

    async def find(self, call: Call, options: WriteOptions) -> Found | None:
        """What the object of a call comes to; None where it has to be judged."""
        text = self._read(call, options)
        if text is None:
            return None
        like = self._like(text)
        if like is None:
            self._see(call, text)
            return None
        if like.user != call.request.user or like.options != options:
            return None
        facts = await self._context.facts.about(None, call.namespace)
        if not like.is_certain or facts != like.facts:
            call.learn = partial(self._learn, text)
            return None
        words = like.gaps.sound_words(text.parts)
        if words is None:
            return None
        return Found(like.gaps, words, new_uid(), times.to_seconds(self._context.clock.now()))

    def _read(self, call: Call, options: WriteOptions) -> Text | None:
        """The text of a call that nothing but what it says matters for."""
        request, stored, context = call.request, call.stored, self._context
        if not context.strategy(stored).is_judged_by_text or call.kind is not stored.hub:
            return None
        if options.dry_run or request.is_unread or len(request.body) > _LONGEST:
            return None
        if request.content_type not in {"", JSON}:
            return None
        if not (
            context.extensions.is_idle or context.extensions.spares(Sort(call.kind, "", CREATE, bool(call.namespace)))
        ):
            return None
        if call.namespace and not context.accounting.is_idle(call.namespace):
            return None
        parts = parts_of(request.body)
        if parts is None or len(parts) > _MOST_PARTS:
            return None
        return Text((stored, call.namespace, request.user.username, options.manager, len(parts)), parts, options)

    def _like(self, text: Text) -> Like | None:
        for layout in self._layouts.get(text.key) or ():
            like = self._known.get((layout, layout.fixed(text.parts)))
            if like is not None:
                return like
        return None

    def _see(self, call: Call, text: Text) -> None:
        """Note that something came; what comes again is learned once it is admitted."""
        sort = hash((text.key, sort_of(text.parts)))
        before = self._seen.get(sort) or 0
        self._seen.put(sort, before + 1)
        if 1 <= before <= _TRIES:
            call.learn = partial(self._learn, text)

    def _learn(self, text: Text, call: Call, obj: Resource, request: Request) -> None:
        """Remember what an object came to; it is certain once another came to the same."""
        stored, user, facts = call.stored, call.request.user, request.lookups
        if call.warnings or stored.storage is not stored.hub or stored.asks or users.NODES in user.groups:
            return
        if not isinstance(facts, Facts):
            return
        value = stored.encode(obj)
        before = self._like(text)
        if before is not None and before.facts == facts:
            words, meta = before.gaps.sound_words(text.parts), obj.metadata
            is_same = words and before.gaps.filled(words, meta.uid, meta.creation_timestamp or "", meta.name) == value
            self._keep(text, before.gaps, replace(before, is_certain=True) if is_same else None)
            return
        gaps = gaps_of(text.parts, value, self._context.strategy(stored).free_word)
        if gaps is not None:
            self._keep(text, gaps, Like(gaps, user, text.options, facts))

    def _keep(self, text: Text, gaps: Gaps, like: Like | None) -> None:
        layouts = self._layouts.get(text.key)
        if layouts is None:
            layouts = list[_Layout]()
            self._layouts.put(text.key, layouts)
        layout = next((each for each in layouts if each.indices == gaps.fixed), None)
        if layout is None and len(layouts) < _MOST_LAYOUTS:
            layout = _Layout(gaps.fixed, picked(gaps.fixed))
            layouts.append(layout)
        if layout is not None:
            self._known.put((layout, layout.fixed(text.parts)), like)
