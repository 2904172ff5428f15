"""Decide which events help which pods, with the queueing hints of all plugins of all profiles.

An event can help a pod only through a plugin that rejected it. The plugin's hint for the event decides; without a hint,
every such event helps.
"""

from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple

import msgspec

from mooring.api.core_v1 import Pod
from mooring.base import logs
from mooring.scheduler import framework as fwk
from mooring.scheduler.framework.events import AboutFunction, HintFunction
from mooring.scheduler.framework.profiles import Profile
from mooring.scheduler.queue.queued_pod import QueuedPod

log = logs.get(__name__)

EVERYTHING = fwk.ClusterEvent(fwk.Kind.WILDCARD, fwk.Action.ALL)
"""The pseudo-event for pods that have waited long enough; it wakes a pod whichever plugin rejected it."""


class Help(Enum):
    """The decision about an unschedulable pod after an event: leave it, move it to backoff, or make it active."""

    NONE = "leave it where it is"
    AFTER_BACKOFF = "try it again once its backoff is over"
    AT_ONCE = "try it again now: it was waiting for just this"


class RejectionKey(NamedTuple):
    """The key of a group of unschedulable pods: the plugins that rejected them, and the one that gates them."""

    profile: str
    refused_by: frozenset[str]
    gated_by: str
    is_held: bool = False
    """Whether the gating plugin holds the pods until victims are deleted, whatever other events occur."""


Concerned = bool | str
"""The pods that an event may help: True for all, False for none, or the key of an object that they must refer to."""


class _Registration(msgspec.Struct, frozen=True):
    """A plugin's hint for an event that it registered."""

    plugin: str
    hint: HintFunction | None
    about: AboutFunction | None = None


class Hints:
    """The events and queueing hints that the plugins of all profiles registered."""

    def __init__(self, profiles: Iterable[Profile]) -> None:
        self._registered: dict[str, list[tuple[fwk.ClusterEvent, _Registration]]] = {}
        self._by_signature: dict[str, frozenset[str]] = {}
        self._registered_by_event: dict[tuple[str, fwk.ClusterEvent], tuple[_Registration, ...]] = {}
        self._referring: dict[tuple[str, str], fwk.RefersToObjects] = {}
        for profile in profiles:
            for plugin in profile.plugins:
                if isinstance(plugin, fwk.RefersToObjects):
                    self._referring[profile.name, plugin.name] = plugin
            self._registered[profile.name] = list(_collect_registrations(profile))
            self._by_signature[profile.name] = frozenset(
                plugin.name
                for plugin in profile.plugins
                if isinstance(plugin, fwk.FilterPlugin) and fwk.Part.POD not in plugin.filters.pod
            )

    def may_share_hint(self, queued: QueuedPod) -> bool:
        """Return whether pods with the same `template_key` and rejecting plugins always get the same hint."""
        return queued.template_key is not None and queued.refused_by <= self._by_signature[queued.profile]

    def find_references(self, queued: QueuedPod) -> tuple[str, ...]:
        """Return the keys of the objects that a pod refers to, for the plugins that rejected it."""
        found: dict[str, None] = {}
        for plugin in queued.refused_by:
            referring = self._referring.get((queued.profile, plugin))
            if referring is not None:
                found.update(dict.fromkeys(referring.refers_to(queued.pod)))
        return tuple(found)

    def find_concerned(self, group: RejectionKey, event: fwk.ClusterEvent, old: Any, new: Any) -> Concerned:
        """Return which pods of a group an event may help: all, none, or those that refer to one object."""
        profile, refused_by, gated_by, is_held = group
        if is_held:
            return False
        if event is EVERYTHING or not (refused_by or gated_by):
            return True
        gate = self._referring.get((profile, gated_by))
        if gate is not None:
            return gate.opened_by(event, old, new)
        plugins = frozenset({gated_by}) if gated_by else refused_by
        keys: set[str] = set()
        for entry in self._registrations_for(profile, event):
            if entry.plugin in plugins:
                key = entry.about(old, new) if entry.about is not None else None
                if key is None:
                    return True
                keys.add(key)
        return keys.pop() if len(keys) == 1 else bool(keys)

    def help_for(self, queued: QueuedPod, event: fwk.ClusterEvent, old: Any, new: Any) -> Help:
        """Return what to do with an unschedulable pod after an event, by the hints of the plugins that rejected it."""
        if not queued.refused_by or event is EVERYTHING:
            return Help.AFTER_BACKOFF
        best = Help.NONE
        for entry in self._registrations_for(queued.profile, event):
            if entry.plugin not in queued.refused_by or not _hint_helps(entry, queued.pod, old, new):
                continue
            if entry.plugin in queued.waits_for:
                return Help.AT_ONCE
            best = Help.AFTER_BACKOFF
            if not queued.waits_for:
                return best
        return best

    def _registrations_for(self, profile: str, event: fwk.ClusterEvent) -> tuple[_Registration, ...]:
        key = (profile, event)
        found = self._registered_by_event.get(key)
        if found is None:
            entries = self._registered[profile]
            found = self._registered_by_event[key] = tuple(entry for wanted, entry in entries if wanted.covers(event))
        return found


def _collect_registrations(profile: Profile) -> Iterable[tuple[fwk.ClusterEvent, _Registration]]:
    for plugin in profile.plugins:
        if not isinstance(plugin, fwk.EnqueueExtensions):
            yield EVERYTHING, _Registration(plugin.name, None)
            continue
        for entry in plugin.events_to_register():
            yield entry.event, _Registration(plugin.name, entry.hint, entry.about)


def _hint_helps(entry: _Registration, pod: Pod, old: Any, new: Any) -> bool:
    if entry.hint is None:
        return True
    try:
        return entry.hint(pod, old, new) is fwk.QueueingHint.QUEUE
    except Exception:  # a plugin's defect must not keep a pod from being tried
        if logs.once(("queueing hint", entry.plugin)):
            log.exception("a queueing hint failed; the pod is tried again", extra={"fields": {"plugin": entry.plugin}})
        return True
