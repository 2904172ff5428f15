"""Nodes: the list of nodes; and one node with its pods, its taints, and the pods that a changed taint would evict.

What a changed taint would do is computed by the rules of eviction, at once, so that a slider can ask; the pods that it
names are those that `mooring simulate --taint` evicts. Nothing is written; with `--allow-changes` there are buttons
that ask for it (``changes.py``).
"""

from collections import Counter
from collections.abc import Sequence

from msgspec import structs

from mooring.advisor.explain.view import full_name
from mooring.advisor.node_facts import format_taint
from mooring.advisor.simulate import reports
from mooring.advisor.simulate.html.markup import Markup, card, concat, table, tag
from mooring.advisor.simulate.scenario_file import EFFECTS
from mooring.api.core_v1 import Taint
from mooring.api.states import is_ready, priority
from mooring.base.natural_sort import natural_key
from mooring.constraints.annotations import without_bridge
from mooring.constraints.tolerations import NO_EXECUTE, parse_canonical_int64, permitted_stay, tolerates
from mooring.dashboard.asking import Asked, Fragment, Links, Model, NotFoundError, Page
from mooring.dashboard.elements import (
    and_more,
    badge,
    bar,
    change_button,
    change_form,
    choice,
    chooser,
    field,
    found_table,
    node_link,
    of_page,
    pager,
    pod_link,
    soft,
    text_input,
)
from mooring.dashboard.live_snapshot import LiveSnapshot
from mooring.dashboard.views.pods import shown_toleration
from mooring.scheduler.facade import NodeInfo

_COLUMNS = 3
"""Resources of the list besides pods."""
_SHOWN = 200
_MARGIN = 10


class Amount(Model, frozen=True, kw_only=True):
    """The capacity of a resource on a node, and the requested amount."""

    resource: str
    requested: float
    allocatable: float
    part: float


class ListedNode(Model, frozen=True, kw_only=True):
    """A node in the list of nodes: its state, taints and use."""

    name: str
    ready: bool
    cordoned: bool
    taints: list[str]
    amounts: list[Amount]


class PlacedPod(Model, frozen=True, kw_only=True):
    """A pod on the node, with its priority and requests."""

    name: str
    priority: int
    requests: dict[str, float]


class NodeTaint(Model, frozen=True, kw_only=True):
    """A taint of the node, with the pods of the cluster that tolerate it."""

    taint: str
    key: str
    value: str
    effect: str
    tolerated_by: dict[str, int]
    """Pods with a node, by the toleration that matches."""
    number: int | None = None
    """The value of the taint if it is a number: where a slider starts."""
    least: int = 0
    most: int = 0
    """The range of the slider: the numbers that tolerations name, and some beyond."""


class NodeView(Model, frozen=True, kw_only=True):
    """The content of the page of a node."""

    name: str
    ready: bool
    cordoned: bool
    labels: dict[str, str]
    amounts: list[Amount]
    pods: list[PlacedPod]
    taints: list[NodeTaint]


class LeavingPod(Model, frozen=True, kw_only=True):
    """A pod that a changed taint would evict."""

    pod: str
    after: int
    """In seconds: 0 for at once."""
    because: str
    already: bool
    """Whether it has to go as things are, too."""


class Eviction(Model, frozen=True, kw_only=True):
    """The pods of a node that a changed taint would evict."""

    node: str
    taint: str
    pods: int
    leaving: list[LeavingPod]


def list_nodes(live: LiveSnapshot, contains: str = "", sort: str = "", label: str = "") -> list[ListedNode]:
    """Return the nodes whose name contains a text and that have a label (`key` or `key=value`), sorted."""
    key, _, value = label.partition("=")
    found = []
    for name in live.node_names:
        info = live.node(name)
        labels = info.node.metadata.labels if info is not None else {}
        if info is None or contains not in name or (key and (key not in labels or (value and labels[key] != value))):
            continue
        found.append(_summarize_node(live, info))
    if sort:
        parts = {each.name: next((a.part for a in each.amounts if a.resource == sort), -1.0) for each in found}
        found.sort(key=lambda each: -parts[each.name])
    return found


def _summarize_node(live: LiveSnapshot, info: NodeInfo) -> ListedNode:
    node = info.node
    return ListedNode(
        name=info.name,
        ready=is_ready(node),
        cordoned=node.spec.unschedulable,
        taints=[format_taint(each) for each in node.spec.taints],
        amounts=_amounts(live, info.name),
    )


