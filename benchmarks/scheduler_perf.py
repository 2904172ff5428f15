"""Run upstream's scheduler_perf workloads, with Mooring's or upstream's API server and scheduler.

    python -m benchmarks scheduler_perf DIR --list
    python -m benchmarks scheduler_perf DIR --topics misc,affinity --labels performance
    python -m benchmarks scheduler_perf DIR --test 'SchedulingBasic/500Nodes$' --schedulers mooring,kubernetes

DIR is ``test/integration/scheduler_perf`` of a Kubernetes checkout, which is not part of this repository. Every
workload gets a new control plane. The table shows pods bound per second beside the threshold of the file, which
upstream set for its own machines: compare the columns of one run. What cannot be run is listed with its reason.
"""

import argparse
import asyncio
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.control_planes import ControlPlane, Flavor
from benchmarks.go_template import TemplateError
from benchmarks.scheduler_perf_workload import Throughput, UnsupportedError, WorkloadRun
from mooring.api.core_v1 import Pod
from mooring.api.errors import StatusError
from mooring.client import ClientError, Informers, connect

TOPICS = "misc,affinity,topology_spreading,default_preemption,volumes,batching,event_handling,starvation"
_NEEDED_APIS = {
    "GenericWorkload": "PodGroups (gang scheduling) are not served by Mooring",
}
"""Gates whose workloads need an API that Mooring does not have, with the reason that is printed."""


@dataclass(frozen=True)
class Workload:
    """One workload of a file: a test case with parameters."""

    topic: str
    folder: Path
    test: dict[str, Any]
    entry: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.test['name']}/{self.entry['name']}"

    @property
    def gates(self) -> dict[str, bool]:
        return {**self.test.get("featureGates", {}), **self.entry.get("featureGates", {})}

    @property
    def labels(self) -> set[str]:
        return {*self.test.get("labels", ()), *self.entry.get("labels", ())}

    @property
    def threshold(self) -> float | None:
        value = self.entry.get("threshold")
        return float(value) if isinstance(value, int | float) else None


def main() -> None:
    """Say how to call it: without a checkout there is nothing to run."""
    print(__doc__)


def run(arguments: Sequence[str]) -> int:
    """Run the workloads that the options select; return 1 when one failed."""
    options = _parse(arguments)
    try:
        workloads = [each for each in read(options.directory, options.topics.split(",")) if _is_selected(each, options)]
    except (OSError, yaml.YAMLError, KeyError) as error:
        print(f"cannot read the workloads of {options.directory}: {error!r}", file=sys.stderr)
        return 2
    if options.list:
        for each in workloads:
            print(f"{each.topic:<20} {each.name:<60} {' '.join(sorted(each.labels))}")
        return 0
    schedulers: list[Flavor] = options.schedulers.split(",")
    print(f"{'workload':<70} {'threshold':>9} " + " ".join(f"{name:>16}" for name in schedulers), flush=True)
    skipped, failed = [], 0
    for each in workloads:
        if reason := _reason_not_to_run(each):
            skipped.append((each.name, reason))
            continue
        cells = []
        for scheduler in schedulers:
            try:
                result = asyncio.run(_run_workload(each, scheduler, options))
                cells.append(f"{result.pods_per_second:.0f}/s of {result.pods}")
            except UnsupportedError as error:
                skipped.append((each.name, str(error)))
                cells.append("not run")
            except (TimeoutError, RuntimeError, StatusError, ClientError, TemplateError, FileNotFoundError) as error:
                print(f"{each.name} with {scheduler}: {type(error).__name__}: {error}", file=sys.stderr)
                cells.append("failed")
                failed += 1
        threshold = f"{each.threshold:.0f}" if each.threshold else "-"
        print(
            f"{each.topic + ' ' + each.name:<70} {threshold:>9} " + " ".join(f"{cell:>16}" for cell in cells),
            flush=True,
        )
    for name, reason in skipped:
        print(f"not run: {name}: {reason}")
    return 1 if failed else 0


def read(directory: Path, topics: Sequence[str]) -> Iterator[Workload]:
    """Read the workloads of the topics, in the order of the files."""
    for topic in topics:
        folder = directory / topic
        for test in yaml.safe_load((folder / "performance-config.yaml").read_text()):
            for entry in test["workloads"]:
                yield Workload(topic, folder, test, entry)


async def _run_workload(workload: Workload, scheduler: Flavor, options: argparse.Namespace) -> Throughput:
    config = None
    if path := workload.test.get("schedulerConfigPath"):
        config = yaml.safe_load((workload.folder / path).read_text())
    server: Flavor = options.server or scheduler
    plane = ControlPlane(server, scheduler, binaries=options.binaries, gates=workload.gates, scheduler_config=config)
    with plane:
        plane.start_scheduler()
        async with connect(plane.kubeconfig, user_agent="scheduler-perf") as client:
            informers = Informers(client)
            pods = informers.of(Pod)
            async with informers:
                await informers.wait_for_sync()
                params = workload.entry.get("params") or {}
                each = WorkloadRun(client, pods, workload.folder, workload.test, params=params, seconds=options.timeout)
                results = await each.run()
    if not results:
        raise UnsupportedError("it measures nothing")
    return Throughput(sum(each.pods for each in results), sum(each.seconds for each in results))


def _reason_not_to_run(workload: Workload) -> str:
    for gate, reason in _NEEDED_APIS.items():
        if workload.gates.get(gate):
            return reason
    return ""


def _is_selected(workload: Workload, options: argparse.Namespace) -> bool:
    for label in filter(None, options.labels.split(",")):
        if label.startswith("-") == (label.lstrip("+-") in workload.labels):
            return False
    return re.search(options.test, workload.name) is not None


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks scheduler_perf", description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path, metavar="DIR", help="test/integration/scheduler_perf of a checkout")
    parser.add_argument("--topics", default=TOPICS, help="folders to run, with commas between them (%(default)s)")
    parser.add_argument("--test", default="", metavar="REGEX", help="only workloads whose Test/Workload matches")
    parser.add_argument("--labels", default="", help="performance,-short: labels that a workload has and has not")
    parser.add_argument("--schedulers", default="mooring", help="mooring, kubernetes, or both (%(default)s)")
    parser.add_argument("--server", choices=["mooring", "kubernetes"], help="the API server (the scheduler's own)")
    binaries = os.environ.get("MOORING_REAL")
    parser.add_argument(
        "--binaries", type=Path, default=Path(binaries) if binaries else None, metavar="FOLDER",
        help="where etcd, kube-apiserver and kube-scheduler are (MOORING_REAL)",
    )  # fmt: skip
    parser.add_argument("--timeout", type=float, default=600, metavar="SECONDS", help="for each wait (%(default)s)")
    parser.add_argument("--list", action="store_true", help="list the workloads instead of running them")
    options = parser.parse_args(arguments)
    try:
        re.compile(options.test)
    except re.error as error:
        parser.error(f"--test is not a regular expression: {error}")
    if unknown := set(options.schedulers.split(",")) - {"mooring", "kubernetes"}:
        parser.error(f"--schedulers knows mooring and kubernetes, not {', '.join(sorted(unknown))}")
    return options
