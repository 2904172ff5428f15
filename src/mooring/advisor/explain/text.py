"""Format explanations as text: of one workload (`format_lines`), and of everything that does not run (`format_causes`).

`format_lines` marks parts with a style, which the command line turns into colours.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from mooring.advisor.explain.overview import Overview
from mooring.advisor.explain.results import PROBLEMS, NodeScore, Refusal, SchedulingExplanation, Suggestion
from mooring.api.quoting import one_line

Style = Callable[[str, str], str]
"""A function that styles a text for the terminal as `title`, `good`, `bad`, `quiet` or `command`."""
_NAMED = 3
_GROUPS = 20
_LONGEST_COMMAND = 300
"""The maximum length of a command in the overview; those that create a node or a volume may be longer."""


def leave_plain(text: str, _style: str) -> str:
    return text


def format_lines(
    found: SchedulingExplanation, *, wide: bool = False, verbose: bool = False, style: Style = leave_plain
) -> Iterator[str]:
    """Yield the explanation line by line.

    `wide` lists every node, `verbose` adds kube-scheduler's message. Control characters, which
    a dump may contain, are escaped.
    """
    found = msgspec.convert(_escape_tree(msgspec.to_builtins(found)), SchedulingExplanation)
    yield _format_headline(found, style)
    for fact in found.facts:
        yield style(f"  ({fact})", "quiet")
    if (wide or verbose) and found.message:
        yield style(f"  (kube-scheduler's message: {found.message})", "quiet")
    reported = found.summary.removeprefix("the scheduler reports: ")
    for words in found.words if found.state in PROBLEMS and reported == found.summary else ():
        yield style(f"  (the cluster reports: {words})", "quiet")
    if found.refusals and found.state != "Scheduled":
        yield ""
        yield style("Why not", "title")
        yield from _node_lines(found) if wide else _refusal_lines(found.refusals)
    if found.preemption is not None and found.preemption.node:
        yield ""
        yield style("What the scheduler does", "title")
        for victim in found.preemption.victims:
            name = f"{victim.namespace}/{victim.name}"
            yield f"  deletes {name} (priority {victim.priority}) on {found.preemption.node}"
    if found.suggestions:
        yield ""
        yield style("What would help (each was tried)", "title")
        for number, suggestion in enumerate(found.suggestions, 1):
            yield from _suggestion_lines(number, suggestion, style)
    elif found.checks:
        yield ""
        yield style("What to check (nothing was tried)", "title")
        for check in found.checks:
            yield f"  - {check}"
    elif found.state in ("Unschedulable", "NotAttempted") and found.refusals:
        yield ""
        yield "No change of up to three steps was found that would help."
    if found.scores:
        yield ""
        yield style("Scores by plugin", "title")
        yield from _score_lines(found.scores)
    if found.release:
        yield style(f"  (by the rules of Kubernetes {found.release}; --emulation-version chooses others)", "quiet")


def _format_headline(found: SchedulingExplanation, style: Style) -> str:
    tone = "bad" if found.state in PROBLEMS else "good"
    has_count = found.state in PROBLEMS and found.pods and found.wanted > 1
    count = f" ({found.pods} of {found.wanted} pods)" if has_count else ""
    return f"{style(str(found.subject), 'title')}: {style(found.summary, tone)}{count}"


def _refusal_lines(refusals: Sequence[Refusal]) -> Iterator[str]:
    rows = []
    for each in refusals[:_GROUPS]:
        named = ", ".join(each.nodes[:_NAMED]) + (", …" if len(each.nodes) > _NAMED else "")
        rows.append([f"{each.count} node{'s' if each.count != 1 else ''}", each.plugin, f"{each.detail} [{named}]"])
    yield from align_columns(rows)
    left = refusals[_GROUPS:]
    if left:
        number = sum(each.count for each in left)
        yield f"  and {len(left)} more reasons on {number} nodes: see -o wide"


def _node_lines(found: SchedulingExplanation) -> Iterator[str]:
    rows = [["NODE", "PLUGIN", "REASON", "ALSO REFUSED BY"]]
    for each in found.nodes:
        also = ", ".join(each.also_refused_by) or "-"
        rows.append([each.node, each.plugin or "-", each.detail if not each.feasible else "fits", also])
    yield from align_columns(rows)


def _suggestion_lines(
    number: int, suggestion: Suggestion, style: Style, subject: str = "", *, longest: int = 0
) -> Iterator[str]:
    """Yield a suggestion with its commands; for a creating command above `longest` characters, only the object."""
    yield f"{number:>3}. {suggestion.summary}{subject}"
    yield style(f"     {format_effect(suggestion)}", "quiet")
    for change in suggestion.changes:
        if change.object is not None and 0 < longest < len(change.command):
            yield style(f"     creates {change.target} (-v prints the command)", "quiet")
        elif change.command:
            yield style(f"     $ {change.command}", "command")
    if suggestion.caveat:
        yield style(f"     but: {suggestion.caveat}", "quiet")


def format_effect(suggestion: Suggestion) -> str:
    """Return the verified effect of a suggestion as text: the pod's node, and how many of the workload's pods run."""
    parts = []
    if suggestion.wanted:
        parts.append(f"helps {suggestion.helps} of {suggestion.wanted}")
    elif suggestion.node:
        parts.append("tried for one pod")
    if suggestion.node:
        choice = f", one of {suggestion.feasible_nodes} nodes that fit" if suggestion.feasible_nodes > 1 else ""
        parts.append(f"a pod goes to {suggestion.node}{choice}")
    return "; ".join(parts) or "not tried: it counts from the next run on"


def _score_lines(scores: Sequence[NodeScore]) -> Iterator[str]:
    plugins = dict.fromkeys(name for each in scores for name, points in each.scores.items() if points)
    rows = [["PLUGIN", *(each.node for each in scores)]]
    rows += [[plugin, *(str(each.scores.get(plugin, 0)) for each in scores)] for plugin in plugins]
    rows.append(["total", *(str(each.total) for each in scores)])
    yield from align_columns(rows)


def align_columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield each row as a line of text, with the cells aligned in columns."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _escape_tree(tree: Any) -> Any:
    match tree:
        case str():
            return one_line(tree)
        case dict():
            return {one_line(name): _escape_tree(value) for name, value in tree.items()}
        case list():
            return [_escape_tree(value) for value in tree]
    return tree


# -- everything that does not run


def format_causes(found: Overview, *, verbose: bool = False, style: Style = leave_plain) -> Iterator[str]:
    """Yield the number of pods that do not run, and a numbered paragraph for each group with its cause and members."""
    if not found.groups:
        where = f"namespace {found.namespace} of {found.origin}" if found.namespace else found.origin
        every = "every pod that was read" if found.notes else "every pod"
        yield style(f"{every} of {where} runs{'; -A looks at all namespaces' if found.namespace else ''}", "good")
    else:
        pods = "1 pod does" if found.pods == 1 else f"{found.pods:,} pods do"
        of = "1 workload" if found.owners == 1 else f"{found.owners:,} workloads"
        where = f", on {found.nodes:,} nodes" if found.nodes else ""
        yield style(f"{pods} not run, of {of}{where}", "title")
    for note in found.notes:
        yield style(f"  ({one_line(note)})", "quiet")
    for number, group in enumerate(found.groups, 1):
        pods = "1 pod" if group.pods == 1 else f"{group.pods:,} pods"
        named = [f"{each} ({each.pods})" if each.pods > 1 else str(each) for each in group.members[:_NAMED]]
        more = f" and {group.owners - _NAMED} more" if group.owners > _NAMED else ""
        yield f"{number:>3}. {style(pods, 'bad')}: {one_line(group.summary)}"
        yield style(f"     {one_line(', '.join(named) + more)}", "quiet")
        if verbose and group.message:
            yield style(f"     kube-scheduler's message: {one_line(group.message)}", "quiet")
    if found.left_out:
        yield f"     and {found.left_out:,} pods for other causes: see -n and --owner"


def format_remedies(found: Overview, *, verbose: bool = False, style: Style = leave_plain) -> Iterator[str]:
    """Yield the first verified remedy of each group, with the group's number; long commands only if `verbose`."""
    found = msgspec.convert(_escape_tree(msgspec.to_builtins(found)), Overview)
    if any(group.remedy is not None for group in found.groups):
        yield ""
        yield style("What would help (each was tried)", "title")
    for number, group in enumerate(found.groups, 1):
        if group.remedy is None:
            continue
        first = f" [{group.members[0]}]" if group.owners > 1 else ""
        longest = 0 if verbose else _LONGEST_COMMAND
        yield from _suggestion_lines(number, group.remedy, style, first, longest=longest)
    checks = [(number, group.check) for number, group in enumerate(found.groups, 1) if group.check and not group.remedy]
    if checks:
        yield ""
        yield style("What to check (nothing was tried)", "title")
        yield from (f"{number:>3}. {check}" for number, check in checks)
    if found.groups:
        yield ""
        yield style("`mooring explain KIND NAMESPACE/NAME` says more about each workload.", "quiet")
    if found.release:
        yield style(f"(by the rules of Kubernetes {found.release}; --emulation-version chooses others)", "quiet")