def _amounts(live: LiveSnapshot, name: str) -> list[Amount]:
    usage = live.usage
    row, parts = usage.rows[name], usage.use_of_node(name)
    return [
        Amount(
            resource=resource,
            requested=float(usage.requested[resource][row]),
            allocatable=float(usage.allocatable[resource][row]),
            part=part,
        )
        for resource, part in parts.items()
    ]


def node_view(live: LiveSnapshot, name: str) -> NodeView:
    """Return the model of a node's page. Raise `NotFoundError`."""
    info = _info(live, name)
    node = info.node
    pods = sorted(info.placed.values(), key=lambda each: natural_key(each.pod.metadata.name))
    return NodeView(
        name=name,
        ready=is_ready(node),
        cordoned=node.spec.unschedulable,
        labels=dict(sorted(node.metadata.labels.items())),
        amounts=_amounts(live, name),
        pods=[
            PlacedPod(
                name=full_name(each.pod),
                priority=priority(each.pod),
                requests={
                    resource: amount / 1000 if resource == "cpu" else float(amount)
                    for resource, amount in each.signature.requests.items()
                    if amount
                },
            )
            for each in pods
        ],
        taints=[_taint(live, info, taint) for taint in node.spec.taints],
    )


def _info(live: LiveSnapshot, name: str) -> NodeInfo:
    info = live.node(name)
    if info is None:
        if why := live.snapshot.why_unread("nodes"):
            raise NotFoundError(f"your rights do not let you read nodes: {why}")
        near = [each for each in live.node_names if name and name in each][:5]
        hint = f": there is {', '.join(near)}" if near else ""
        raise NotFoundError(f"there is no node {name}{hint}")
    return info


def _taint(live: LiveSnapshot, own: NodeInfo, taint: Taint) -> NodeTaint:
    options = live.settings.features.constraints
    by_shape: dict[int, str] = {}
    counted: Counter[str] = Counter()
    for info in live.engine.cluster.node_infos():
        for placed in info.placed.values():
            key = id(placed.signature)
            if key not in by_shape:
                matching = (each for each in placed.pod.spec.tolerations if tolerates(each, taint, options))
                first = next(matching, None)
                by_shape[key] = shown_toleration(first) if first is not None else ""
            if by_shape[key]:
                counted[by_shape[key]] += 1
    number = parse_canonical_int64(taint.value)
    tolerations = (each for pod in own.pods for each in pod.spec.tolerations)
    bounds = [each.value for each in tolerations if each.key == taint.key and each.operator in ("Gt", "Lt")]
    numbers = [found for text in (taint.value, *bounds) if (found := parse_canonical_int64(text)) is not None]
    return NodeTaint(
        taint=format_taint(taint),
        key=taint.key,
        value=taint.value,
        effect=taint.effect,
        tolerated_by=dict(counted.most_common()),
        number=number,
        least=min(numbers, default=0) - _MARGIN,
        most=max(numbers, default=0) + _MARGIN,
    )


def eviction(live: LiveSnapshot, name: str, key: str, value: str, effect: str) -> Eviction:
    """Return the pods that would be evicted if a taint of a node had this value. Raise `NotFoundError`."""
    info = _info(live, name)
    options = live.settings.features.constraints
    changed = Taint(key=key, value=value, effect=effect)
    others = [each for each in info.node.spec.taints if (each.key, each.effect) != (key, effect)]
    leaving = []
    for pod in info.pods:
        tolerations = without_bridge(pod).spec.tolerations
        stay = permitted_stay([*others, changed], tolerations, options)
        if stay.seconds is None:
            continue
        before = permitted_stay(info.node.spec.taints, tolerations, options)
        because = (
            format_taint(structs.replace(changed, value=stay.taint.value, key=stay.taint.key)) if stay.taint else ""
        )
        leaving.append(
            LeavingPod(pod=full_name(pod), after=stay.seconds, because=because, already=before.seconds is not None)
        )
    leaving.sort(key=lambda each: (each.after, natural_key(each.pod)))
    return Eviction(node=name, taint=format_taint(changed), pods=len(info.placed), leaving=leaving)


# -- pages


