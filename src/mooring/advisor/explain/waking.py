"""Describe the events that would wake a pending pod: those registered by the plugins that rejected it."""

from collections.abc import Iterable, Iterator

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
_CHANGES = "changes"


def wakers(profile: Profile, plugins: Iterable[str]) -> list[str]:
    """Describe the events after which rejected pods are retried, by kind: `a node is added or gets other taints`."""
    wanted, verbs = set(plugins), dict[str, dict[str, None]]()
    for plugin in profile.plugins:
        if plugin.name in wanted:
            for event in _events(plugin):
                noun = _NOUNS.get(event.kind, f"a {event.kind.value}")
                verbs.setdefault(noun, {}).update(dict.fromkeys(_verbs(event)))
    return [f"{noun} {' or '.join(found)}" for noun, found in verbs.items()]


def _events(plugin: object) -> Iterator[ClusterEvent]:
    if isinstance(plugin, EnqueueExtensions):
        yield from (entry.event for entry in plugin.events_to_register())
    else:
        yield ClusterEvent(Kind.WILDCARD, Action.ALL)


def _verbs(event: ClusterEvent) -> Iterator[str]:
    if event.kind is Kind.WILDCARD:
        yield _CHANGES
        return
    named = Action(0)
    for action, verb in _VERBS.items():
        if action in event.action:
            named |= action
            yield verb
    if event.action & ~named:
        yield _CHANGES
