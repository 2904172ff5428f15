"""Runs client libraries' own tests against `mooring up`, and keeps what came of it for docs/clients.md.

    MOORING_CLIENTS=/path/to/suites python tests/real/clients.py run [lightkube kr8s …]

The folder has a suite in each of its folders, named as in `SUITES`: the sources of a library with its tests, as its
repository has them, and in `.venv` what they need, as the library says it, with pytest. Every suite gets a control
plane of its own with three simulated nodes, and a Deployment `metrics-server` in `kube-system`, where some of them look
for pods. How each test ended goes into docs/clients.tsv: a suite that is run replaces what stood there. `make docs`
makes the page of it.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "docs" / "clients.tsv"
_WORDS = 160
_METRICS_SERVER = ("create", "deployment", "metrics-server", "--image=registry.k8s.io/pause:3.10", "-n", "kube-system")


class Suite(NamedTuple):
    """Where a library has its tests, and which options they are run with."""

    tests: tuple[str, ...]
    options: tuple[str, ...] = ()


SUITES = {
    "lightkube": Suite(("e2e-tests",)),
    "kr8s": Suite(("kr8s",), ("-p", "kind_standin", "--no-cov", "-o", "timeout=120")),
    "kubernetes": Suite(("kubernetes/e2e_test", "kubernetes/dynamic", "kubernetes/aio/e2e_test")),
    "kubernetes_asyncio": Suite(("kubernetes_asyncio/e2e_test",)),
    "kopf": Suite(("tests/e2e",), ("--only-e2e", "-o", "timeout=120")),
}


class Result(NamedTuple):
    """How a test ended."""

    suite: str
    name: str
    ended: str
    message: str


def results_of(suite: str, report: Path) -> Iterator[Result]:
    """Yield the tests of a report that pytest has written with `--junit-xml`."""
    for case in ET.parse(report).iter("testcase"):
        ended, message = "passed", ""
        for child in case:
            if child.tag in {"failure", "error"}:
                ended, message = "failed", child.get("message") or ""
            elif child.tag == "skipped" and ended == "passed":
                ended, message = "skipped", child.get("message") or ""
        yield Result(suite, f"{case.get('classname')}.{case.get('name')}", ended, _plain(message))


def _plain(message: str) -> str:
    """Return the first words of why a test failed, without what depends on the machine."""
    return re.sub(r"\s+", " ", re.sub(r"(?:/[\w.+-]+){2,}/|0x[0-9a-f]+", "", message)).strip()[:_WORDS]


def read() -> list[Result]:
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return [Result(*line.split("\t")) for line in lines if not line.startswith("#")]


def keep(found: Iterable[Result]) -> None:
    """Put the results of suites in place of those that are known."""
    found = list(found)
    suites = {each.suite for each in found}
    every = sorted([each for each in read() if each.suite not in suites] + found)
    head = "# How the tests of client libraries ended: suite, test, result, the first words of why not."
    RESULTS.write_text("\n".join([head, *("\t".join(each) for each in every)]) + "\n")


def run(folder: Path, name: str, port: int) -> list[Result]:
    """Run one suite against a control plane of its own."""
    suite, home = SUITES[name], folder / name
    with tempfile.TemporaryDirectory() as data, _control_plane(Path(data), port) as environment:
        report = Path(data) / "report.xml"
        command = [str(home / ".venv/bin/python"), "-m", "pytest", *suite.options, "-q", f"--junit-xml={report}"]
        subprocess.run([*command, *suite.tests], cwd=home, env=environment, check=False)
        return list(results_of(name, report)) if report.exists() else []


@contextmanager
def _control_plane(data: Path, port: int) -> Iterator[dict[str, str]]:
    """Yield a control plane; the environment in which tests find it."""
    kubeconfig = data / "admin.kubeconfig"
    command = [sys.executable, "-m", "mooring", "up", "--nodes", "3", "--data-dir", str(data), "--port", str(port)]
    with (data / "up.log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        while not kubeconfig.exists():
            if server.poll() is not None:
                raise SystemExit("mooring up has ended: is the port free?")
            time.sleep(0.1)
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(HERE)}
        for words in (_METRICS_SERVER, ("rollout", "status", "deployment/metrics-server", "-n", "kube-system")):
            subprocess.run(["kubectl", *words], env=environment, check=True)
        yield environment
    finally:
        server.terminate()
        server.wait(30)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["run"])
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"some of {', '.join(SUITES)}; all unless told")
    parser.add_argument("--port", type=int, default=17444)
    arguments = parser.parse_args()
    folder = os.environ.get("MOORING_CLIENTS")
    if not folder:
        raise SystemExit("set MOORING_CLIENTS to the folder with the suites")
    for name in arguments.suites or SUITES:
        found = run(Path(folder), name, arguments.port)
        keep(found)
        passed = sum(each.ended == "passed" for each in found)
        sys.stdout.write(f"{name}: {passed} of {len(found)} passed\n")


if __name__ == "__main__":
    main()
