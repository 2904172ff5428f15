"""Changes of the cluster from a page, where `--allow-changes` was given: first shown in full, then made.

A page never says what to write. It names one of a few changes; the dashboard makes a `Proposal` of it, shows the
commands that do the same, and remembers it under a random name. The user who confirms that name gets exactly what was
shown, once, with their own credentials: an object that has changed since is left alone. Made by ``views/changes.py``.
"""

import secrets
import shlex
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mooring.advisor.explain import patches
from mooring.advisor.explain.results import Change, Suggestion, Target
from mooring.advisor.snapshot import Snapshot
from mooring.advisor.snapshot.objects import full_scheme, to_newest
from mooring.api import codec
from mooring.api.base import copy_of
from mooring.api.core_v1 import Node, Pod, Taint
from mooring.api.errors import StatusError
from mooring.api.meta_v1 import Resource
from mooring.api.states import controller_of
from mooring.client import Client, ClientError, PatchType

FIELD_MANAGER = "mooring-dashboard"
_REMEMBERED = 64
_TOGETHER = frozenset({"|", "&&"})


class ChangedMeanwhileError(Exception):
    """An object is not as it was when the change was shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A proposed change, with the objects that it affects."""

    summary: str
    changes: tuple[Change, ...]
    befores: tuple[Resource | None, ...]
    """The objects as they were when the change was shown, in the order of the changes."""
    caveat: str = ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of executing a proposal."""

    done: Sequence[Change]
    problem: str = ""
    """Why the rest was not done, in the API server's words."""


class Proposals:
    """The proposals that were shown and are not confirmed yet, by name."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, Proposal] = OrderedDict()

    def remember(self, proposal: Proposal) -> str:
        name = secrets.token_urlsafe(12)
        self._open[name] = proposal
        while len(self._open) > _REMEMBERED:
            self._open.popitem(last=False)
        return name

    def pop(self, name: str) -> Proposal | None:
        """Remove and return the proposal of a name; None if there is none."""
        return self._open.pop(name, None)


# -- what there is to propose


def takes_one_step(suggestion: Suggestion) -> bool:
    """Return whether each change of a suggestion is one API request; those that need several get no button."""
    return bool(suggestion.changes) and all(
        each.command and (each.action != "patch" or _TOGETHER.isdisjoint(shlex.split(each.command)))
        for each in suggestion.changes
    )


def propose_suggestion(snapshot: Snapshot, suggestion: Suggestion) -> Proposal:
    targets = [change.target for change in suggestion.changes]
    befores = tuple(snapshot.find(_type_of(each), each.namespace, each.name) for each in targets)
    return Proposal(
        summary=suggestion.summary, changes=tuple(suggestion.changes), befores=befores, caveat=suggestion.caveat
    )


def _type_of(target: Target) -> type[Resource]:
    kind = full_scheme().kind(target.api_version, target.kind)
    if kind is None:
        raise LookupError(f"unknown kind: {target.kind} of {target.api_version}")
    return full_scheme().hub(kind).type


def cordon(node: Node, *, wanted: bool) -> Proposal:
    """Return the proposal that cordons a node, or uncordons it if cordoning is not `wanted`."""

    def change(after: Node) -> None:
        after.spec.unschedulable = wanted

    word = "cordon" if wanted else "uncordon"
    caveat = "pods that are on it stay; new ones do not come any more" if wanted else ""
    return _of_node(
        node, f"{word} node {node.metadata.name}", change, patches.kubectl_command(word, node.metadata.name), caveat
    )


def taint(node: Node, key: str, value: str, effect: str, caveat: str = "") -> Proposal:
    """Return the proposal that adds a taint to a node, or changes the value of one that it has."""
    old = next((each for each in node.spec.taints if (each.key, each.effect) == (key, effect)), None)
    made = Taint(key=key, value=value, effect=effect)

    def change(after: Node) -> None:
        after.spec.taints = [made if _is(each, key, effect) else each for each in after.spec.taints]
        after.spec.taints += [made] if old is None else []

    shown = f"{key}={value}:{effect}" if value else f"{key}:{effect}"
    overwrite = ["--overwrite"] if old is not None else []
    command = patches.kubectl_command("taint", "node", node.metadata.name, shown, *overwrite)
    return _of_node(node, f"give node {node.metadata.name} the taint {shown}", change, command, caveat)


def untaint(node: Node, key: str, effect: str) -> Proposal:
    """Return the proposal that removes a taint from a node."""

    def change(after: Node) -> None:
        after.spec.taints = [each for each in after.spec.taints if not _is(each, key, effect)]

    shown = f"{key}:{effect}"
    command = patches.kubectl_command("taint", "node", node.metadata.name, f"{shown}-")
    caveat = "pods that do not tolerate it may come then"
    return _of_node(node, f"take the taint {shown} from node {node.metadata.name}", change, command, caveat)


def _is(taint: Taint, key: str, effect: str) -> bool:
    return (taint.key, taint.effect) == (key, effect)


def _of_node(node: Node, summary: str, change: Callable[[Node], None], command: str, caveat: str) -> Proposal:
    after = copy_of(node)
    change(after)
    made = patches.patch_change(node, after, command)
    return Proposal(summary=summary, changes=(made,), befores=(node,), caveat=caveat)


def delete_pod(pod: Pod) -> Proposal:
    owner = controller_of(pod.metadata)
    caveat = (
        f"{owner.kind} {owner.name} makes another one"
        if owner is not None
        else "no controller creates it again: it is gone for good"
    )
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    return Proposal(summary=f"delete pod {name}", changes=(patches.delete_change(pod),), befores=(pod,), caveat=caveat)


# -- doing it


async def carry_out(client: Client, proposal: Proposal) -> Outcome:
    """Send the changes of a proposal to the API server in order, up to the first that is refused."""
    done: list[Change] = []
    for change, before in zip(proposal.changes, proposal.befores, strict=True):
        try:
            await _make(client, change, before)
        except (StatusError, ClientError, ChangedMeanwhileError) as error:
            return Outcome(done, str(error))
        done.append(change)
    return Outcome(done)


async def _make(client: Client, change: Change, before: Resource | None) -> None:
    target, cls = change.target, _type_of(change.target)
    if change.action == "create":
        made: Any = codec.decode_tree(change.object, cls).object
        await client.create(made, field_manager=FIELD_MANAGER)
        return
    now = await client.get(cls, target.name, target.namespace)
    if before is None or _meant(to_newest(now)) != _meant(before):
        raise ChangedMeanwhileError(f"{target} has changed since this was shown: look again, and decide then")
    meta = now.metadata
    if change.action == "delete":
        await client.delete(cls, target.name, target.namespace, uid=meta.uid)
        return
    unless_changed = {"op": "add", "path": "/metadata/resourceVersion", "value": meta.resource_version}
    body = [*change.patch, unless_changed]
    await client.patch(cls, target.name, body, target.namespace, type=PatchType.JSON, field_manager=FIELD_MANAGER)


def _meant(obj: Resource) -> tuple[Any, ...]:
    meta = obj.metadata
    return meta.uid, meta.labels, meta.annotations, getattr(obj, "spec", None)
