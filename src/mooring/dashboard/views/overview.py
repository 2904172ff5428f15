"""Overview: use of resources by node, pending pods, waiting times, and recent changes.

Counts and utilisation are those that `mooring simulate --keep-pending` begins with.
"""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from mooring.advisor.simulate import reports
from mooring.advisor.simulate.html import pictures
from mooring.advisor.simulate.html.markup import Markup, card, concat, figures, legend, table, tag
from mooring.advisor.simulate.results import Moment, ResourceUse
from mooring.api import times
from mooring.api.core_v1 import Node
from mooring.api.states import is_ready
from mooring.base.natural_sort import natural_key
from mooring.constraints.tolerations import DO_NOT_SCHEDULE
from mooring.dashboard.asking import Asked, Fragment, Links, Model, Page
from mooring.dashboard.elements import (
    and_more,
    choice,
    field,
    link,
    options_for,
    scrollable_picture,
    soft,
    text_input,
    unread,
)
from mooring.dashboard.history import Line, Wait
from mooring.dashboard.live_snapshot import LiveSnapshot
from mooring.scheduler.facade import NodeInfo

STATE = "state"
"""What the map shows besides resources."""
ZONE = "topology.kubernetes.io/zone"
_WITHOUT = "(no such label)"
_MOST_GROUPS = 60
_OFFERED = 20
_NAMED_SIDE, _MAX_LETTERS = 72, 9
"""Squares of this side or larger carry the end of their node's name."""
_WAIT_STEPS = ((1.0, "up to 1 s"), (5.0, "1 to 5 s"), (30.0, "5 to 30 s"), (300.0, "30 s to 5 min"))


class Group(Model, frozen=True, kw_only=True):
    """A group of nodes with the same value of a label, with its use of the chosen resource."""

    value: str
    nodes: list[str]
    not_ready: int
    part: float
    """The requested fraction of the chosen resource."""


class Waits(Model, frozen=True, kw_only=True):
    """The times, in seconds, for which the last pods waited for their nodes."""

    pods: int
    median: float
    p90: float
    longest: float
    histogram: list[int]
    per_minute: float
    """Nodes found, over the time in which these pods got theirs."""


class Overview(Model, frozen=True, kw_only=True):
    """The content of the overview page."""

    origin: str
    read_at: str
    nodes: int
    ready: int
    cordoned: int
    tainted: int
    running: int
    pending: int
    ended: int
    evicted: int
    """Since the dashboard began."""
    bound: int
    by: str
    show: str
    resources: list[str]
    labels: list[str]
    utilisation: list[ResourceUse]
    groups: list[Group]
    waits: Waits | None
    moments: list[Moment]
    evicted_by: list[tuple[float, int]]
    """How many pods had to leave so far, over time."""
    lately: list[Line]
    unread: dict[str, str]
    """For nodes and pods, why the user may not read any, so that their numbers mean nothing."""


class Square(NamedTuple):
    """A node of the map: its colour, tooltip and marks."""

    name: str
    shade: str
    """A class of the style sheet."""
    label: str
    """The tooltip."""
    is_crossed: bool
    is_dotted: bool


def overview(live: LiveSnapshot, by: str = "", show: str = "") -> Overview:
    """Return the content of the page, with the nodes grouped `by` a label and coloured by a resource or by state."""
    infos = [info for name in live.node_names if (info := live.node(name)) is not None]
    use = list(live.usage.total_use())
    resources = [each.resource for each in use]
    labels = _labels(infos)
    by = by or (ZONE if ZONE in labels else "")
    show = show if show in (*resources, STATE) else (resources[0] if resources else STATE)
    history = live.history
    return Overview(
        origin=live.snapshot.origin,
        read_at=live.read_at.isoformat(timespec="seconds"),
        nodes=len(infos),
        ready=sum(is_ready(info.node) for info in infos),
        cordoned=sum(info.node.spec.unschedulable for info in infos),
        tainted=sum(_is_tainted(info.node) for info in infos),
        running=live.running,
        pending=len(live.waiting),
        ended=live.ended,
        evicted=history.evicted,
        bound=history.bound,
        by=by,
        show=show,
        resources=resources,
        labels=labels,
        utilisation=use,
        groups=_groups(live, infos, by, show),
        waits=_waits(list(history.waits)),
        moments=history.moments,
        evicted_by=history.evicted_by,
        lately=list(history.lines)[::-1],
        unread=live.unread,
    )


