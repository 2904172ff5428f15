"""An explanation as text: the cause, which plugin refuses which nodes, what would help, which node wins.

`lines` marks parts with a style, which the command line turns into colours.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from mooring.advisor.explain.results import PROBLEMS, NodeScore, Refusal, SchedulingExplanation, Suggestion
from mooring.api.quoting import one_line

Style = Callable[[str, str], str]
"""Text and a style: `title`, `good`, `bad`, `quiet` or `command`."""
_NAMED = 3
_GROUPS = 20


def plain(text: str, _style: str) -> str:
    return text


def lines(
    found: SchedulingExplanation, *, wide: bool = False, verbose: bool = False, style: Style = plain
) -> Iterator[str]:
    """Yield the explanation line by line.

    `wide` names every node, `verbose` adds kube-scheduler's message. A dump may contain control characters: see
    `_printable`.
    """
    found = msgspec.convert(_printable(msgspec.to_builtins(found)), SchedulingExplanation)
    yield _headline(found, style)
    for fact in found.facts:
        yield style(f"  ({fact})", "quiet")
    if (wide or verbose) and found.message:
        yield style(f"  (kube-scheduler's message: {found.message})", "quiet")
    for words in found.words if found.state in PROBLEMS else ():
        yield style(f"  (the cluster reports: {words})", "quiet")
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
        yield style("Scores by plugin", "title")
        yield from _score_lines(found.scores)
    if found.release:
        yield style(f"  (by the rules of Kubernetes {found.release}; --emulation-version chooses others)", "quiet")


def _headline(found: SchedulingExplanation, style: Style) -> str:
    tone = "bad" if found.state in PROBLEMS else "good"
    of = f" ({found.pods} of {found.wanted} pods)" if found.state in PROBLEMS and found.wanted > 1 else ""
    return f"{style(str(found.subject), 'title')}: {style(found.summary, tone)}{of}"


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
        rows.append([each.node, each.plugin or "-", each.detail if not each.feasible else "fits", also])
    yield from columns(rows)


def _suggestion_lines(number: int, suggestion: Suggestion, style: Style) -> Iterator[str]:
    yield f"  {number}. {suggestion.summary}"
    yield style(f"     {effect_of(suggestion)}", "quiet")
    for change in suggestion.changes:
        if change.command:
            yield style(f"     $ {change.command}", "command")
    if suggestion.caveat:
        yield style(f"     but: {suggestion.caveat}", "quiet")


def effect_of(suggestion: Suggestion) -> str:
    """Return what was verified: where the pod goes, and how many pods of the workload run then."""
    parts = []
    if suggestion.wanted:
        parts.append(f"helps {suggestion.helps} of {suggestion.wanted}")
    elif suggestion.node:
        parts.append("tried for one pod")
    if suggestion.node:
        choice = f", one of {suggestion.feasible_nodes} nodes that fit" if suggestion.feasible_nodes > 1 else ""
        parts.append(f"a pod goes to {suggestion.node}{choice}")
    return "; ".join(parts) or "counts from the next run on"


def _score_lines(scores: Sequence[NodeScore]) -> Iterator[str]:
    plugins = dict.fromkeys(name for each in scores for name, points in each.scores.items() if points)
    rows = [["PLUGIN", *(each.node for each in scores)]]
    rows += [[plugin, *(str(each.scores.get(plugin, 0)) for each in scores)] for plugin in plugins]
    rows.append(["total", *(str(each.total) for each in scores)])
    yield from columns(rows)


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Align the cells of rows."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _printable(tree: Any) -> Any:
    match tree:
        case str():
            return one_line(tree)
        case dict():
            return {one_line(name): _printable(value) for name, value in tree.items()}
        case list():
            return [_printable(value) for value in tree]
    return tree