async def search(asked: Asked) -> Page:
    """Answer `/nodes?q=TEXT&label=KEY=VALUE&sort=RESOURCE`: the list of nodes."""
    text, sort, label = asked.value("q"), asked.value("sort"), asked.value("label")

    def question(live: LiveSnapshot) -> tuple[list[ListedNode], list[str], str]:
        found = list_nodes(live, text, sort, label)
        return found, list(live.usage.allocatable), live.snapshot.why_unread("nodes")

    found, resources, why = await asked.cluster.ask(question)
    shown = found[of_page(asked, found)]
    columns = [*[each for each in resources if each != "pods"][:_COLUMNS], *(["pods"] if "pods" in resources else [])]
    rows = [_line(each, columns, asked.links) for each in shown]
    form = chooser(
        field("Name contains", text_input("q", text, type="search")),
        field("Label, as key or key=value", text_input("label", label)),
        field("The fullest first, by", choice("sort", [("", "name"), *((each, each) for each in resources)], sort)),
        action=asked.links.to("nodes"),
        role="search",
    )
    head = ("Node", *(f"{each}: requested / allocatable" for each in columns), "State", "Taints")
    grid = tag("div", found_table(head, rows, "nodes", why), id="found", data_live="")
    kept = {"q": text, "sort": sort, "label": label}
    body = concat(form, grid, pager(asked, ("nodes",), len(found), kept))
    return Page("Which node?", body, {"nodes": len(found), "found": shown}, "nodes")


def _line(each: ListedNode, columns: Sequence[str], links: Links) -> list[object]:
    amounts = {amount.resource: amount for amount in each.amounts}
    cells: list[object] = [node_link(links, each.name)]
    for resource in columns:
        amount = amounts.get(resource)
        cells.append(bar(amount.part, _share(amount)) if amount is not None else "-")
    taints = ", ".join(each.taints[:3]) + (f" and {len(each.taints) - 3} more" if len(each.taints) > 3 else "")
    return [*cells, _state(each.ready, each.cordoned), taints or "-"]


def _share(amount: Amount) -> str:
    label = (reports.format_amount(amount.resource, value) for value in (amount.requested, amount.allocatable))
    return f"{' / '.join(label)} ({amount.part:.0%})"


def _state(ready: bool, cordoned: bool) -> Markup:
    state = badge("ready", "good") if ready else badge("not ready", "bad")
    return concat(state, " ", badge("cordoned", "warn")) if cordoned else state


async def page(asked: Asked) -> Page:
    """Answer `/nodes/NAME`: the page of a node."""
    (name,) = asked.path
    model = await asked.cluster.ask(lambda live: node_view(live, name))
    labels = [tag("li", f"{key}={value}" if value else key) for key, value in model.labels.items()]
    rows = [(each.resource, bar(each.part, _share(each))) for each in model.amounts]
    what = "uncordon" if model.cordoned else "cordon"
    cordon = change_form(asked.links, f"{what.capitalize()} …", f"{what} node {name}", what=what, node=name)
    body = concat(
        tag(
            "div",
            tag("div", _state(model.ready, model.cordoned), cordon, class_="chooser"),
            card("How full is it?", table(("Resource", "Requested / allocatable"), rows)),
            id="full",
            data_live="",
        ),
        card("Who would have to go?", _question(model, asked.links), id="question", data_live=""),
        tag(
            "div",
            *(_render_tolerations(model.name, each, asked.links) for each in model.taints),
            id="tolerated",
            data_live="",
        ),
        _pods(model, asked.links),
        card("Labels", tag("ul", *labels, class_="labels") if labels else soft("None."), id="labels", data_live=""),
    )
    return Page(f"Node {name}: what is on it, and who could be?", body, model, "nodes")


def _question(model: NodeView, links: Links) -> Markup:
    label = soft("Change a value and see which pods would be evicted. It is computed, not done: nothing is written.")
    forms = [
        _slider(model.name, each, index, links) for index, each in enumerate(model.taints) if each.effect == NO_EXECUTE
    ]
    others = [each.taint for each in model.taints if each.effect != NO_EXECUTE]
    rest = soft(f"{', '.join(others)}: only NoExecute evicts; these decide who may come.") if others else ""
    return concat(label, *forms, rest, _new_taint(model.name, links))


