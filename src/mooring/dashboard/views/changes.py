"""Changes: what a button would change, shown before it is done, and the result.

These addresses exist only with `--allow-changes`, and ask for the header that only own pages know (``gate.py``). What
is written, and how it is kept to what was shown, is in ``changing.py``.
"""

from collections.abc import Callable, Mapping

from mooring.advisor.explain import NotThereError
from mooring.advisor.simulate.html.markup import Markup, concat, tag
from mooring.api.core_v1 import Node, Pod
from mooring.constraints.tolerations import NO_EXECUTE
from mooring.dashboard import changing
from mooring.dashboard.asking import Asked, BadRequestError, Fragment, Model, NotFoundError
from mooring.dashboard.changing import Outcome, Proposal
from mooring.dashboard.elements import CONFIRMATION, notice, soft
from mooring.dashboard.live_snapshot import LiveSnapshot
from mooring.dashboard.views.nodes import eviction


class ProposedChange(Model, frozen=True, kw_only=True):
    """The content of the page that shows a proposed change."""

    name: str
    """To confirm it with."""
    summary: str
    objects: list[str]
    commands: list[str]
    caveat: str


class ExecutedChange(Model, frozen=True, kw_only=True):
    """The content of the page that shows an executed change."""

    commands: list[str]
    problem: str
    """Why not all of it, in the API server's words."""


async def propose(asked: Asked) -> Fragment:
    """Answer `POST /changes`: show the change that a button requests, and ask for confirmation."""
    make = _MADE.get(asked.value("what"))
    if make is None:
        raise BadRequestError(f"there is no change {asked.value('what')!r}: there are {', '.join(_MADE)}")
    proposal = await asked.cluster.ask(lambda live: make(live, asked))
    model = ProposedChange(
        name=asked.cluster.proposals.remember(proposal),
        summary=proposal.summary,
        objects=[str(change.target) for change in proposal.changes],
        commands=[change.command for change in proposal.changes],
        caveat=proposal.caveat,
    )
    return Fragment(_question(model, asked), model)


async def carry_out(asked: Asked) -> Fragment:
    """Answer `POST /changes/NAME`: make the change that was shown and confirmed."""
    (name,) = asked.path
    cluster = asked.cluster
    proposal = cluster.proposals.pop(name)
    if proposal is None:
        raise NotFoundError("nothing was done: this change was made already, or is forgotten; look again")
    if cluster.client is None:
        raise BadRequestError("there is no cluster here to change")
    outcome = await changing.carry_out(cluster.client, proposal)
    if outcome.done:
        await cluster.record(*_line(proposal, outcome))
    commands = [change.command for change in outcome.done]
    return Fragment(_answer(proposal, outcome), ExecutedChange(commands=commands, problem=outcome.problem))


def _line(proposal: Proposal, outcome: Outcome) -> tuple[str, str, str]:
    target = outcome.done[0].target
    kind = target.kind.lower() if target.kind in ("Node", "Pod") and outcome.done[0].action != "delete" else ""
    name = f"{target.namespace}/{target.name}" if target.namespace else target.name
    part = "" if not outcome.problem else f" (only {len(outcome.done)} of {len(proposal.changes)} steps)"
    return f"from this dashboard: {proposal.summary}{part}", kind, name


# -- proposals


def _node(live: LiveSnapshot, asked: Asked) -> Node:
    info = live.node(asked.value("node"))
    if info is None:
        raise NotFoundError(f"there is no node {asked.value('node')} any more")
    return info.node


def _taint(live: LiveSnapshot, asked: Asked) -> Proposal:
    key, value, effect = (asked.value(name).strip() for name in ("key", "value", "effect"))
    if not key or not effect:
        raise BadRequestError("name the key and the effect of the taint")
    node = _node(live, asked)
    caveat = ""
    if effect == NO_EXECUTE:
        leaving = [each for each in eviction(live, node.metadata.name, key, value, effect).leaving if not each.already]
        caveat = f"{len(leaving):,} pods that may stay as things are would have to go" if leaving else ""
    return changing.taint(node, key, value, effect, caveat)


def _delete_pod(live: LiveSnapshot, asked: Asked) -> Proposal:
    namespace, name = asked.value("namespace"), asked.value("name")
    pod = live.snapshot.find(Pod, namespace, name)
    if pod is None:
        raise NotFoundError(f"there is no pod {namespace}/{name} any more")
    return changing.delete_pod(pod)


def _suggestion(live: LiveSnapshot, asked: Asked) -> Proposal:
    kind, namespace, name = asked.value("kind", "pod"), asked.value("namespace"), asked.value("name")
    try:
        found = live.explain(kind, namespace, name)
    except NotThereError as error:
        raise NotFoundError(str(error)) from error
    for each in found.suggestions:
        if each.summary == asked.value("summary") and changing.takes_one_step(each):
            return changing.propose_suggestion(live.snapshot, each)
    raise NotFoundError("as things are now, this is not suggested any more: look again")


_MADE: Mapping[str, Callable[[LiveSnapshot, Asked], Proposal]] = {
    "suggestion": _suggestion,
    "cordon": lambda live, asked: changing.cordon(_node(live, asked), wanted=True),
    "uncordon": lambda live, asked: changing.cordon(_node(live, asked), wanted=False),
    "taint": _taint,
    "untaint": lambda live, asked: changing.untaint(_node(live, asked), asked.value("key"), asked.value("effect")),
    "delete-pod": _delete_pod,
}
"""By the name that a form gives."""


# -- what people see


def _question(model: ProposedChange, asked: Asked) -> Markup:
    shown = [
        tag("li", obj, tag("div", tag("code", command), class_="command"))
        for obj, command in zip(model.objects, model.commands, strict=True)
    ]
    return concat(
        tag("h2", f"Really {model.summary}?"),
        soft("It is done to ", asked.cluster.access.origin, " with your credentials, and is what these commands do:"),
        tag("ul", *shown),
        tag("p", tag("b", "But: "), model.caveat, ".") if model.caveat else "",
        tag("form", tag("button", "Do it", type="submit", class_="main"), method="post",
            action=asked.links.to("changes", model.name), data_into=CONFIRMATION),
    )  # fmt: skip


def _answer(proposal: Proposal, outcome: Outcome) -> Markup:
    done = [tag("li", tag("code", change.command)) for change in outcome.done]
    title = "Done" if not outcome.problem else "That was refused" if not done else "Only a part was done"
    return concat(
        tag("h2", title),
        notice(outcome.problem) if outcome.problem else tag("p", f"{proposal.summary}."),
        tag("ul", *done) if done else "",
    )
