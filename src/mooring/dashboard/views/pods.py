"""Pods: the list of pods; and one pod with the verdicts of all plugins on all nodes, its tolerations and expressions.

What stands above the matrix is what `mooring explain` prints; the matrix goes on from there, node by node.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from mooring.advisor.explain import NotThereError, SchedulingExplanation, Subject
from mooring.advisor.explain.matrix import Matrix, NodeRow, build_matrix
from mooring.advisor.explain.reasons import explain_near_miss
from mooring.advisor.explain.view import full_name
from mooring.advisor.expressions import taint_variable
from mooring.advisor.node_facts import format_taint
from mooring.advisor.simulate.html.markup import Markup, card, concat, table, tag
from mooring.api.core_v1 import Node, Pod, Taint, Toleration
from mooring.base.natural_sort import natural_key
from mooring.cel import tracing
from mooring.cel.tracing import parts
from mooring.constraints.celenv import NODE, TAINT
from mooring.constraints.node_selector import required_terms
from mooring.constraints.options import ConstraintOptions
from mooring.constraints.tolerations import index_tolerations
from mooring.dashboard import elements
from mooring.dashboard.asking import Asked, Model, NotFoundError, Page
from mooring.dashboard.live_snapshot import LiveSnapshot
from mooring.dashboard.views import explained

_MOST_TAINTS = 60
_MOST_EXPRESSIONS = 20


class ListedPod(Model, frozen=True, kw_only=True):
    """A pod in the list of pods."""

    name: str
    """`namespace/name`."""
    node: str
    phase: str


class Tolerated(Model, frozen=True, kw_only=True):
    """A taint of the cluster, and the toleration of the pod that tolerates it or why none does."""

    taint: str
    nodes: int
    by: str
    """The toleration that matches; empty when none does."""
    why: str
    """Why those that are about the taint do not."""


class Part(Model, frozen=True, kw_only=True):
    """A sub-expression and its value."""

    text: str
    outcome: str
    depth: int


class Expression(Model, frozen=True, kw_only=True):
    """A CEL expression of the pod, evaluated on one node or one of its taints."""

    place: str
    on: str
    parts: list[Part]


class PodView(Model, frozen=True, kw_only=True):
    """The content of the page of a pod."""

    explanation: SchedulingExplanation
    matrix: Matrix
    tolerations: list[str]
    taints: list[Tolerated]
    expressions: list[Expression]
    node: str
    """The node that the expressions are shown for."""
    nodes_unread: str
    """Why the user may not read any node, so that nothing can be said about them."""


def pod_view(
    live: LiveSnapshot, kind: str, namespace: str, name: str, *, part: slice, contains: str, plugin: str, on: str
) -> PodView:
    """Return the content of a pod's page; `part` is the slice of nodes to show. Raise `NotThereError`."""
    found = live.explain(kind, namespace, name)
    subject = live.subject(kind, namespace, name)
    engine, features = live.engine_for(subject)
    options = features.constraints
    has_profile = (subject.pod.spec.scheduler_name or "default-scheduler") in engine.profiles
    table_ = (
        build_matrix(engine, subject, features, part=part, name=contains, plugin=plugin)
        if has_profile
        else Matrix(filters=[], scores=[], rows=[], nodes=0, feasible=0)  # another scheduler decides about the pod
    )
    node = on or found.node or (table_.rows[0].node if table_.rows else "")
    info = live.node(node)
    return PodView(
        explanation=found,
        matrix=table_,
        tolerations=[shown_toleration(each) for each in subject.pod.spec.tolerations],
        taints=_taints(live, subject.pod, options),
        expressions=list(_expressions(subject, info.node)) if info is not None else [],
        node=node,
        nodes_unread=live.snapshot.why_unread("nodes"),
    )


def shown_toleration(each: Toleration) -> str:
    """Describe a toleration in a line: `sla Gt 950 for NoExecute, 30 s`."""
    if each.expression:
        text = each.expression
    elif each.operator == "Exists":
        text = f"{each.key} Exists" if each.key else "every taint"
    else:
        text = f"{each.key} {each.operator or 'Equal'} {each.value}".strip()
    text += f" for {each.effect}" if each.effect else ""
    return f"{text}, {each.toleration_seconds} s" if each.toleration_seconds is not None else text


