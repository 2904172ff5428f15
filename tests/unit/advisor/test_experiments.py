"""Experiments: what a file says, runs that are done once, and the same results wherever they are done."""

import gc
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from mooring.advisor.experiments import experiment_file, workers
from mooring.advisor.experiments.experiment_file import ExperimentError
from mooring.advisor.experiments.workers import RunJob, execute_run
from mooring.advisor.simulate.traces import results
from mooring.advisor.simulate.traces.events import TraceError
from mooring.advisor.simulate.traces.results import Replayed
from mooring.cli.main import mooring

pytestmark = pytest.mark.req("T.3")

FILE = """
apiVersion: advisor.mooring.dev/v1
kind: Experiment
clusters: {small: {nodes: 3}}
workloads: {day: {trace: [day.csv], draw: true, fill: {resource: cpu, times: 1.2}, giveUp: true}}
schedulers: {plain: {}, packed: {config: packed.yaml}}
seeds: {from: 1, count: 2}
allocated: [{resource: cpu, at: [50, 100]}]
"""
PACKED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""


@pytest.fixture(scope="module", autouse=True)
def _frozen() -> Iterator[None]:
    """Freeze again what conftest.py has frozen: each run thaws what the one before has left."""
    yield
    gc.freeze()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    pods = "".join(f"{number},add,Pod,p{number},cpu={1 + number % 7}\n" for number in range(12))
    (tmp_path / "day.csv").write_text("time,event,kind,name,resources\n" + pods)
    (tmp_path / "packed.yaml").write_text(PACKED)
    (tmp_path / "experiment.yaml").write_text(FILE)
    return tmp_path / "experiment.yaml"


def jobs(file: Path) -> list[RunJob]:
    return [
        RunJob(spec, workers.digest_of(spec))
        for spec in experiment_file.read_experiment(file).runs
        if not spec.scheduler.config
    ]


def plain(result: Replayed) -> Replayed:
    """Without what depends on the machine."""
    return msgspec.structs.replace(result, cpu_seconds=0.0, peak_mb=0.0)


def test_every_combination_is_a_run(file: Path) -> None:
    names = [spec.name for spec in experiment_file.read_experiment(file).runs]
    assert names == ["small.day.plain.1", "small.day.packed.1", "small.day.plain.2", "small.day.packed.2"]


WRONG = (
    ("clusters: {small: {nodes: 3}}", "clusters: {}", "clusters: there are none"),
    ("nodes: 3", "knots: 3", "Object contains unknown field `knots` - at `$.clusters[...]`"),
    ("trace: [day.csv]", "trace: [night.csv]", "workloads.day.trace: there is no "),
    ("trace: [day.csv]", "trace: [$NOWHERE/day.csv]", "workloads.day.trace: set the environment variable in $NOWHERE"),
    ("draw: true, ", "", "workloads.day.fill: needs draw: true"),
    ("kind: Experiment", "kind: Scenario", "expected an Experiment"),
    ("count: 2", "count: 0", "seeds: there are none"),
    ("{from: 1, count: 2}", "[0, 2, 0]", "seeds: 0 is there twice"),
    ("plain: {}", '"../x": {}', "schedulers: '../x' is no name"),
)


@pytest.mark.parametrize(("before", "after", "expected"), WRONG, ids=[case[2] for case in WRONG])
def test_mistakes_are_reported_with_their_place(before: str, after: str, expected: str, file: Path) -> None:
    file.write_text(FILE.replace(before, after))
    with pytest.raises(ExperimentError) as raised:
        experiment_file.read_experiment(file)
    assert expected in str(raised.value)


@pytest.mark.parametrize(
    ("text", "found"),
    [("", "there is nothing in it"), ("# later\n", "there is nothing in it"), ("- 1", "it is no mapping")],
)
def test_an_error_about_a_file_that_is_no_experiment_says_what_is_expected(text: str, found: str, file: Path) -> None:
    file.write_text(text)
    run = CliRunner().invoke(mooring, ["experiment", "run", str(file)])
    assert run.exit_code == 1
    expected = "expected an Experiment of advisor.mooring.dev/v1, with clusters, workloads and schedulers"
    assert run.output == f"Error: {file}: {found}; {expected}\n"


