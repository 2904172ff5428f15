"""Remembers pods that were admitted, so that the next one that differs in little but its name is not judged again.

Whoever makes many pods one by one sends the same text over and over, with another name in it; controllers of
StatefulSets and DaemonSets also with another number, host name or node (`own_parts.py`). `LikePods.find` tells such a
text by what stands around these, and makes a pod of the one that was admitted before, provided that the same user sent
it, in the same words, and that all that admission looks up is as it was. A text is learned when it comes the second
time; then the pod is read once more with other words in their place, to make sure that what was cut out of the text is
what it is taken for and nothing else. Policies and webhooks judge every pod, though policies only look at what is its
own (`Attributes.alike`); where somebody may change pods, nothing is found.

Called by ``writing.py`` and ``batch_writer.py``. Pods that are equal within one request are dealt with there
(`create_alike`).
"""

from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from mooring.admission.pipeline import generate_name, new_uid
from mooring.admission.strategy import Request
from mooring.api import codec, times
from mooring.api.admissionregistration_v1 import CREATE
from mooring.api.authentication_v1 import UserInfo
from mooring.api.core_v1 import LimitRange, Pod
from mooring.api.meta_v1 import Resource
from mooring.apiserver.messages.http import JSON
from mooring.apiserver.registry.context import Call, HandlerContext
from mooring.apiserver.registry.facts import Facts
from mooring.apiserver.registry.parameters import WriteOptions
from mooring.apiserver.registry.pods.own_parts import NAME, Own, are_sound, put_into, take_out, with_others
from mooring.base.bounded_cache import BoundedCache

_MOST, _SEEN = 256, 1024
_LONGEST = 16 * 1024
Key = tuple[str, tuple[bytes, ...]]
"""A namespace, and what stands around a pod's own parts in a text; the whole text where it has none."""


class LikePod(msgspec.Struct, frozen=True):
    """A pod that was admitted, and what it was admitted by."""

    pod: Pod
    user: UserInfo
    options: WriteOptions
    facts: Facts
    limits: list[LimitRange]
    warnings: list[str]
    own: Own
    """What it has of its own, in the text."""
    judged: dict[Any, Any] = {}
    """What policies keep about pods like this one."""


class LikePods:
    """The pods of a server by the texts that they were made of."""

    def __init__(self, context: HandlerContext) -> None:
        self._context = context
        self._known: BoundedCache[Key, LikePod] = BoundedCache(_MOST)
        self._seen: BoundedCache[int, bool] = BoundedCache(_SEEN)
        """By the hashes of their keys, the texts that have come once."""

    async def find(self, call: Call, options: WriteOptions) -> Pod | None:
        """The pod that a call asks for, admitted; None where it has to be judged."""
        body = call.request.body
        if call.request.query or len(body) > _LONGEST or call.request.content_type not in {"", JSON}:
            return None
        rest, own = take_out(body)
        key = (call.namespace, rest)
        like = self._known.get(key)
        if like is None:
            self._see(call, key, options)
            return None
        request = call.request
        if like.options != options or like.user != request.user:
            return None
        if not are_sound(own):
            return None
        attributes = self._context.extended(call, CREATE, like.pod, None)
        if attributes is not None:
            are_told_apart = {**own, NAME: ""} != {**like.own, NAME: ""}  # by more than policies know of
            if are_told_apart or self._context.extensions.may_change(attributes.sort):
                return None
        facts = await self._context.facts.about(like.pod, call.namespace)
        if facts != like.facts or list(facts.limit_ranges(call.namespace)) != like.limits:
            call.learn = partial(self._learn, key, options)  # as things are now
            return None
        call.warn(*like.warnings)
        pod = self._another(like.pod, own)
        self._context.guard(request.user, pod, None, "")
        if attributes is not None:
            attributes.obj, attributes.name, attributes.alike = pod, pod.metadata.name, like.judged
            await self._context.extensions.validate(attributes)
        return pod

    def _see(self, call: Call, key: Key, options: WriteOptions) -> None:
        if hash(key) in self._seen:
            call.learn = partial(self._learn, key, options)
        else:
            self._seen.put(hash(key), True)

    def _learn(self, key: Key, options: WriteOptions, call: Call, pod: Resource, request: Request) -> None:
        """Remember a pod that was admitted just now, if its own parts are all that may differ."""
        facts = request.lookups
        if not isinstance(facts, Facts) or not isinstance(pod, Pod):
            return
        if not pod.metadata.resource_version and _is_only_own(call, key, pod):
            self._known.put(
                key,
                LikePod(
                    pod=replace(pod, metadata=replace(pod.metadata)),
                    user=call.request.user,
                    options=options,
                    facts=facts,
                    limits=list(facts.limit_ranges(call.namespace)),
                    warnings=list(request.warnings),
                    own=take_out(call.request.body)[1],
                ),
            )

    def _another(self, pod: Pod, own: Own) -> Pod:
        now = times.to_seconds(self._context.clock.now())
        owners = [replace(entry, time=now) for entry in pod.metadata.managed_fields]
        metadata = replace(pod.metadata, name="", uid=new_uid(), creation_timestamp=now, managed_fields=owners)
        made = put_into(replace(pod, metadata=metadata), own)
        generate_name(made.metadata)
        return made


def _is_only_own(call: Call, key: Key, pod: Pod) -> bool:
    """Whether the text says the same of every pod, whatever is put in the place of what was cut out."""
    _, rest = key
    if any(b'"managedFields"' in each for each in rest):
        return False  # which may be older
    if any(volume.ephemeral is not None for volume in pod.spec.volumes):
        return False  # whose claims are named after the pod
    _, own = take_out(call.request.body)
    read: Any = codec.decode_own(call.request.body, Pod)
    if not own:
        return bool(read.metadata.generate_name and not read.metadata.name)
    if own.keys() - {NAME} and b'LabelKeys"' in call.request.body:
        return False  # labels may have been put into selectors
    if read.metadata.name != own.get(NAME, ""):
        return False
    other: Any = codec.decode_own(with_others(rest, own), Pod)
    return bool(put_into(other, own) == read)
