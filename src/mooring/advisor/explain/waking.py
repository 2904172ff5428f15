"""Describe the cluster events after which the scheduler retries a pending pod, as its plugins have registered them."""

from collections.abc import Iterable
from functools import reduce
from operator import or_

from mooring.scheduler.facade import Profile
from mooring.scheduler.framework import Action, ClusterEvent, EnqueueExtensions, Kind

_NOUNS = {
    Kind.ASSIGNED_POD: "a pod on a node",
    Kind.TARGET_POD: "the pod itself",
    Kind.NODE: "a node",
    Kind.WILDCARD: "anything",
}
_VERBS = {
    Action.ADD: "is added",
    Action.DELETE: "is deleted",
    Action.UPDATE_NODE_ALLOCATABLE: "has more room",
    Action.UPDATE_NODE_LABEL: "gets other labels",
    Action.UPDATE_NODE_TAINT: "gets other taints",
    Action.UPDATE_NODE_CONDITION: "gets other conditions",
    Action.UPDATE_POD_LABEL: "gets other labels",
    Action.UPDATE_POD_SCALE_DOWN: "asks for less",
    Action.UPDATE_POD_TOLERATION: "gets another toleration",
    Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "loses its last scheduling gate",
    Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "gets its claims",
}


def retry_events(profile: Profile, plugins: Iterable[str]) -> list[str]:
    """Return as phrases the events after which pods rejected by the given plugins are retried: `a node is added`."""
    wanted, verbs = set(plugins), dict[str, dict[str, None]]()
    for plugin in profile.plugins:
        if plugin.name in wanted:
            for event in _registered_events(plugin):
                noun = _NOUNS.get(event.kind, f"a {event.kind.value}")
                verbs.setdefault(noun, {}).update(dict.fromkeys(_event_verbs(event)))
    return [f"{noun} {' or '.join(found)}" for noun, found in verbs.items()]


def _registered_events(plugin: object) -> list[ClusterEvent]:
    if isinstance(plugin, EnqueueExtensions):
        return [entry.event for entry in plugin.events_to_register()]
    return [ClusterEvent(Kind.WILDCARD, Action.ALL)]


def _event_verbs(event: ClusterEvent) -> list[str]:
    named = [action for action in _VERBS if action in event.action and event.kind is not Kind.WILDCARD]
    is_all_named = named and not event.action & ~reduce(or_, named)
    return [_VERBS[action] for action in named] + ([] if is_all_named else ["changes"])
