"""Format a result: a table for people, and CSV with a line for every pod. HTML is in ``html/``."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from mooring.advisor.lint.reports import format_count, markdown_cell
from mooring.advisor.simulate.clock import format_seconds
from mooring.advisor.simulate.results import Comparison, Departure, ResourceUse, Simulation
from mooring.api.quoting import one_line

Cells = Sequence[str]
_SHOWN = 20
"""The maximum number of lines of each table; `wide` shows all."""
_BYTES = (("Ei", 2**60), ("Pi", 2**50), ("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))
_IN_BYTES = frozenset({"memory", "ephemeral-storage"})


def format_lines(result: Simulation, *, wide: bool = False) -> Iterator[str]:
    """Yield the lines of the report of a simulation for a terminal, with headings in capitals."""
    return map(one_line, _report_lines(result, wide=wide))


def _report_lines(result: Simulation, *, wide: bool) -> Iterator[str]:
    counts = result.counts
    yield f"Cluster: {result.cluster}. Configuration: {result.configuration}. Seed {result.seed}."
    state = "" if result.is_complete else "INTERRUPTED: this is how far it got. "
    yield (
        f"{state}After {format_seconds(result.seconds)} of virtual time "
        f"{format_count(counts.running, 'pod')} of {counts.pods} run on {format_count(counts.nodes, 'node')}: "
        f"{counts.placed} placed, {counts.pending} pending, {counts.rejected} rejected, "
        f"{counts.preempted} preempted, {counts.evicted} evicted."
    )
    yield ""
    yield from text_table(("RESOURCE", "ALLOCATABLE", "BEFORE", "AFTER", "NODES AFTER"), _format_utilisation(result))
    if result.room is not None:
        yield ""
        fits = f"{result.room.fits} more" if result.room.is_complete else f"at least {result.room.fits} more"
        yield f"ROOM: {fits} of {result.room.workload} fit."
        yield f"  The next one: {result.room.limit}"
    if result.added_nodes:
        yield ""
        rows = [(name, pool, format_seconds(at)) for at, name, pool in result.added_nodes]
        yield from text_table(("ADDED NODES", "POOL", "READY AT"), rows if wide else rows[:_SHOWN])
    yield from _format_pending(result, wide=wide)
    for group in result.rejected:
        yield ""
        yield f"REJECTED: {group.count} of {group.name}"
        yield f"  {group.message}"
    for table in build_pod_tables(result):
        yield from table.lines(wide=wide)
    yield from _format_placements(result, wide=wide)
    if len(result.timeline) > 2:
        yield from _format_timeline(result, wide=wide)
    if result.comparison is not None:
        yield from _format_comparison(result.comparison, wide=wide)


def _format_utilisation(result: Simulation) -> Iterator[Cells]:
    before = {use.resource: use for use in result.utilisation.before}
    for use in result.utilisation.after:
        old = before.get(use.resource)
        spread = use.nodes
        yield (
            use.resource,
            format_amount(use.resource, use.allocatable),
            "-" if old is None else _format_use(old),
            _format_use(use),
            f"{spread.least:.0%} to {spread.most:.0%}, median {spread.median:.0%}",
        )


def _format_use(use: ResourceUse) -> str:
    return f"{format_amount(use.resource, use.requested)} ({use.fraction:.1%})"


def format_amount(resource: str, value: float) -> str:
    """Return an amount of a resource as text in Kubernetes' units, such as `1.5` (cores) or `2Gi` (bytes)."""
    if resource in _IN_BYTES or resource.startswith("hugepages-"):
        for unit, size in _BYTES:
            if value >= size:
                return f"{value / size:.4g}{unit}"
    return f"{value:.10g}" if value < 1e9 else f"{value:.4g}"


def _format_pending(result: Simulation, *, wide: bool) -> Iterator[str]:
    for group in result.pending:
        yield ""
        owners = ", ".join(group.owners[:3]) + (f" and {len(group.owners) - 3} more" if len(group.owners) > 3 else "")
        new = sum(waiting.is_new for waiting in group.pods)
        yield f"PENDING: {format_count(group.count, 'pod')} of {owners}" + (f", {new} of them new" if new else "")
        yield f"  {group.message}"
        if wide:
            yield from (f"    {waiting.pod}{' (new)' if waiting.is_new else ''}" for waiting in group.pods)


