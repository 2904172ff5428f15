"""An upgrade check as text for a terminal and as Markdown for a pull request or a runbook."""

from collections.abc import Iterable, Iterator

from mooring.advisor.audit.reports import Paint, format_steps
from mooring.advisor.lint.reports import one_line
from mooring.advisor.lint.rules import Severity
from mooring.advisor.releases import ReleaseAudit
from mooring.advisor.simulate.clock import format_seconds
from mooring.advisor.simulate.reports import text_table
from mooring.advisor.upgrade.results import Rollout, UpgradeCheck

_MOST_ROWS = 10
Row = tuple[str, ...]
Table = tuple[Row, list[Row]]


def format_headline(result: UpgradeCheck) -> str:
    """Return the verdict in a sentence."""
    drained = result.rollout
    drains = f"; {len(drained.nodes)} nodes in {format_seconds(drained.seconds)}" if drained else ""
    return f"{result.from_version} to {result.to_version}: {result.verdict}{drains}"


def format_lines(result: UpgradeCheck, paint: Paint, *, wide: bool = False) -> Iterator[str]:
    """Yield the lines of the report for a terminal: the verdict, the changes to make before, then details."""
    text = one_line(f"{result.cluster}, {format_headline(result)}")
    yield paint(text, "good" if result.verdict == "passes" else "bad")
    yield from (f"  - {one_line(reason)}" for reason in result.reasons)
    for title, (header, rows) in build_tables(result):
        yield ""
        yield paint(title, "title")
        shown = rows if wide else rows[:_MOST_ROWS]
        yield from (f"  {line}" for line in text_table(header, shown, gap="  "))
        if len(rows) > len(shown):
            yield paint(f"  and {len(rows) - len(shown)} more (-o wide)", "quiet")
    yield from format_steps(result.steps, paint)
    yield ""
    yield from (paint(f"Assumed: {each}", "quiet") for each in result.assumptions)


def format_markdown(result: UpgradeCheck) -> str:
    """Return the report of an upgrade check as Markdown."""
    parts = [
        f"## Upgrade check: {format_headline(result)}",
        *(f"- {_escape_cell(reason)}" for reason in result.reasons),
        "",
    ]
    for title, (header, rows) in build_tables(result):
        parts += [f"### {title}", "| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
        parts += ["| " + " | ".join(_escape_cell(value) for value in row) + " |" for row in rows[: 5 * _MOST_ROWS]]
        parts += [f"\n{len(rows) - 5 * _MOST_ROWS} more rows are left out.", ""] if len(rows) > 5 * _MOST_ROWS else [""]
    if result.steps:
        parts += ["### Steps", *_markdown_steps(result), ""]
    parts += [f"*Assumed: {each}.*" for each in result.assumptions]
    return "\n".join(parts) + "\n"


def build_tables(result: UpgradeCheck) -> Iterator[tuple[str, Table]]:
    """Yield the non-empty tables of the report, with their titles."""
    for title, header, rows in _every_table(result):
        if rows:
            yield title, (header, rows)


def _every_table(result: UpgradeCheck) -> Iterator[tuple[str, Row, list[Row]]]:
    rows: list[Row] = [
        (each.problem, each.command, each.effect, "verified" if each.is_verified else "") for each in result.remedies
    ]
    yield "Change before the upgrade", ("Problem", "Command", "Effect", "Played"), rows
    for audit, title in ((result.up, "After the upgrade"), (result.back, "On the way back"), (result.helm, "Helm")):
        if audit is not None:
            yield title, ("Severity", "Object", "Field", "What happens"), _finding_rows(audit)
    rows = [(each.release, each.kubelet, str(len(each.nodes)), each.problem) for each in result.skew]
    yield "Kubelets on the way", ("API server", "Kubelet", "Nodes", "Problem"), rows
    if result.rollout is not None:
        yield from _rollout_tables(result.rollout)
    rows = [(each.pod, each.node, each.problem, each.command) for each in result.local_data]
    yield "Local data", ("Pod", "Node", "Problem", "Needs"), rows


def _rollout_tables(rollout: Rollout) -> Iterator[tuple[str, Row, list[Row]]]:
    rows: list[Row] = [(each.node, each.pod, each.message) for each in rollout.blocks if each.is_final]
    yield "Drains that do not end", ("Node", "Pod", "Why"), rows
    waits = [each for each in rollout.blocks if not each.is_final]
    rows = [(each.node, each.pod, format_seconds(each.seconds), each.message) for each in waits]
    yield "Drains that wait for a budget", ("Node", "Pod", "For", "Why"), rows
    rows = [(each.workload, str(each.pods), each.message) for each in rollout.pending]
    yield "Pods without a node at the end", ("Workload", "Pods", "Why"), rows
    rows = [(each.workload, str(each.pods), format_seconds(each.seconds or 0)) for each in rollout.delayed]
    yield "Pods that wait for a node meanwhile", ("Workload", "Pods", "Up to"), rows
    rows = [(each.workload, str(each.times), _format_duration(each.longest_seconds)) for each in rollout.interruptions]
    yield "Workloads without a ready pod meanwhile", ("Workload", "Times", "Down up to"), rows
    rows = [
        (
            each.node,
            each.pool,
            format_seconds(each.started),
            "not drained" if each.drained is None else format_seconds(each.drained - each.started),
            str(each.evicted),
        )
        for each in rollout.nodes
    ]
    yield "Nodes", ("Node", "Pool", "Starts at", "Drain takes", "Pods moved"), rows
    rows = [
        (format_seconds(each.at), each.pod, each.owner, each.node, each.to or "(pending)") for each in rollout.moves
    ]
    yield "Pods that move", ("At", "Pod", "Of", "From", "To"), rows


def _format_duration(seconds: float | None) -> str:
    return "not again" if seconds is None else format_seconds(seconds)


def _finding_rows(audit: ReleaseAudit) -> list[Row]:
    """Return the table rows of errors and warnings; objects that differ only in name share a row."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for each in sorted(audit.findings, key=lambda each: -each.level):
        if each.level is not Severity.INFO:
            key = (str(each.level), each.field, each.message, each.object.kind)
            place = f" ({each.object.file}:{each.object.line})" if each.object.file else ""
            rows.setdefault(key, []).append(f"{each.object}{place}")
    return [
        (level, objects[0] + (f" and {len(objects) - 1} more" if len(objects) > 1 else ""), field, message)
        for (level, field, message, _), objects in rows.items()
    ]


def _markdown_steps(result: UpgradeCheck) -> Iterable[str]:
    for number, step in enumerate(result.steps, 1):
        yield f"{number}. {_escape_cell(step.title)}" + (f" ({_escape_cell(step.because)})" if step.because else "")
        for command in step.commands:
            yield f"   - `{command.run}`" + (f": {_escape_cell(command.why)}" if command.why else "")
        if step.rollback:
            yield f"   - *back*: {_escape_cell(step.rollback)}"


def _escape_cell(text: str) -> str:
    return one_line(text).replace("|", "\\|").replace("<", "&lt;")