def test_command_does_each_run_once_and_again_when_a_file_has_changed(file: Path) -> None:
    out = file.parent / "out"

    def reported() -> str:
        found = CliRunner().invoke(mooring, ["experiment", "run", str(file), "--out", str(out), "--jobs", "1"])
        assert found.exit_code == 0, found.output
        return found.output

    assert "0 runs are done already, 4 are to do" in reported()
    again = reported()
    assert "4 runs are done already, 0 are to do" in again
    assert "CPU AT 50%" in again
    (file.parent / "packed.yaml").write_text(PACKED + "# changed\n")
    assert "2 runs are done already, 2 are to do" in reported()
    table = (out / "table.csv").read_text().splitlines()
    assert len(table) == 5
    assert table[0].startswith("cluster,workload,scheduler,seed,cpu at 50%,cpu at 100%")
    (out / "runs" / "small.day.plain.1.json").write_text("cut o")
    assert "3 runs are done already, 1 are to do" in reported()


def test_a_folder_that_was_moved_has_its_runs_done(file: Path) -> None:
    before = [workers.digest_of(spec) for spec in experiment_file.read_experiment(file).runs]
    moved = file.parent.rename(file.parent.with_name("moved"))
    assert [workers.digest_of(spec) for spec in experiment_file.read_experiment(moved / file.name).runs] == before


def test_a_run_depends_on_its_seed_alone(file: Path) -> None:
    first, second = jobs(file)
    assert plain(execute_run(first)) == plain(execute_run(first))
    assert plain(execute_run(first)).samples != plain(execute_run(second)).samples


def test_runs_in_one_process_leave_nothing_behind(file: Path) -> None:
    kept = []
    for _ in range(3):
        execute_run(jobs(file)[0])
        kept.append(gc.get_freeze_count())
    gc.unfreeze()
    assert kept[2] - kept[1] < 100


def test_a_mistake_in_a_trace_names_the_run_and_the_line(file: Path) -> None:
    with (file.parent / "day.csv").open("a") as stream:
        stream.write("99,add,Pod,q,cpu=much\n")
    with pytest.raises(ExperimentError, match=r"small\.day\.plain\.1: .*day\.csv:14: "):
        execute_run(jobs(file)[0])


def test_processes_and_a_dask_cluster_come_to_the_same(file: Path) -> None:
    distributed = pytest.importorskip("distributed")
    todo = jobs(file)
    alone = {result.seed: plain(result) for result in workers.LocalWorkers(1).results(todo)}
    assert {result.seed: plain(result) for result in workers.LocalWorkers(2).results(todo)} == alone
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None, protocol="tcp"
    ) as cluster:
        on_dask = workers.DaskWorkers(cluster.scheduler_address)
        assert {result.seed: plain(result) for result in on_dask.results(todo)} == alone
        on_dask.close()


def test_a_dask_cluster_that_is_not_there_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ExperimentError, match=r"install mooring\[dask\]"):
        workers.DaskWorkers("tcp://127.0.0.1:1")


def test_summary_has_means_and_deviations() -> None:
    rows: list[dict[str, object]] = [
        {"cluster": "c", "workload": "w", "scheduler": "s", "seed": seed, "placed": placed}
        for seed, placed in ((1, 10), (2, 14))
    ]
    [line] = workers.summarize(rows)
    assert (line["seeds"], line["placed"], line["placed ±"]) == (2, 12, 2.828)


def replayed(seed: int, placed: float) -> Replayed:
    return Replayed(
        cluster="c", workload="w", scheduler="s", seed=seed, numbers={"placed": placed}, allocated={}, samples=[]
    )


@pytest.mark.req("T.2")
def test_comparison_is_paired_by_seed_and_says_how_sure_it_is(tmp_path: Path) -> None:
    one = [replayed(seed, 100.0 + 10 * seed) for seed in range(5)]
    other = [replayed(seed, 103.0 + 10 * seed + seed % 2) for seed in range(6)]
    [found] = results.compare_replays(one, other)
    assert found.difference == pytest.approx(3.4)
    assert found.confidence == pytest.approx(2.776 * 0.5477 / 5**0.5, rel=1e-3)  # by hand: differences 3, 4, 3, 4, 3
    assert found.is_significant
    assert results.compare_replays(one[:1], other[:1])[0].confidence is None
    with pytest.raises(TraceError, match="no seed in common"):
        results.compare_replays(one[:1], other[1:])
    for name, runs in (("a", one), ("b", other)):
        for result in runs:
            (tmp_path / f"{name}.{result.seed}.json").write_bytes(msgspec.json.encode(result))
    reported = CliRunner().invoke(mooring, ["simulate", "compare", f"{tmp_path}/a.*", f"{tmp_path}/b.*", "-o", "json"])
    assert json.loads(reported.output)[0]["difference"] == pytest.approx(3.4)
    reported = CliRunner().invoke(mooring, ["simulate", "compare", str(tmp_path), f"{tmp_path}/b.*"])
    assert "two results with the seed 0" in reported.output
