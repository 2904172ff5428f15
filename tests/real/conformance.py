"""Runs Kubernetes' own conformance suite against `mooring up`, and keeps what came of it for docs/conformance.md.

    MOORING_REAL=/path/to/binaries python tests/real/conformance.py run [--focus RE] [--procs 6] [--minutes 60]
    MOORING_REAL=/path/to/binaries python tests/real/conformance.py run --programs --port 443 --serial no
    MOORING_REAL=/path/to/binaries python tests/real/conformance.py run --real-nodes 2 --procs 4
    python tests/real/conformance.py keep report.json…     # a ginkgo report (--json-report) of a run made elsewhere

The folder has `e2e.test` and `ginkgo`, built from Kubernetes' sources. `run` starts a control plane with four simulated
nodes, and writes into docs/conformance.tsv how each test ended: those that were run replace what stood there. Serial
tests run by themselves when the others are done. `make docs` makes the page of it. With `--programs`, as root, what the
suite's images agnhost and busybox hold runs on the simulated nodes, in place of being simulated: ``image_programs.py``
makes it of files as `docker save` writes them, in the folder `images`. With `--real-nodes` the nodes are
kubelets with containerd (``tests/joined_nodes.py`` says what they need), the tests those that need containers, and the
results go to docs/conformance-real-nodes.tsv.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

DOCS = Path(__file__).parents[2] / "docs"
SIMULATED, REAL = DOCS / "conformance.tsv", DOCS / "conformance-real-nodes.tsv"
AREAS = "api-machinery|apps|architecture|auth|cli|instrumentation|scheduling"
AREAS_OF_CONTAINERS = "network|node|storage"
ENDED = {"passed": "passed", "failed": "failed", "timedout": "failed", "panicked": "failed", "interrupted": "failed"}
_WORDS = 160


class Result(NamedTuple):
    """How a test ended."""

    area: str
    name: str
    ended: str
    serial: bool
    message: str


def results_of(report: Iterable[dict[str, Any]]) -> Iterator[Result]:
    """Yield the conformance tests of a ginkgo report that were run."""
    for suite in report:
        for spec in suite.get("SpecReports") or ():
            labels = {*(spec.get("LeafNodeLabels") or ()), *_container_labels(spec)}
            ended = ENDED.get(spec.get("State", ""))
            if spec.get("LeafNodeType") != "It" or "Conformance" not in labels or ended is None:
                continue
            name = " ".join([*(spec.get("ContainerHierarchyTexts") or ()), spec.get("LeafNodeText", "")])
            area = re.search(r"\[(sig-[a-z-]+)\]", name)
            yield Result(area[1] if area else "other", _plain(name), ended, "Serial" in labels, _message(spec))


def _container_labels(spec: dict[str, Any]) -> Iterator[str]:
    for labels in spec.get("ContainerHierarchyLabels") or ():
        yield from labels or ()


def _plain(name: str) -> str:
    """Return a test's name without its marks."""
    return re.sub(r"\s+", " ", re.sub(r"\[[^\]]*\]", "", name)).strip()


def _message(spec: dict[str, Any]) -> str:
    """Return the first words of why it failed, without what depends on the machine."""
    message = re.sub(r"--[a-z-]+=\S+ ?|(?:/[\w.+-]+)+/", "", (spec.get("Failure") or {}).get("Message", ""))
    return re.sub(r"\s+", " ", message).strip()[:_WORDS]


def read(results: Path) -> dict[tuple[str, str], Result]:
    if not results.exists():
        return {}
    lines = [line.split("\t") for line in results.read_text().splitlines() if line and not line.startswith("#")]
    found = [Result(area, name, ended, serial == "serial", message) for area, ended, serial, name, message in lines]
    return {(each.area, each.name): each for each in found}


def keep(reports: Iterable[Path], results: Path) -> None:
    """Put the results of reports in place of those that are known."""
    known = read(results)
    for path in reports:
        for result in results_of(json.loads(path.read_text())):
            known[result.area, result.name] = result
    lines = [
        "# How Kubernetes' conformance tests ended: area, result, serial or parallel, test, the first words of why not."
    ]
    for _, each in sorted(known.items()):
        serial = "serial" if each.serial else "parallel"
        lines.append(
            "\t".join([each.area, each.ended, serial, each.name, each.message if each.ended == "failed" else ""])
        )
    results.write_text("\n".join(lines) + "\n")
    failed = [each for each in known.values() if each.ended == "failed"]
    sys.stdout.write(f"{len(known) - len(failed)} of {len(known)} passed\n")