def _taints(live: LiveSnapshot, pod: Pod, options: ConstraintOptions) -> list[Tolerated]:
    counted: Counter[tuple[str, str, str]] = Counter()
    examples: dict[tuple[str, str, str], Taint] = {}
    for info in live.engine.cluster.node_infos():
        for taint in info.node.spec.taints:
            key = (taint.key, taint.value, taint.effect)
            counted[key] += 1
            examples[key] = taint
    made = []
    index = index_tolerations(pod.spec.tolerations, options)
    for key in sorted(counted, key=lambda each: tuple(map(natural_key, each))):
        taint = examples[key]
        first = index.first_match(taint)
        by = None if first is None else pod.spec.tolerations[first]
        misses = (
            [miss for each in pod.spec.tolerations if (miss := explain_near_miss(each, taint, options))]
            if by is None
            else []
        )
        text = shown_toleration(by) if by is not None else ""
        made.append(Tolerated(taint=format_taint(taint), nodes=counted[key], by=text, why="; ".join(misses)))
    return made


def _expressions(subject: Subject, node: Node) -> Iterator[Expression]:
    spec = subject.pod.spec
    bindings = {"node": {"labels": node.metadata.labels}}
    for number, term in enumerate(required_terms(spec), 1):
        for expression in term.match_cel_expressions[:_MOST_EXPRESSIONS]:
            found = parts(NODE.stored_expressions().compile(expression), bindings)
            yield Expression(place=f"node affinity, term {number}", on=node.metadata.name, parts=_shown_parts(found))
    for toleration in spec.tolerations:
        for taint in node.spec.taints if toleration.expression else ():
            found = parts(TAINT.stored_expressions().compile(toleration.expression), {"taint": taint_variable(taint)})
            yield Expression(place="toleration", on=f"taint {format_taint(taint)}", parts=_shown_parts(found))


def _shown_parts(found: Iterable[tracing.Part]) -> list[Part]:
    return [Part(text=each.text, outcome=each.outcome, depth=each.depth) for each in found]


# -- pages


async def search(asked: Asked) -> Page:
    """Answer `/pods?q=TEXT`: the list of pods whose name contains a text."""
    text = asked.value("q").strip()

    def find_pods(live: LiveSnapshot) -> tuple[list[ListedPod], str]:
        pods = (
            ListedPod(name=full_name(pod), node=pod.spec.node_name, phase=pod.status.phase)
            for pod in live.snapshot.all(Pod)
            if text in full_name(pod)
        )
        return sorted(pods, key=lambda each: (bool(each.node), each.name)), live.snapshot.why_unread("pods")

    pods, why = await asked.cluster.ask(find_pods)
    shown = pods[elements.of_page(asked, pods)]
    rows = [
        (
            elements.pod_link(asked.links, each.name),
            each.phase or "Pending",
            elements.node_link(asked.links, each.node) or "-",
        )
        for each in shown
    ]
    control = elements.field("Namespace or name contains", elements.text_input("q", text, type="search"))
    form = elements.chooser(control, text="Find", action=asked.links.to("pods"), role="search")
    listed = tag("div", elements.found_table(("Pod", "Phase", "Node"), rows, "pods", why), id="found", data_live="")
    body = concat(form, listed, elements.pager(asked, ("pods",), len(pods), {"q": text}))
    return Page("Which pod?", body, {"pods": len(pods), "found": shown}, "pods")


async def page(asked: Asked) -> Page:
    """Answer `/pods/NAMESPACE/NAME`, with `kind=deployment` for a workload: why it has no node or this one."""
    namespace, name = asked.path
    kind = asked.value("kind", "pod")
    at = max(asked.number("page", 1), 1)
    part = slice((at - 1) * elements.PER_PAGE, at * elements.PER_PAGE)

    def question(live: LiveSnapshot) -> PodView:
        return pod_view(
            live,
            kind,
            namespace,
            name,
            part=part,
            contains=asked.value("q"),
            plugin=asked.value("plugin"),
            on=asked.value("on"),
        )

    try:
        model = await asked.cluster.ask(question)
    except NotThereError as error:
        raise NotFoundError(str(error)) from error
    found, links = model.explanation, asked.links
    where = "why does it have no node?" if not found.node else "why is it where it is?"
    body = concat(
        tag("div", explained.summary(found), _deletion(kind, namespace, name, asked), id="summary", data_live=""),
        tag(
            "div",
            card("Why not?", explained.refusals(found, links)) if found.refusals and found.state != "Scheduled" else "",
            _helps(model, asked),
            card("Why this node?", explained.points(found.scores, links)) if found.scores else "",
            id="why",
            data_live="",
        ),
        _matrix(model, asked),
        tag("div", _tolerations(model), id="tolerations", data_live=""),
        tag("div", _values(model, asked), id="values", data_live=""),
    )
    return Page(f"{kind} {namespace}/{name}: {where}", body, model, "pods")