class PodTable(NamedTuple):
    """A table with a pod in the first column of each row, for a terminal and for HTML."""

    heading: str
    """The heading of the first column in a terminal."""
    title: str
    """The title of the card in HTML."""
    header: Cells
    """The headings of the other columns."""
    rows: Sequence[Cells]

    def lines(self, *, wide: bool) -> Iterator[str]:
        """Yield the lines of the table for a terminal."""
        return _format_section((self.heading, *map(str.upper, self.header)), self.rows, wide=wide)


def build_pod_tables(result: Simulation) -> Iterator[PodTable]:
    """Yield the tables of the pods that were evicted, preempted, or kept from eviction."""
    for heading, why, found in (("EVICTED", "Cause", result.evicted), ("PREEMPTED", "By", result.preempted)):
        rows = [
            (each.pod, each.node, format_seconds(each.at), each.cause or each.by, _format_replacement(each))
            for each in found
        ]
        yield PodTable(heading, f"{heading.capitalize()} pods", ("From", "At", why, "In its place"), rows)
    blocked = [(each.pod, each.node, each.message) for each in result.blocked]
    yield PodTable("BLOCKED", "Pods that a drain had to leave", ("Node", "Why"), blocked)


def _format_replacement(each: Departure) -> str:
    if not each.replacement:
        return "-"
    return f"{each.replacement} {f'on {each.replacement_node}' if each.replacement_node else '(pending)'}"


def placement_table(result: Simulation) -> PodTable:
    """Return the table of the pods that were placed, with their nodes."""
    rows = [
        (each.pod, each.node, format_seconds(each.at), each.owner or "-", each.replaces or "-")
        for each in result.placements
    ]
    return PodTable("PLACED", "Where pods went", ("Node", "At", "Owner", "In place of"), rows)


def _format_placements(result: Simulation, *, wide: bool) -> Iterator[str]:
    if wide or len(result.placements) <= _SHOWN:
        yield from placement_table(result).lines(wide=True)
        return
    owners: dict[str, list[str]] = {}
    for each in result.placements:
        owners.setdefault(each.owner or each.pod, []).append(each.node)
    rows = [(owner, str(len(nodes)), str(len(set(nodes)))) for owner, nodes in owners.items()]
    yield from _format_section(("PLACED", "PODS", "ON NODES"), rows, wide=wide)
    yield "  -o wide shows where each of them is."


def _format_timeline(result: Simulation, *, wide: bool) -> Iterator[str]:
    rows = [
        (
            format_seconds(moment.at),
            str(moment.running),
            str(moment.pending),
            str(moment.nodes),
            f"{moment.cpu:.1%}",
            f"{moment.memory:.1%}",
            moment.event or "-",
        )
        for moment in result.timeline
        if wide or moment.event or moment is result.timeline[-1]
    ]
    yield from _format_section(("TIME", "RUNNING", "PENDING", "NODES", "CPU", "MEMORY", "EVENT"), rows, wide=wide)


def _format_comparison(found: Comparison, *, wide: bool) -> Iterator[str]:
    yield ""
    yield f"COMPARED WITH {found.other_configuration}: {len(found.elsewhere)} pods elsewhere, {found.same} as before."
    numbers, *pods = comparison_tables(found)
    yield from text_table((numbers.heading, *map(str.upper, numbers.header)), numbers.rows)
    for each in pods:
        yield from each.lines(wide=wide)