def _slider(node: str, taint: NodeTaint, index: int, links: Links) -> Markup:
    controls = field("Value", text_input("value", taint.value, id=f"value-{index}", data_twin=f"slider-{index}"))
    if taint.number is not None:
        controls = concat(
            tag("label", tag("span", f"{taint.key} between {taint.least} and {taint.most}"),
                tag("input", type="range", min=taint.least, max=taint.most, value=taint.number, id=f"slider-{index}",
                    data_twin=f"value-{index}"), class_="field wide"),
            controls,
        )  # fmt: skip
    fields = (
        tag("h3", tag("code", taint.taint)),
        controls,
        tag("input", type="hidden", name="key", value=taint.key),
        tag("input", type="hidden", name="effect", value=taint.effect),
    )
    return _eviction_form(node, links, fields, "Set this value …", f"effect-{index}", data_typing="")


def _eviction_form(
    node: str, links: Links, fields: Sequence[Markup], change: str, place: str, **attributes: object
) -> Markup:
    """Return a form for a taint, and the element for the pods it would evict; `change` labels the second button."""
    form = tag(
        "form",
        *fields,
        tag("input", type="hidden", name="node", value=node) if links.changing else "",
        tag("button", "Who would go?", type="submit"),
        change_button(links, change, "taint"),
        class_="chooser",
        method="get",
        action=links.to("nodes", node, "eviction"),
        data_into=place,
        **attributes,
    )
    return concat(form, tag("div", id=place, aria_live="polite"))


def _new_taint(node: str, links: Links) -> Markup:
    fields = (
        tag("h3", "Another taint"),
        field("Key", text_input("key", "", required="")),
        field("Value", text_input("value", "")),
        field("Effect", choice("effect", ((each, each) for each in EFFECTS), NO_EXECUTE))
        if links.changing
        else tag("input", type="hidden", name="effect", value=NO_EXECUTE),
    )
    return _eviction_form(node, links, fields, "Add this taint …", "effect-new")


async def show_evictions(asked: Asked) -> Fragment:
    """Answer `/nodes/NAME/eviction?key=K&value=V&effect=NoExecute`: the pods that the taint would evict."""
    (name,) = asked.path
    key, value, effect = asked.value("key"), asked.value("value"), asked.value("effect", NO_EXECUTE)
    model = await asked.cluster.ask(lambda live: eviction(live, name, key, value, effect))
    new = [each for each in model.leaving if not each.already]
    label = (
        f"With {model.taint} {len(model.leaving):,} of {model.pods:,} pods would have to go, "
        f"{len(new):,} of them that may stay as things are."
    )
    rows = [
        (
            pod_link(asked.links, each.pod),
            "at once" if each.after == 0 else f"after {each.after} s",
            tag("code", each.because),
            "as things are, too" if each.already else "",
        )
        for each in model.leaving[:_SHOWN]
    ]
    rest = and_more(len(model.leaving) - _SHOWN)
    grid = table(("Pod", "When", "Because of", "Otherwise"), rows, "Pods that would go") if rows else ""
    return Fragment(concat(tag("p", tag("b", label)), grid, rest), model)


def _render_tolerations(node: str, taint: NodeTaint, links: Links) -> Markup:
    rows = [(tag("code", by), f"{number:,}") for by, number in taint.tolerated_by.items()]
    grid = table(("Tolerated by", "Pods with a node"), rows) if rows else soft("No pod that has a node tolerates it.")
    label = f"take the taint {taint.taint} from node {node}"
    fields = {"what": "untaint", "node": node, "key": taint.key, "effect": taint.effect}
    return card(f"Who tolerates {taint.taint}?", grid, change_form(links, "Take the taint away …", label, **fields))


def _pods(model: NodeView, links: Links) -> Markup:
    resources = list(dict.fromkeys(name for each in model.pods for name in each.requests))[:4]
    rows = [
        (
            pod_link(links, each.name),
            each.priority,
            *(reports.format_amount(name, each.requests[name]) if name in each.requests else "-" for name in resources),
        )
        for each in model.pods[:_SHOWN]
    ]
    grid = found_table(("Pod", "Priority", *resources), rows, "pods", "")
    rest = and_more(len(model.pods) - _SHOWN)
    return card(f"{len(model.pods):,} pods on it", tag("div", grid, rest, id="pods", data_live=""))
