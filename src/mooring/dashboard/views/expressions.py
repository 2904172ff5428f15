"""Expressions: a playground for CEL and version ranges against the cluster's nodes and taints.

What is wrong stands below the place where it is wrong; type, estimate and limit are those of `mooring cel`; and every
node that does not match has its reason, nodes with the same values together.
"""

from mooring.advisor.expressions import ExpressionOutcome, evaluate_on_nodes, evaluate_on_taints, find_objections
from mooring.advisor.simulate.html.markup import Markup, card, concat, table, tag
from mooring.api.core_v1 import Node
from mooring.cel.tracing import format_value
from mooring.constraints.celenv import COST_LIMIT, NODE, TAINT
from mooring.constraints.semver import SemverError, parse_range
from mooring.dashboard import elements, options
from mooring.dashboard.asking import Asked, BadRequestError, Fragment, Model, Page
from mooring.dashboard.live_snapshot import LiveSnapshot
from mooring.dashboard.views.versions import running_of

KINDS = (
    ("node", "CEL about a node (node affinity)"),
    ("taint", "CEL about a taint (tolerations)"),
    ("semver", "a range of versions of a label"),
)
_EXAMPLES = {
    "node": "'kernel' in node.labels && semver.compare(node.labels['kernel'], '>=6.0')",
    "taint": "taint.key == 'sla' && int(taint.value) > 950",
    "semver": ">=5.10 <7 || 8.x",
}
_LONGEST = 10_000
_SHOWN = 30
_NAMED = 5


class Issue(Model, frozen=True, kw_only=True):
    """An error in an expression, and its position."""

    line: int
    column: int
    message: str


class ExpressionResult(Model, frozen=True, kw_only=True):
    """The result of checking an expression and evaluating it on nodes or taints."""

    expression: str
    """What was compiled: a range of versions is a call of `semver.compare`."""
    valid: bool
    issues: tuple[Issue, ...] = ()
    problems: tuple[str, ...] = ()
    """Why the server would refuse what compiles."""
    type: str = ""
    min_cost: int = 0
    max_cost: int = 0
    cost_limit: int = COST_LIMIT
    matches: int = 0
    total: int = 0
    of: str = "nodes"
    """What it was tried on: `nodes` or `taints`."""
    outcomes: tuple[ExpressionOutcome, ...] = ()
    nodes_unread: str = ""
    """Why the user may not read any node, so that it was tried on none."""


async def page(asked: Asked) -> Page:
    """Answer `/expressions?kind=node&expression=…&key=LABEL`: the form for expressions."""
    kind = asked.value("kind", "node")
    kind = kind if kind in _EXAMPLES else "node"
    text = asked.value("expression") or _EXAMPLES[kind]
    labels = await asked.cluster.ask(_labels)
    named = dict(KINDS)
    examples = [
        tag(
            "li",
            elements.link(asked.links.to("expressions", kind=name, expression=example, key="kernel"), example),
            f": {named[name]}",
        )
        for name, example in _EXAMPLES.items()
    ]
    body = concat(
        tag(
            "form",
            tag(
                "div",
                elements.field("What is it?", elements.choice("kind", KINDS, kind)),
                elements.field(
                    "Label, for a range", elements.text_input("key", asked.value("key", "kernel"), list="label-keys")
                ),
                elements.options_for("label-keys", labels),
                class_="chooser",
            ),
            tag("label", tag("span", "Expression or range", class_="soft"),
                tag("textarea", text, name="expression", rows="4", spellcheck="false", maxlength=_LONGEST)),
            tag("p", tag("button", "Try it", type="submit", class_="main")),
            method="get",
            action=asked.links.to("expressions", "try"),
            data_into="tried",
            data_typing="",
            data_auto="",
            data_address=asked.links.to("expressions"),
        ),
        tag("div", (await try_expression(asked)).body if asked.value("expression") else "", id="tried",
            aria_live="polite", data_live=""),
        card("Examples", tag("ul", *examples)),
    )  # fmt: skip
    return Page("Which nodes does an expression match?", body, {"kind": kind, "expression": text}, "expressions")


def _labels(live: LiveSnapshot) -> list[str]:
    return sorted({key for info in live.engine.cluster.node_infos() for key in info.node.metadata.labels})[:200]


