"""An explanation for people: a sentence, who refuses which nodes and why, what would help, which node wins.

`lines` gives text with marks of style that the command line turns into colours, or drops.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from mooring.advisor.explain.results import NodeScore, Refusal, SchedulingExplanation, Suggestion
from mooring.api.quoting import one_line

Style = Callable[[str, str], str]
"""Text and a style: `title`, `good`, `bad`, `quiet` or `command`."""
_NAMED = 3
_GROUPS = 20


def plain(text: str, _style: str) -> str:
    return text


def lines(found: SchedulingExplanation, *, wide: bool = False, style: Style = plain) -> Iterator[str]:
    """The explanation, line by line; `wide` names every node. A dump may have anything in it: see `_harmless`."""
    found = msgspec.convert(_harmless(msgspec.to_builtins(found)), SchedulingExplanation)
    tone = "good" if found.state in ("Scheduled", "Schedulable") else "bad"
    yield f"{style(str(found.subject), 'title')}: {style(found.summary, tone)}"
    for fact in found.facts:
        yield style(f"  ({fact})", "quiet")
    if wide and found.message:
        yield style(f"  (kube-scheduler's words: {found.message})", "quiet")
    if found.refusals and found.state != "Scheduled":
        yield ""
        yield style("Why not", "title")
        yield from _node_lines(found) if wide else _refusal_lines(found.refusals)
    if found.preemption is not None and found.preemption.node:
        yield ""
        yield style("What the scheduler does", "title")
        for victim in found.preemption.victims:
            yield (
                f"  deletes {victim.namespace}/{victim.name} (priority {victim.priority}) on {found.preemption.node}"
            )
    if found.suggestions:
        yield ""
        yield style("What would help (each was tried)", "title")
        for number, suggestion in enumerate(found.suggestions, 1):
            yield from _suggestion_lines(number, suggestion, style)
    elif found.state in ("Unschedulable", "NotAttempted") and found.refusals:
        yield ""
        yield "No change of up to three steps was found that would help."
    if found.scores:
        yield ""
        yield style("Points by plugin", "title")
        yield from _score_lines(found.scores)


def _refusal_lines(refusals: Sequence[Refusal]) -> Iterator[str]:
    rows = []
    for each in refusals[:_GROUPS]:
        named = ", ".join(each.nodes[:_NAMED]) + (", …" if len(each.nodes) > _NAMED else "")
        rows.append([f"{each.count} node{'s' if each.count != 1 else ''}", each.plugin, f"{each.detail} [{named}]"])
    yield from columns(rows)
    left = refusals[_GROUPS:]
    if left:
        number = sum(each.count for each in left)
        yield f"  and {len(left)} more reasons on {number} nodes: see -o wide"


def _node_lines(found: SchedulingExplanation) -> Iterator[str]:
    rows = [["NODE", "PLUGIN", "REASON", "ALSO REFUSED BY"]]
    for each in found.nodes:
        also = ", ".join(each.also_refused_by) or "-"
        rows.append([each.node, each.plugin or "-", each.detail if not each.feasible else "would do", also])
    yield from columns(rows)


def _suggestion_lines(number: int, suggestion: Suggestion, style: Style) -> Iterator[str]:
    choice = f", one of {suggestion.feasible_nodes} nodes that could take it" if suggestion.feasible_nodes > 1 else ""
    yield f"  {number}. {suggestion.summary}"
    yield style(f"     then it goes to {suggestion.node}{choice}", "quiet")
    for change in suggestion.changes:
        if change.command:
            yield style(f"     $ {change.command}", "command")
    if suggestion.caveat:
        yield style(f"     but: {suggestion.caveat}", "quiet")


def _score_lines(scores: Sequence[NodeScore]) -> Iterator[str]:
    plugins = dict.fromkeys(name for each in scores for name, points in each.scores.items() if points)
    rows = [["PLUGIN", *(each.node for each in scores)]]
    rows += [[plugin, *(str(each.scores.get(plugin, 0)) for each in scores)] for plugin in plugins]
    rows.append(["total", *(str(each.total) for each in scores)])
    yield from columns(rows)


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows with their cells below each other."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _harmless(tree: Any) -> Any:
    """Without what a terminal would obey; to be done before there are colours."""
    match tree:
        case str():
            return one_line(tree)
        case dict():
            return {one_line(name): _harmless(value) for name, value in tree.items()}
        case list():
            return [_harmless(value) for value in tree]
    return tree
