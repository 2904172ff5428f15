"""The options and implementation of `mooring simulate --trace`."""

import gc
import sys
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli.support.cluster_source import show_notes
from mooring.cli.support.flags import FILE, NEW_FILE, group_flags
from mooring.cli.support.output import print_data, print_result, print_table, report_errors, write_page
from mooring.cli.support.progress import TraceProgress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mooring.advisor.simulate import Settings
    from mooring.advisor.simulate.traces.checkpoints import Checkpoints
    from mooring.advisor.simulate.traces.drawing import FillTarget
    from mooring.advisor.simulate.traces.events import Event
    from mooring.advisor.simulate.traces.opening import Trace
    from mooring.advisor.simulate.traces.prices import Prices
    from mooring.advisor.simulate.traces.results import Replayed
    from mooring.advisor.snapshot import Snapshot
    from mooring.api.core_v1 import Pod

INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class TraceOptions:
    """The options of `mooring simulate` that concern traces."""

    paths: tuple[Path, ...]
    skip_bad: bool
    give_up: bool
    draw: bool
    fill: str | None
    until: float | None
    prices: Path | None
    price_label: str
    measures: tuple[Path, ...]
    keep_placements: bool
    checkpoint: Path | None
    checkpoint_every: int


trace_flags = group_flags(
    "trace",
    TraceOptions,
    click.option(
        "--trace", "paths", type=FILE, multiple=True, help="Replay a trace instead of changes; see docs/traces.md."
    ),
    click.option("--skip-bad", is_flag=True, help="Skip invalid lines of the trace, and count them."),
    click.option("--give-up", is_flag=True, help="Drop pods of the trace that find no node when they arrive."),
    click.option("--draw", is_flag=True, help="Add nodes and pods in random order, one pod a second."),
    click.option(
        "--fill", metavar="RESOURCE=TIMES", help="With --draw: stop when pods request TIMES the nodes' RESOURCE."
    ),
    click.option("--until", type=click.FloatRange(0), metavar="SECONDS", help="Stop at this time of the trace."),
    click.option("--prices", type=FILE, metavar="FILE", help="A table of prices per hour by instance type."),
    click.option("--price-label", default="", metavar="LABEL", help="The node label that holds the price per hour."),
    click.option(
        "--measures", type=NEW_FILE, multiple=True, help="Write measurements to a .csv, .json or .parquet file."
    ),
    click.option("--keep-placements", is_flag=True, help="Report the node of each pod of the trace."),
    click.option("--checkpoint", type=NEW_FILE, help="Save the state of the replay in this file, and resume from it."),
    click.option(
        "--checkpoint-every",
        type=click.IntRange(1),
        default=250_000,
        metavar="EVENTS",
        help="Events between two checkpoints.",
    ),
)
"""The command gets `TraceOptions` as `trace`."""


def replay(
    wanted: TraceOptions, snapshot: "Snapshot", settings: "Settings", seed: int, *, output: str, html: Path | None
) -> None:
    """Replay a trace, write the measurements and the HTML report, print the result and exit. Raise ClickException."""
    from mooring.advisor.simulate.traces import results as files
    from mooring.advisor.simulate.traces.events import TraceError

    with report_errors(TraceError):
        for path in wanted.measures:
            files.check_path(path)
        for place in filter(None, (html, wanted.checkpoint)):
            files.check_folder(place)
        result = _run_replay(wanted, snapshot, settings, seed)
        for path in wanted.measures:
            files.write_samples(result, path)
        if html is not None:
            from mooring.advisor.simulate.html.page import render_replay_page

            write_page(render_replay_page(result), html)
    _print_replay(result, output)
    sys.exit(0 if result.is_complete else INTERRUPTED)


def compare_replays(words: tuple[str, ...], output: str) -> None:
    """Print the differences between two sets of replay results, with their significance over the seeds."""
    import msgspec

    from mooring.advisor.simulate.traces import results
    from mooring.advisor.simulate.traces.events import TraceError

    if words[0] != "compare" or len(words) != 3:
        raise click.UsageError("expected `simulate compare ONE OTHER`, with results of replays; see docs/traces.md")
    with report_errors(TraceError):
        found = results.compare_replays(*(results.read_results(place) for place in words[1:]))
    if output in ("json", "yaml"):
        print_data(msgspec.to_builtins(found), output)
        return
    rows = [
        [
            each.name,
            f"{each.one:,.5g}",
            f"{each.other:,.5g}",
            f"{each.difference:+,.5g}" + (f" ± {each.confidence:,.3g}" if each.confidence is not None else ""),
            "yes" if each.is_significant else "",
        ]
        for each in found
    ]
    print_table(["WHAT", "ONE", "OTHER", "DIFFERENCE, 95% CONFIDENCE", "SURE"], rows)