def _deletion(kind: str, namespace: str, name: str, asked: Asked) -> Markup:
    if kind != "pod":
        return Markup("")
    label = f"delete pod {namespace}/{name}"
    return elements.change_form(
        asked.links, "Delete the pod …", label, what="delete-pod", namespace=namespace, name=name
    )


def _helps(model: PodView, asked: Asked) -> Markup:
    found = model.explanation
    made = concat(explained.preemption(found, asked.links), explained.suggestions(found, asked.links))
    return card("What would help?", made) if made else Markup("")


def _matrix(model: PodView, asked: Asked) -> Markup:
    found = model.matrix
    if model.nodes_unread:
        return card("Node by node", elements.unread("nodes", model.nodes_unread))
    kept = {name: asked.value(name) for name in ("q", "plugin", "on", "kind")}
    plugins = [("", "any plugin or none"), *((each, each) for each in found.filters)]
    form = elements.chooser(
        elements.field("Name contains", elements.text_input("q", kept["q"], type="search")),
        elements.field("Refused by", elements.choice("plugin", plugins, kept["plugin"])),
        tag("input", type="hidden", name="kind", value=kept["kind"]) if kept["kind"] else "",
    )
    scored = [each for each in found.scores if any(row.scores.get(each) for row in found.rows)]
    head = ("Node", *found.filters, *scored, "Points") if scored else ("Node", *found.filters)
    rows = [_row(row, found.filters, scored, asked) for row in found.rows]
    label = elements.soft(
        f"{found.feasible:,} of {model.explanation.total_nodes:,} nodes would do. Every plugin that refuses some node "
        "has a column, and so has every one that gives points; ✓ means that it has nothing against the node."
    )
    header = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in head)))
    grid = tag("div", tag("table", header, tag("tbody", *rows)), class_="scroll matrix", tabindex="0", role="group",
               aria_label="Nodes by plugins", id="matrix", data_live="")  # fmt: skip
    path = ("pods", *asked.path)
    return card("Node by node", label, form, grid, elements.pager(asked, path, found.nodes, kept))


def _row(row: NodeRow, filters: Sequence[str], scored: Sequence[str], asked: Asked) -> Markup:
    cells = [tag("th", elements.node_link(asked.links, row.node), scope="row")]
    everywhere = row.refusals.keys() - set(filters)
    for plugin in filters:
        refusal = row.refusals.get(plugin, "")
        cells.append(
            tag("td", f"✗ {refusal}", class_="no") if refusal else tag("td", "-" if everywhere else "✓", class_="yes")
        )
    cells += [tag("td", row.scores.get(plugin, "") if row.feasible else "") for plugin in scored]
    if scored:
        cells.append(tag("td", tag("b", row.total) if row.feasible else ""))
    return tag("tr", *cells)


def _tolerations(model: PodView) -> Markup:
    own = tag("ul", *(tag("li", tag("code", each)) for each in model.tolerations), class_="labels")
    if model.nodes_unread:
        return Markup("")
    if not model.taints:
        return card("Does it tolerate the taints?", elements.soft("No node has a taint."))
    rows = [
        (
            tag("code", each.taint),
            f"{each.nodes:,}",
            elements.badge("tolerated", "good") if each.by else elements.badge("not tolerated", "bad"),
            tag("code", each.by) if each.by else each.why or "no toleration is about it",
        )
        for each in model.taints[:_MOST_TAINTS]
    ]
    more = elements.and_more(len(model.taints) - _MOST_TAINTS, " taints")
    grid = table(("Taint", "Nodes", "Tolerated?", "By what, or why not"), rows, "Taints")
    label = elements.soft("Its tolerations:") if model.tolerations else elements.soft("It has no tolerations.")
    return card("Does it tolerate the taints?", label, own if model.tolerations else "", grid, more)


def _values(model: PodView, asked: Asked) -> Markup:
    if not model.expressions:
        return Markup("")
    cards = []
    for each in model.expressions:
        lines = [
            tag(
                "li",
                tag("code", part.text),
                " is ",
                tag("code", part.outcome, class_="value"),
                class_=f"d{min(part.depth, 5)}",
            )
            for part in each.parts
        ]
        cards.append(concat(tag("h3", f"{each.place}, on {each.on}"), tag("ul", *lines, class_="tree")))
    form = elements.chooser(elements.field("On the node", elements.text_input("on", model.node)))
    node = elements.link(asked.links.node(model.node), model.node)
    return card(
        "What do its expressions come to?",
        elements.soft("Every part with its value, on node ", node, "."),
        form,
        *cards,
    )
