"""Format a plan as text for a terminal, and as Markdown for a pull-request comment."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mooring.advisor.plan.planning import Action, Cost, ObjectChange, Plan, WorkloadPlacement
from mooring.api.quoting import one_line

if TYPE_CHECKING:
    from mooring.advisor.audit.reports import Paint, Tone

_SIGNS: "dict[Action, tuple[str, Tone]]" = {
    "create": ("+", "good"),
    "change": ("~", "title"),
    "unchanged": ("=", "quiet"),
    "refused": ("!", "bad"),
}
_MOST_FIELDS = 20
_MOST_CHARACTERS = 80


def format_headline(plan: Plan) -> str:
    """Return the result of the plan in a sentence."""
    counts = {action: sum(each.action == action for each in plan.changes) for action in _SIGNS}
    texts = [f"{count} {action}" for action, count in counts.items() if count]
    outcome = ("nothing to change", "everything fits", "it does not fit or is refused")[plan.exit_code]
    return f"{', '.join(texts) or 'no objects'}: {outcome}"


def format_lines(plan: Plan, paint: "Paint", *, wide: bool = False) -> Iterator[str]:
    """Yield the lines of the plan for a terminal."""
    for each in plan.changes:
        if each.action != "unchanged" or wide:
            yield from _change_lines(each, paint)
    for title, rows in _report_sections(plan):
        yield ""
        yield paint(title, "title")
        yield from (f"  {one_line(row)}" for row in rows)
    yield ""
    yield paint(one_line(format_headline(plan)), "bad" if plan.exit_code == 2 else "good")


def format_markdown(plan: Plan) -> str:
    """Return the plan as Markdown."""
    parts = [f"## Plan: {format_headline(plan)}", "", "```diff"]
    for each in plan.changes:
        if each.action != "unchanged":
            parts += [text.replace("```", "` ` `") for text in _change_lines(each, lambda text, _tone: text)]
    parts.append("```")
    for title, rows in _report_sections(plan):
        parts += ["", f"### {title}", *(f"- {one_line(row).replace('<', '&lt;')}" for row in rows)]
    return "\n".join(parts) + "\n"


def _change_lines(change: ObjectChange, paint: "Paint") -> Iterator[str]:
    sign, tone = _SIGNS[change.action]
    yield paint(one_line(f"{sign} {change.kind} {change.name}"), tone)
    if change.message:
        yield f"    {one_line(change.message)}"
    for field in change.fields[:_MOST_FIELDS]:
        yield one_line(f"    {field.path}: {_shortened_json(field.old)} -> {_shortened_json(field.new)}")
    if len(change.fields) > _MOST_FIELDS:
        yield f"    and {len(change.fields) - _MOST_FIELDS} more fields"


def _report_sections(plan: Plan) -> Iterator[tuple[str, list[str]]]:
    """Yield the title and the lines of each section of the report that has content."""
    pools = "Pools" if any(each.fits for each in plan.pools) else "No pool can make a node for this pod"
    sections = {
        "Where new pods go": map(_format_placement, plan.placements),
        "Pods that do not fit": (f"{each.count} of {', '.join(each.owners)}: {each.message}" for each in plan.pending),
        pools: (f"{each.pool}: {'fits' if each.fits else '; '.join(each.reasons)}" for each in plan.pools),
        "Pods that are refused": (f"{each.count} of {each.name}: {each.message}" for each in plan.rejected),
        "Pods that are preempted": (f"{each.pod} on {each.node}, by {each.by}" for each in plan.preempted),
        "Requested resources": map(_format_cost, plan.cost),
    }
    for title, found in sections.items():
        if rows := list(found):
            yield title, rows


def _format_placement(each: WorkloadPlacement) -> str:
    shown = ", ".join(f"{node} ({count})" for node, count in list(each.nodes.items())[:5])
    more = f" and {len(each.nodes) - 5} more nodes" if len(each.nodes) > 5 else ""
    return f"{each.workload}: {each.pods} on {shown}{more}"


def _format_cost(each: Cost) -> str:
    change = each.after - each.before
    share = f", {each.after / each.allocatable:.0%} of what there is" if each.allocatable else ""
    return f"{each.resource}: {change:+,.6g} (now {each.before:,.6g}, then {each.after:,.6g}{share})"


def _shortened_json(value: object) -> str:
    text = "absent" if value is None else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 3]}..."
