"""Remembers what updates of pods came to, so that the next one that differs only in what is a pod's own is not judged.

Pods of one template become what they become by the same updates: their status when they run, when they end, the
finalizer that a Job takes from them. The texts of two such updates, and of the two pods, differ in names, ids,
addresses and times alone (`pod_words.py`). `LikeUpdates.read` puts marks in the place of these, and keeps what is left,
with the order that the times are in. Whoever leaves the same gets the same pod, with its own words for the marks.

Texts that are alike are found in two ways: by taking them apart, or, where others like them were known before, by
reading them along the form of these (`pod_words.Form`), which comes to the same.

That is sound because nothing that judges such an update looks at what these words say, but for which of them are equal
and which time is earlier. To be sure, an outcome is used only from the fourth time on: the second makes it known, and
the third, which is judged, has to come to the very same. Where something else may tell updates apart, each is judged:
a node writes, a quota counts, or admission looks up something that has changed. Policies and webhooks that want to hear
of pods keep them away from here (`BatchWriter.concerns`).

Called by ``batch_writer.py``. New pods that are alike: ``like_pods.py``.
"""

from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from mooring.api import times
from mooring.api.authentication_v1 import UserInfo
from mooring.api.core_v1 import Pod
from mooring.apiserver.messages import users
from mooring.apiserver.registry.context import Call, HandlerContext
from mooring.apiserver.registry.facts import Facts
from mooring.apiserver.registry.parameters import WriteOptions
from mooring.apiserver.registry.pods.pod_words import (
    Forms,
    Template,
    Words,
    filled,
    form_of,
    sections_of,
    split_at_times,
    template,
    words_of,
)
from mooring.base.bounded_cache import BoundedCache
from mooring.store.kv import Delete, KeyValue, Put

_MOST = 512
_LONGEST = 16 * 1024
_FORMS, _ALIKE, _SELDOM = 64, 8, 2
Key: TypeAlias = tuple[bytes, bytes]
"""What an update says but for a pod's own words, and the order that the times are in."""


class Update(msgspec.Struct, frozen=True):
    """An update of a pod, and what of it is the pod's own."""

    key: Key
    """All the rest."""
    user: UserInfo
    words: Words
    namespace: str
    about: tuple[str, ...]
    """What is known of it without reading: those with the same in common are mostly alike."""
    texts: tuple[bytes, bytes, bytes] | None
    """The pod, its update and the options of its deletion, where these were taken apart."""


class Known(msgspec.Struct, frozen=True):
    """What an update comes to: a pod as it is to be stored, and whether nothing holds it any longer."""

    value: bytes
    is_gone: bool

    def write(self, kv: KeyValue) -> Put | Delete | None:
        """What makes it so."""
        if self.value == kv.value:
            return None
        if self.is_gone:
            return Delete(kv.key, expect=kv.mod_revision)
        return Put(kv.key, self.value, expect=kv.mod_revision)


class _Like(msgspec.Struct, frozen=True):
    """What an update came to, and what it was judged by."""

    value: Template
    is_gone: bool
    user: UserInfo
    facts: Facts | None
    """What admission looked up; None where it looks nothing up."""
    pod: Pod | None
    """One that it did so for."""
    is_certain: bool = False