def comparison_tables(found: Comparison) -> Iterator[PodTable]:
    """Yield a table of the numbers under both configurations, then the tables of pods that differ."""
    other = {use.resource: use for use in found.other_after}
    rows = [
        (use.resource, _format_use(use), _format_use(there), f"{there.fraction - use.fraction:+.1%}")
        for use in found.after
        if (there := other.get(use.resource)) is not None
    ]
    for name in ("pending", "preempted", "evicted", "rejected"):
        here, there = getattr(found.counts, name), getattr(found.other_counts, name)
        rows.append((name, str(here), str(there), f"{there - here:+d}"))
    yield PodTable("WHAT", "In numbers", ("Here", "There", "Difference"), rows)
    moved = [(each.pod, each.node or "(pending)", each.other_node or "(pending)") for each in found.elsewhere]
    yield PodTable("ELSEWHERE", "Pods that go elsewhere", ("Here", "There"), moved)
    yield PodTable("ONLY HERE", "Pods that exist only here", (), [(pod,) for pod in found.only_here])
    yield PodTable("ONLY THERE", "Pods that exist only there", (), [(pod,) for pod in found.only_there])


def _format_section(header: Cells, rows: Sequence[Cells], *, wide: bool) -> Iterator[str]:
    """Yield an empty line and a table, shortened to some rows unless `wide`; yield nothing if there are no rows."""
    if not rows:
        return
    yield ""
    shown = rows if wide else rows[:_SHOWN]
    yield from text_table(header, shown)
    if len(shown) < len(rows):
        yield f"  and {len(rows) - len(shown)} more; -o wide shows all."


def text_table(header: Cells, rows: Iterable[Cells], gap: str = "   ") -> Iterator[str]:
    """Yield the lines of a table with aligned columns."""
    table = [tuple(header), *(tuple(map(one_line, row)) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    for row in table:
        yield gap.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


_COLUMNS = ("pod", "owner", "outcome", "node", "at", "reason", "replaces")


def format_markdown(result: Simulation) -> str:
    """Return the pending pods, evictions and utilisation as Markdown tables, for a pull-request comment."""
    counts = result.counts
    waits = (
        "everything fits" if not counts.pending + counts.rejected else f"{format_count(counts.pending, 'pod')} pending"
    )
    title = f"### {waits}: {counts.placed} placed, {counts.evicted} evicted, {counts.preempted} preempted"
    groups = [(str(each.count), ", ".join(each.owners[:3]), each.message) for each in result.pending]
    groups += [(str(each.count), each.name, each.message) for each in result.rejected]
    rows = [
        (each.resource, format_amount(each.resource, each.allocatable), _format_use(each))
        for each in result.utilisation.after
    ]
    parts = [
        title,
        markdown_table(("Pods", "Of", "Why"), groups[:_SHOWN]),
        markdown_table(("Resource", "Allocatable", "Requested"), rows),
    ]
    return "\n\n".join(filter(None, parts))


def markdown_table(head: Cells, rows: Sequence[Cells]) -> str:
    """Return a Markdown table; empty if there are no rows."""
    if not rows:
        return ""
    cells = (head, ["---"] * len(head), *(list(map(markdown_cell, row)) for row in rows))
    return "\n".join(f"| {' | '.join(row)} |" for row in cells)


def format_csv(result: Simulation) -> str:
    """Return CSV with a row for each pod that was placed, left pending, evicted, preempted or blocked.

    Workloads whose pods the API server rejects have a row each.
    """
    rows = [
        *((each.pod, each.owner, "placed", each.node, each.at, "", each.replaces) for each in result.placements),
        *((pod.pod, pod.owner, "pending", "", "", group.message) for group in result.pending for pod in group.pods),
        *(("", each.name, "rejected", "", "", f"{each.count}: {each.message}") for each in result.rejected),
        *((each.pod, each.owner, "evicted", each.node, each.at, each.cause) for each in result.evicted),
        *((each.pod, each.owner, "preempted", each.node, each.at, each.by) for each in result.preempted),
        *((each.pod, "", "blocked", each.node, "", each.message) for each in result.blocked),
    ]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_COLUMNS)
    for row in rows:
        cells = [str(cell) for cell in (*row, "")[: len(_COLUMNS)]]
        # Spreadsheets treat such a cell as a formula.
        writer.writerow([f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell for cell in cells])
    return out.getvalue()