def run(binaries: Path, arguments: argparse.Namespace) -> None:
    """Start a control plane, run the suite against it, and keep what came of it."""
    with tempfile.TemporaryDirectory() as folder, _cluster(binaries, Path(folder), arguments) as kubeconfig:
        reports = []
        for serial in (False, True):
            report = Path(folder) / f"report-{serial}.json"
            if arguments.serial in ("both", "only" if serial else "no"):
                subprocess.run(_suite(binaries, kubeconfig, report, arguments, serial=serial), check=False)
                reports += [report] if report.exists() else []
        if arguments.report:
            for number, report in enumerate(reports):
                Path(f"{arguments.report}.{number}.json").write_bytes(report.read_bytes())
        keep(reports, REAL if arguments.real_nodes else SIMULATED)


@contextmanager
def _cluster(binaries: Path, home: Path, arguments: argparse.Namespace) -> Iterator[Path]:
    """Yield a control plane with nodes; its kubeconfig."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    if arguments.real_nodes:
        from joined_nodes import joined_nodes  # which only a test's process has among its modules

        with joined_nodes(home, range(1, arguments.real_nodes + 1), "--without", "nodes") as cluster:
            yield cluster.kubectl.kubeconfig
        return
    with (home / "up.log").open("w") as log:
        command = [sys.executable, "-m", "mooring", "up", "--data-dir", str(home), "--nodes", "4"]
        command += ["--port", str(arguments.port)]
        if arguments.programs:
            from image_programs import write_programs  # as above

            programs = write_programs(binaries / "images", home / "images")
            command += ["--programs", str(programs), "--bind-address", "0.0.0.0"]
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _wait_for(home / "admin.kubeconfig", server)
            yield home / "admin.kubeconfig"
        finally:
            server.terminate()
            server.wait(30)


def _suite(binaries: Path, kubeconfig: Path, report: Path, arguments: argparse.Namespace, *, serial: bool) -> list[str]:
    labels = "Conformance && Serial" if serial else "Conformance && !Serial"
    every = rf"sig-({AREAS_OF_CONTAINERS if arguments.real_nodes else AREAS}).*\[Conformance\]"
    return [
        str(binaries / "ginkgo"),
        f"--procs={1 if serial else arguments.procs}",
        "--no-color",
        "--succinct",
        f"--timeout={arguments.minutes}m",
        f"--focus={arguments.focus or every}",
        f"--label-filter={labels}",
        f"--json-report={report}",
        str(binaries / "e2e.test"),
        "--",
        f"--kubeconfig={kubeconfig}",
        "--provider=skeleton",
        f"--num-nodes={arguments.real_nodes or 4}",
        "--minStartupPods=0",
        "--dump-logs-on-failure=false",
    ]


def _wait_for(kubeconfig: Path, server: "subprocess.Popen[bytes]") -> None:
    for _ in range(600):
        if kubeconfig.exists():
            time.sleep(3)  # until the nodes are there
            return
        if server.poll() is not None:
            raise SystemExit("mooring up has ended: is the port free?")
        time.sleep(0.1)
    raise SystemExit("mooring up does not come up")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    running = commands.add_parser("run")
    running.add_argument("--focus", default="", help="a part of it, as a regular expression over tests' names")
    running.add_argument("--real-nodes", type=int, default=0, metavar="N", help="so many kubelets, and none simulated")
    running.add_argument(
        "--programs", action="store_true", help="let agnhost, busybox and web servers run on the simulated nodes"
    )
    running.add_argument("--procs", type=int, default=6)
    running.add_argument("--minutes", type=int, default=60)
    running.add_argument("--port", type=int, default=17443)
    running.add_argument("--serial", choices=["both", "no", "only"], default="both")
    running.add_argument("--report", default="", help="keep ginkgo's reports under this name too")
    keeping = commands.add_parser("keep")
    keeping.add_argument("reports", nargs="+", type=Path)
    keeping.add_argument("--real-nodes", action="store_true", help="they are of a run with real nodes")
    arguments = parser.parse_args()
    if arguments.command == "keep":
        keep(arguments.reports, REAL if arguments.real_nodes else SIMULATED)
        return
    binaries = os.environ.get("MOORING_REAL")
    if not binaries:
        raise SystemExit("set MOORING_REAL to the folder with e2e.test and ginkgo")
    run(Path(binaries), arguments)


if __name__ == "__main__":
    main()