def _labels(infos: Sequence[NodeInfo]) -> list[str]:
    values: dict[str, set[str]] = {}
    for info in infos:
        for key, value in info.node.metadata.labels.items():
            values.setdefault(key, set()).add(value)
    fitting = [key for key, found in values.items() if 1 < len(found) <= max(len(infos) // 2, 3)]
    return sorted(fitting, key=lambda key: (len(values[key]), key))[:_OFFERED]


def _groups(live: LiveSnapshot, infos: Sequence[NodeInfo], by: str, show: str) -> list[Group]:
    members: dict[str, list[NodeInfo]] = {}
    for info in infos:
        members.setdefault(info.node.metadata.labels.get(by, _WITHOUT) if by else "", []).append(info)
    usage = live.usage
    made = []
    for value in sorted(members, key=natural_key):
        found = members[value]
        rows = [usage.rows[info.name] for info in found]
        part = 0.0
        if show in usage.allocatable:
            total = float(usage.allocatable[show][rows].sum())
            part = round(float(usage.requested[show][rows].sum()) / total, 4) if total else 0.0
        names = [info.name for info in found]
        not_ready = sum(not is_ready(info.node) for info in found)
        made.append(Group(value=value, nodes=names, not_ready=not_ready, part=part))
    return made


def _is_tainted(node: Node) -> bool:
    return any(taint.effect in DO_NOT_SCHEDULE for taint in node.spec.taints)


def _waits(found: list[Wait]) -> Waits | None:
    if not found:
        return None
    seconds = sorted(each.seconds for each in found)
    counts = Counter(
        next((i for i, (most, _) in enumerate(_WAIT_STEPS) if s <= most), len(_WAIT_STEPS)) for s in seconds
    )
    first, last = min(each.at for each in found), max(each.at for each in found)
    minutes = max((_seconds(last) - _seconds(first)) / 60, 1 / 60)
    return Waits(
        pods=len(seconds),
        median=_part(seconds, 0.5),
        p90=_part(seconds, 0.9),
        longest=seconds[-1],
        histogram=[counts[index] for index in range(len(_WAIT_STEPS) + 1)],
        per_minute=round(len(seconds) / minutes, 1),
    )


def _part(ordered: Sequence[float], part: float) -> float:
    return round(ordered[min(int(len(ordered) * part), len(ordered) - 1)], 3)


def _seconds(text: str) -> float:
    return times.parse(text).timestamp()


# -- the page


async def page(asked: Asked) -> Page:
    """Answer `/?by=LABEL&show=RESOURCE`: the overview page."""
    by, show = asked.value("by"), asked.value("show")
    model, drawn = await asked.cluster.ask(lambda live: _drawn(live, by, show))
    room = concat(_chooser(model, asked.links), drawn)
    if "nodes" in model.unread:
        room = unread("nodes", model.unread["nodes"])
    body = concat(
        _figures(model, asked.links),
        card("Where is room, and where not?", room, id="map"),
        tag("div", _resources(model), _scheduler(model), class_="pair"),
        _over_time(model, asked),
        _lately(model, asked.links),
    )
    return Page("How is the cluster?", body, model, "overview")


async def squares(asked: Asked) -> Fragment:
    """Answer `/map`: the node names and tooltips of the map as data, by group."""
    by, show = asked.value("by"), asked.value("show")

    def label(live: LiveSnapshot) -> list[list[tuple[str, str]]]:
        model = overview(live, by, show)
        return [[(each.name, each.label) for each in _squares(live, group, model.show)] for group in model.groups]

    return Fragment(Markup(""), await asked.cluster.ask(label))


def _drawn(live: LiveSnapshot, by: str, show: str) -> tuple[Overview, Markup]:
    model = overview(live, by, show)
    steps = ((12, 72), (60, 30), (300, 20), (1200, 14), (3000, 10))
    side = next((side for most, side in steps if model.nodes <= most), 8)
    blocks = []
    for index, group in enumerate(model.groups[:_MOST_GROUPS]):
        part = "" if model.show == STATE else f", {group.part:.0%} of {model.show} requested"
        broken = f", {group.not_ready} not ready" if group.not_ready else ""
        title = f"{group.value or 'all nodes'}: {len(group.nodes):,} nodes{part}{broken}"
        drawn = _draw_group(title, _squares(live, group, model.show), side, index)
        blocks.append(tag("figure", tag("figcaption", title), drawn))
    more = and_more(len(model.groups) - _MOST_GROUPS, " groups: choose a label with fewer values")
    pieces = tag("div", *blocks, class_="maps", id="node-map", data_live="", data_by=model.by, data_show=model.show)
    return model, concat(pieces, more, _map_legend(model.show))


def _squares(live: LiveSnapshot, group: Group, show: str) -> list[Square]:
    usage, made = live.usage, []
    parts = usage.fractions(show) if show in usage.allocatable else None
    for name in group.nodes:
        info = live.node(name)
        if info is None:
            continue
        node, ready = info.node, is_ready(info.node)
        state = "ready" if ready else "not ready"
        words = [state, *(("cordoned",) if node.spec.unschedulable else ())]
        if parts is None:
            shade = (
                "s-bad"
                if not ready
                else "s-off"
                if node.spec.unschedulable
                else "s-taint"
                if _is_tainted(node)
                else "s-ok"
            )
            words += [f"{len(node.spec.taints)} taints"] if node.spec.taints else []
        else:
            part = float(parts[usage.rows[name]])
            shade = pictures.shade_of(part)
            words = [f"{part:.0%} of {show}", *(word for word in words if word != "ready")]
        made.append(Square(name, shade, ", ".join(words), not ready, node.spec.unschedulable))
    return made


def _draw_group(title: str, squares: Sequence[Square], side: int, index: int) -> Markup:
    """Draw a group of nodes as compact SVG: a square for each node, and a path for each colour.

    A cross marks nodes that are not ready and a dot those that are cordoned, so that colours are not all there is.
    """
    columns = min(max(math.ceil(math.sqrt(len(squares) * 2)), 4), max(1040 // side, 1))
    rows = max(math.ceil(len(squares) / columns), 1)
    inner, marks, dots = side - max(side // 8, 1), [], []
    paths: dict[str, list[str]] = {}
    for place, square in enumerate(squares):
        x, y = place % columns * side, place // columns * side
        paths.setdefault(square.shade, []).append(f"M{x} {y}h{inner}v{inner}h-{inner}z")
        if square.is_crossed:
            marks.append(f"M{x} {y}l{inner} {inner}M{x + inner} {y}l-{inner} {inner}")
        elif square.is_dotted:
            half, size = inner // 2, max(inner // 4, 2)
            dots.append(f"M{x + half - size // 2} {y + half - size // 2}h{size}v{size}h-{size}z")
    drawn = [tag("path", class_=shade, d="".join(pieces)) for shade, pieces in sorted(paths.items())]
    for place, square in enumerate(squares if side >= _NAMED_SIDE else ()):
        x, y = place % columns * side + inner // 2, place // columns * side + inner // 2
        name = square.name if len(square.name) <= _MAX_LETTERS else f"…{square.name[1 - _MAX_LETTERS :]}"
        drawn.append(tag("text", name, x=x, y=y, class_="name"))
    drawn += [tag("path", class_="cross", d="".join(marks))] if marks else []
    drawn += [tag("path", class_="dot", d="".join(dots))] if dots else []
    width, height = columns * side, rows * side
    return tag(
        "svg",
        *drawn,
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        role="img",
        aria_label=title,
        class_="map",
        data_group=index,
        data_columns=columns,
        data_side=side,
    )


def _map_legend(show: str) -> Markup:
    marks = [("", "✕ not ready"), ("", "▪ cordoned")]
    if show == STATE:
        names = (("s-ok", "ready"), ("s-taint", "ready, with taints"), ("s-off", "cordoned"), ("s-bad", "not ready"))
        return legend([*names, *marks])
    steps = [(f"h{index}", f"{index * 10}-{index * 10 + 10}%") for index in range(10)]
    return legend([*steps, ("over", "more than there is"), *marks])


def _chooser(model: Overview, links: Links) -> Markup:
    shows = [*((name, f"requested {name}") for name in model.resources), (STATE, "readiness and taints")]
    return tag(
        "form",
        field("Grouped by the label", text_input("by", model.by, list="labels", placeholder="not grouped")),
        options_for("labels", model.labels),
        field("Coloured by", choice("show", shows, model.show)),
        tag("button", "Show", type="submit"),
        link(links.to("nodes"), "as a list"),
        class_="chooser",
        method="get",
        action=links.to(),
        data_auto="",
    )


def _figures(model: Overview, links: Links) -> Markup:
    pending = link(links.to("pending"), "pending: why?") if model.pending else "pending"
    not_ready = model.nodes - model.ready
    of_pods: list[tuple[object, int, str]] = [
        ("pods with a node", model.running, ""),
        (pending, model.pending, "bad" if model.pending else "good"),
        ("evicted since you look", model.evicted, "bad" if model.evicted else ""),
    ]
    of_nodes: list[tuple[object, int, str]] = [
        ("nodes", model.nodes, ""),
        ("not ready", not_ready, "bad" if not_ready else ""),
        ("cordoned", model.cordoned, ""),
        ("tainted", model.tainted, ""),
    ]
    shown: list[tuple[object, int | None, str]] = []
    for plural, found in (("pods", of_pods), ("nodes", of_nodes)):
        shown += [(what, None, "") for what, _, _ in found] if plural in model.unread else found
    return tag("div", figures(shown), id="figures", data_live="")


def _resources(model: Overview) -> Markup:
    title = "How much is requested?"
    if "nodes" in model.unread:
        return card(title, unread("nodes", model.unread["nodes"]), id="resources", data_live="")
    rows = [
        (
            each.resource,
            reports.format_amount(each.resource, each.requested),
            reports.format_amount(each.resource, each.allocatable),
            f"{each.fraction:.1%}",
            f"{each.nodes.least:.0%} / {each.nodes.median:.0%} / {each.nodes.most:.0%}",
        )
        for each in model.utilisation
    ]
    head = ("Resource", "Requested", "Allocatable", "Share", "Nodes: least / median / most")
    drawn = pictures.draw_histogram(None, model.utilisation[0]) if model.utilisation else Markup("")
    return card(title, table(head, rows), scrollable_picture(drawn, "Nodes by use"), id="resources", data_live="")


def _scheduler(model: Overview) -> Markup:
    waits = model.waits
    if "pods" in model.unread:
        label: object = unread("pods", model.unread["pods"])
    elif waits is None:
        label = soft("No pod says when it was created and when it got its node.")
    else:
        labels = [*(text for _, text in _WAIT_STEPS), "longer"]
        label = concat(
            soft(
                f"The last {waits.pods:,} pods that got a node waited {waits.median:g} s (median), "
                f"{waits.p90:g} s (90%), {waits.longest:g} s (longest). "
                f"In that time {waits.per_minute:g} pods got a node a minute. "
                "Timestamps of objects are precise to the second."
            ),
            table(("Waited", "Pods"), zip(labels, waits.histogram, strict=True)),
        )
    return card("How fast are pods placed?", label, id="scheduler", data_live="")


def _over_time(model: Overview, asked: Asked) -> Markup:
    if not asked.cluster.access.is_live or "pods" in model.unread:
        return Markup("")
    moments = model.moments
    drawn = pictures.draw_timeline(moments, moments[-1].at if moments else 0.0, model.evicted_by)
    key = legend([*pictures.PODS_LEGEND, ("evicted", "had to leave so far (dotted line)")])
    label = soft(f"Since this dashboard began: {model.bound:,} pods got a node, {model.evicted:,} had to leave theirs.")
    return card("Pods over time", label, scrollable_picture(drawn, "Pods over time"), key, id="over-time", data_live="")


def _lately(model: Overview, links: Links) -> Markup:
    rows = []
    for line in model.lately:
        address = links.node(line.name) if line.kind == "node" else links.pod(line.name) if line.kind == "pod" else ""
        rows.append((tag("time", line.at, datetime=line.at), link(address, line.text) if address else line.text))
    label = table(("When", "What"), rows, "What changed lately") if rows else soft("No object has a timestamp.")
    return card("What changed lately?", label, id="lately", data_live="")