def _run_replay(wanted: TraceOptions, snapshot: "Snapshot", settings: "Settings", seed: int) -> "Replayed":
    from mooring.advisor.simulate.traces.opening import Trace
    from mooring.advisor.simulate.traces.replaying import Replay, ReplayOptions
    from mooring.advisor.simulate.traces.results import build_replay_result
    from mooring.api.core_v1 import Node

    trace = Trace(wanted.paths, skips=wanted.skip_bad)
    origin = snapshot.origin if snapshot.all(Node) else "its own nodes"
    events, workload, snapshot = _read_events(trace, wanted, snapshot, seed)
    settings = replace(settings, workload=workload)
    options = ReplayOptions(
        seed, wanted.give_up, wanted.until, prices=prices_of(wanted), keeps_placements=wanted.keep_placements
    )
    with TraceProgress(trace.size) as report:
        gc.freeze()  # the snapshot lives long: exclude it from collections
        running = Replay(snapshot, settings, options, report, _checkpoints(wanted, snapshot, settings, seed))
        with suppress(KeyboardInterrupt):  # the result has the time of the interruption
            running.run(events)
    names = ", ".join(path.name for path in wanted.paths)
    result = build_replay_result(running, origin, names, settings.description, trace.complaints.summary())
    result.skipped = trace.complaints.skipped
    show_notes(result.notes)
    return result


def _checkpoints(wanted: TraceOptions, snapshot: "Snapshot", settings: "Settings", seed: int) -> "Checkpoints | None":
    from mooring import __version__
    from mooring.advisor.simulate.traces.checkpoints import Checkpoints, digest_of
    from mooring.api import codec
    from mooring.api.core_v1 import Node

    if wanted.checkpoint is None:
        return None
    same = replace(wanted, checkpoint=None, measures=())
    nodes = [codec.encode(node).decode() for node in snapshot.all(Node)]
    words = (__version__, seed, repr(same), settings.description, repr(settings.profiles), nodes)
    return Checkpoints(wanted.checkpoint, digest_of(words, wanted.paths), wanted.checkpoint_every)


def _read_events(
    trace: "Trace", wanted: TraceOptions, snapshot: "Snapshot", seed: int
) -> "tuple[Iterator[Event], Iterable[Pod], Snapshot]":
    from mooring.advisor.simulate.traces import drawing
    from mooring.advisor.simulate.traces.events import NodeArrival, PodArrival
    from mooring.advisor.simulate.traces.opening import TraceWorkload
    from mooring.api.core_v1 import Node

    if not wanted.draw:
        if wanted.fill:
            raise click.UsageError("--fill needs --draw")
        return trace.events(), TraceWorkload(trace), snapshot
    nodes, pods = {node.metadata.name: node for node in snapshot.all(Node)}, []
    for event in trace.events():
        if isinstance(event, PodArrival):
            pods.append(event.pod)
        elif isinstance(event, NodeArrival):
            nodes[event.node.metadata.name] = event.node
    arrivals, ordered = drawing.draw_workload(pods, list(nodes.values()), _parse_fill(wanted.fill), seed)
    return arrivals, pods, snapshot.replace(remove=ordered, put=ordered)


def _parse_fill(text: str | None) -> "FillTarget | None":
    from mooring.advisor.simulate.traces.drawing import FillTarget

    if text is None:
        return None
    resource, _, number = text.rpartition("=")
    try:
        times = float(number)
    except ValueError as problem:
        raise click.UsageError(f"--fill: {text} is not of the form RESOURCE=TIMES, as in cpu=1.3") from problem
    return FillTarget(resource, times)


def prices_of(wanted: TraceOptions) -> "Prices":
    """Return the node prices that `--prices` and `--price-label` name."""
    from mooring.advisor.simulate.traces import prices

    found = prices.read_prices(wanted.prices) if wanted.prices is not None else prices.Prices()
    return replace(found, label=wanted.price_label) if wanted.price_label else found


def _print_replay(result: "Replayed", output: str) -> None:
    from mooring.advisor.simulate.traces.results import format_csv

    if print_result(result, output):
        return
    if output == "csv":
        click.echo(format_csv(result.samples), nl=False)
        return
    numbers = result.numbers
    click.echo(f"Replayed {result.workload} on {result.cluster}, {result.scheduler}. Seed {result.seed}.")
    click.echo(
        f"{numbers['events']:,} events in {numbers['seconds']:,.0f}s of virtual time: "
        f"{numbers['arrived']:,} pods came, {numbers['placed']:,} were placed, "
        f"{numbers.get('pending', 0):,} are pending."
    )
    if not result.is_complete:
        click.echo("It was interrupted: this is how far it got.")
    hidden = {"events", "seconds", "arrived", "placed", "pending"}
    click.echo()
    print_table(["AT THE END", ""], [[name, f"{value:,.5g}"] for name, value in numbers.items() if name not in hidden])
    if result.elsewhere is not None:
        click.echo(f"\n{result.elsewhere:,} pods went elsewhere than in the recorded cluster.")
    if result.pending:
        click.echo()
        print_table(["PENDING", "WHY"], [[str(number), why] for why, number in list(result.pending.items())[:10]])