async def try_expression(asked: Asked) -> Fragment:
    """Answer `/expressions/try`: type, cost and errors of an expression, and the nodes or taints where it is true."""
    kind, text = asked.value("kind", "node"), asked.value("expression")
    if kind not in _EXAMPLES:
        raise BadRequestError(f"there is no kind {kind!r} of expression: there are {', '.join(_EXAMPLES)}")
    if len(text) > _LONGEST:
        raise BadRequestError(f"an expression may have {_LONGEST} characters here")
    if kind == "semver":
        try:
            parse_range(text)
        except SemverError as error:
            model = _wrong(text, [Issue(line=1, column=1, message=str(error))])
            return Fragment(_render_result(model, asked), model)
        text = f"semver.compare(node.labels[{format_value(asked.value('key'))}], {format_value(text)})"
    program = options.compile_new(running_of(asked), TAINT if kind == "taint" else NODE, text)
    if program.issues:
        found = [Issue(line=each.line, column=each.column, message=each.message) for each in program.issues]
        model = _wrong(text, found)
        return Fragment(_render_result(model, asked), model)
    problems = list(find_objections(program))
    try_on = evaluate_on_taints if kind == "taint" else evaluate_on_nodes
    snapshot = await asked.cluster.ask(lambda live: live.snapshot)
    outcomes = await asked.cluster.ask(lambda _: try_on(program, snapshot.all(Node)))
    model = ExpressionResult(
        expression=text,
        valid=not problems,
        problems=tuple(problems),
        type=str(program.output_type),
        min_cost=program.min_cost,
        max_cost=program.max_cost,
        matches=sum(each.count for each in outcomes if each.matches),
        total=sum(each.count for each in outcomes),
        of="taints" if kind == "taint" else "nodes",
        outcomes=tuple(outcomes),
        nodes_unread=snapshot.why_unread("nodes"),
    )
    return Fragment(_render_result(model, asked), model)


def _wrong(text: str, issues: list[Issue]) -> ExpressionResult:
    return ExpressionResult(expression=text, valid=False, issues=tuple(issues))


def _render_result(model: ExpressionResult, asked: Asked) -> Markup:
    if model.issues:
        made = [_issue(model.expression, each) for each in model.issues[:_SHOWN]]
        return card("It would not be accepted", *made)
    verdict = elements.badge("accepted", "good") if model.valid else elements.badge("refused", "bad")
    cost = f"type {model.type}, estimated cost {model.min_cost:,} to {model.max_cost:,} of {model.cost_limit:,}"
    costs = [each.cost for each in model.outcomes if each.cost is not None]
    real = f"; here it costs at most {max(costs):,}" if costs else ""
    held = f"It holds on {model.matches:,} of {model.total:,} {model.of}"
    return card(
        held if not model.nodes_unread else "Where it holds cannot be said",
        elements.unread("nodes", model.nodes_unread) if model.nodes_unread else "",
        tag("p", verdict, " ", cost, real),
        *(tag("p", problem) for problem in model.problems),
        elements.command(model.expression),
        _outcomes(model, asked),
    )


def _issue(text: str, issue: Issue) -> Markup:
    lines = text.split("\n")
    line = lines[issue.line - 1] if 0 < issue.line <= len(lines) else ""
    mark = " " * max(issue.column - 1, 0) + "^"
    return concat(
        tag("p", tag("b", issue.message), elements.soft(f"line {issue.line}, column {issue.column}")),
        tag("pre", f"{line}\n{mark}", class_="error-line"),
    )


def _outcomes(model: ExpressionResult, asked: Asked) -> Markup:
    rows = [
        (
            f"{each.count:,}",
            elements.badge("matches", "good") if each.matches else elements.badge("no", "bad"),
            each.why or "-",
            _names(each, asked),
        )
        for each in model.outcomes[:_SHOWN]
    ]
    more = elements.and_more(len(model.outcomes) - _SHOWN, " outcomes")
    return concat(table(("Number", "Matches?", "Why not", "Which"), rows, "Where it holds") if rows else "", more)


def _names(each: ExpressionOutcome, asked: Asked) -> Markup:
    made = []
    for name in each.names[:_NAMED]:
        node, _, taint = name.partition(" ")
        made.append(concat(elements.node_link(asked.links, node), f" {taint}" if taint else ""))
    rest = f" and {len(each.names) - _NAMED:,} more" if len(each.names) > _NAMED else ""
    return concat(Markup(", ").join_markup(made), rest)