class LikeUpdates:
    """The updates of pods that a server has judged."""

    def __init__(self, context: HandlerContext) -> None:
        self._context = context
        self._known: BoundedCache[Key, _Like | None] = BoundedCache(_MOST)
        """None for those that came once, and for those that nothing can be known of."""
        self._forms: BoundedCache[tuple[str, ...], Forms] = BoundedCache(_FORMS)
        """By `Update.about` and by what they say, those of the last that were known; None where one has none.

        A number says how many were known: of what comes seldom, a form would take longer to make than it saves.
        """

    def read(self, call: Call, kv: KeyValue, options: WriteOptions, ending: bytes = b"") -> Update | None:
        """An update, with the options of the deletion that follows it; None where it has to be judged anyway."""
        request, stored = call.request, call.stored
        if stored.hub.type is not Pod or call.kind is not stored.hub or request.query:
            return None
        if users.NODES in request.user.groups or not self._context.accounting.is_idle(call.namespace):
            return None
        told = (request.method, call.namespace, call.subresource, request.content_type, options.manager)
        judged_by = (*told, options.validation.value)
        about = (*judged_by, call.name.rpartition("-")[0], "and its end" if ending else "")
        texts = (kv.value, request.body, ending)
        now = times.to_seconds(self._context.clock.now()).encode()
        text = b"\0".join(texts)
        forms = self._forms.get(about)
        if forms is not None and (found := forms.read(text, kv.mod_revision, now)) is not None:
            said, words, order = found
            return Update((said, order), request.user, words, call.namespace, about, None)
        apart = _taken_apart(texts, kv.mod_revision, now)
        if apart is None:
            return None
        said, order, words = apart
        said = b"%b\0%b" % ("\0".join(judged_by).encode(), said)
        return Update((said, order), request.user, words, call.namespace, about, texts)

    async def find(self, update: Update) -> Known | None:
        """What an update comes to, if that is certain."""
        like = self._known.get(update.key)
        if like is None or not like.is_certain or like.user != update.user:
            return None
        if like.pod is not None and like.facts != await self._facts(like.pod, update):
            return None
        if update.texts is not None:
            self._remember(update.about, update.key[0], update.texts, update.words)
        return Known(filled(like.value, update.words), like.is_gone)

    def _remember(self, about: tuple[str, ...], said: bytes, texts: tuple[bytes, bytes, bytes], words: Words) -> None:
        """Be able to read others like these along their form."""
        forms = self._forms.get(about)
        if forms is None:
            self._forms.put(about, forms := Forms())
        known = forms.known.get(said, 0)
        if said not in forms.known and len(forms.known) >= _ALIKE:
            del forms.known[next(iter(forms.known))]
        if isinstance(known, int):
            forms.known[said] = known + 1 if known < _SELDOM else form_of(texts, words)

    async def learn(self, update: Update, value: bytes, *, is_gone: bool = False, pod: Pod | None = None) -> None:
        """Remember what an update came to; with the pod, where admission has looked up something about it."""
        if update.key not in self._known:
            self._known.put(update.key, None)
            return
        made = template(value, update.words)
        facts = await self._facts(pod, update) if pod is not None else None
        like = _Like(made, is_gone, update.user, facts, pod) if made is not None else None
        before = self._known.get(update.key)
        if like is not None and before is not None and replace(before, pod=pod, is_certain=False) == like:
            like = replace(like, is_certain=True)
        self._known.put(update.key, like)

    async def _facts(self, pod: Pod, update: Update) -> Facts:
        """What admission looks up about a pod, were it on the node of the one that is updated."""
        spec = replace(pod.spec, node_name=update.words.node or pod.spec.node_name)
        return await self._context.facts.about(replace(pod, spec=spec), update.namespace)


def _taken_apart(texts: tuple[bytes, bytes, bytes], revision: int, now: bytes) -> tuple[bytes, bytes, Words] | None:
    """What texts say, the order of their times, and a pod's own words in them; None where they are not as usual."""
    value, body, ending = texts
    if any(len(text) > _LONGEST or text.find(b"\0") >= 0 for text in texts) or body.find(b'"managedFields"') >= 0:
        return None
    old, new = sections_of(value), sections_of(body)
    words = words_of(old, revision, new)
    if words is None:
        return None
    marked = words.marked(old, new, (ending, b"", b"", b""))
    (metadata, owners, spec, status), (wanted, others, its_spec, its_status), (ends, *_) = marked
    split = split_at_times((metadata, owners, status, wanted, others, its_status, ends), now, words)
    if split is None:
        return None
    around, order = split
    wanted_spec = b"=" if its_spec == spec else its_spec  # as it nearly always is
    return b"\0".join((spec, wanted_spec, *around)), order, words
