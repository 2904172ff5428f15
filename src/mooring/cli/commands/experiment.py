"""`mooring experiment`: run many simulations from one file into one table."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mooring.cli.support.flags import FILE, NEW_FOLDER
from mooring.cli.support.progress import Progress

if TYPE_CHECKING:
    from mooring.advisor.experiments.experiment_file import Experiment
    from mooring.advisor.experiments.workers import Workers
    from mooring.advisor.simulate.traces.results import Replayed
    from mooring.scheduler.facade import ProfileSpec

INTERRUPTED = 130


@click.group()
def experiment() -> None:
    """Run many simulations from one file, and compare the results."""


@experiment.command()
@click.argument("file", type=FILE)
@click.option("--out", type=NEW_FOLDER, help="The folder of the results.  [default: FILE with the suffix .results]")
@click.option(
    "--jobs", type=click.IntRange(1), metavar="N", help="The number of concurrent runs.  [default: one per core]"
)
@click.option("--dask", metavar="ADDRESS", help="Run on a Dask cluster, such as tcp://10.0.0.1:8786.")
@click.option("--only", multiple=True, metavar="WORD", help="Execute only runs with this in their name.")
def run(*, file: Path, out: Path | None, jobs: int | None, dask: str | None, only: tuple[str, ...]) -> None:
    """Execute every run of FILE that is not done yet, on all cores, and write one table.

    A run is a cluster, a workload, a scheduler and a seed. Each result is kept in DIR/runs; DIR/table.csv has a line
    for each run, DIR/summary.csv means and standard deviations over the seeds.

    \b
    Examples:
      mooring experiment run examples/fgd/paper.yaml
      mooring experiment run paper.yaml --only .FGD. --only .BestFit.
      mooring experiment run paper.yaml --dask tcp://10.0.0.1:8786
    """
    from mooring.advisor.experiments import experiment_file, workers

    try:
        found = experiment_file.read_experiment(file)
        folder = out or file.with_suffix(".results")
        chosen: Workers = workers.DaskWorkers(dask) if dask else workers.LocalWorkers(jobs)
        results = _run_missing(found, folder, chosen, only)
    except experiment_file.ExperimentError as problem:
        raise click.ClickException(str(problem)) from problem
    except OSError as problem:
        raise click.ClickException(f"{problem.filename}: {problem.strerror}") from problem
    except KeyboardInterrupt:
        click.echo("Interrupted: run it again to go on.", err=True)
        sys.exit(INTERRUPTED)
    _write_tables(found, folder, results)


def _run_missing(found: "Experiment", folder: Path, chosen: "Workers", only: tuple[str, ...]) -> "list[Replayed]":
    from mooring.advisor.experiments.workers import ResultsFolder, RunJob, digest_of

    kept, done, todo = ResultsFolder(folder), [], []
    for spec in found.runs:
        if only and not any(word in spec.name for word in only):
            continue
        digest = digest_of(spec)
        known = kept.find(spec, digest)
        if known is not None:
            done.append(known)
        else:
            todo.append(RunJob(spec, digest, _read_profiles(spec.scheduler.config)))
    click.echo(f"{found.name}: {len(done)} runs are done already, {len(todo)} are to do", err=True)
    with Progress("Experiment") as tell:
        for number, result in enumerate(chosen.results(todo), 1):
            kept.store(result)
            done.append(result)
            tell("runs", number, len(todo))
    order = {spec.name: place for place, spec in enumerate(found.runs)}
    return sorted(done, key=lambda each: order[f"{each.cluster}.{each.workload}.{each.scheduler}.{each.seed}"])


def _read_profiles(path: str) -> "tuple[ProfileSpec, ...]":
    from mooring.advisor.experiments.experiment_file import ExperimentError
    from mooring.scheduler.facade import ProfileSpec
    from mooring.scheduler.running import options

    if not path:
        return (ProfileSpec(),)
    try:
        return options.read(Path(path).read_bytes()).profiles
    except options.SchedulerConfigError as problem:
        raise ExperimentError(f"{path}: {problem}") from problem


def _write_tables(found: "Experiment", folder: Path, results: "list[Replayed]") -> None:
    from mooring.advisor.experiments import workers
    from mooring.cli.support.output import print_table

    rows = [workers.table_row(result, found.allocated) for result in results]
    means = workers.summarize(rows)
    workers.write_table(folder / "table.csv", rows)
    workers.write_table(folder / "summary.csv", means)
    steps = [workers.column_name(wanted.resource, step) for wanted in found.allocated for step in wanted.at]
    steps = steps or ["placed", "pending", "waited p50", "waited p99"]
    shown = [
        [str(line[key]) for key in ("cluster", "workload", "scheduler", "seeds")]
        + [f"{line.get(step, '')} ± {line.get(f'{step} ±', '')}" for step in steps]
        for line in means
    ]
    print_table(["CLUSTER", "WORKLOAD", "SCHEDULER", "SEEDS", *(step.upper() for step in steps)], shown)
    click.echo(f"All runs are in {folder / 'table.csv'}", err=True)
