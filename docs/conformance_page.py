"""Makes `conformance.md` of `conformance.tsv`, which `tests/real/conformance.py` writes, and of the reasons below.

Called by ``generate.py``. A failed test for which no reason is known shows the first words of its message.
"""

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
COUNTED = ("sig-api-machinery", "sig-apps", "sig-architecture", "sig-auth", "sig-cli", "sig-instrumentation")
"""The areas whose tests, without the serial ones, SPEC C.2 counts."""

REASONS = [
    (r"Aggregator", "other API servers are not aggregated"),
    (r"mTLS", "its client looks for the server by a name, which only a DNS server knows"),
    (r"Update Demo", "asks a web server whose image cannot be had here"),
    (r"Guestbook", "its programs look for each other by names, which only a DNS server knows"),
    (r"change the type|multiple EndpointSlices|HostPort|NodePort", "asks a Service or a port from a container"),
    (r"Variable Expansion", "simulated nodes do not look at `subPathExpr`"),
    (r"500 podspec updates", "not done within the time of that run"),
    (r"limits.cpu", "simulated nodes do not give resources to variables"),
]
"""By a pattern in a test's name: why it fails."""

HEAD = """# Kubernetes' own conformance suite

Made by `make docs` from [conformance.tsv](conformance.tsv), what came of the last runs of Kubernetes 1.37's `e2e.test`
against `mooring up` with four simulated nodes. No container ever runs: in the areas that are counted below,
[programs of this machine](programs.md) ran in place of the suite's images agnhost and busybox, each pod in a network of
its own, and busybox' web server in place of httpd and nginx; all other images were simulated. sig-network, sig-node,
sig-scheduling and what is serial ran without programs, of the first two only what needs few containers. To repeat it as
root, build `e2e.test`, `ginkgo` and the images (`images/*.tar`, as `docker save` writes them) from Kubernetes' sources:

    MOORING_REAL=/path/to/binaries python tests/real/conformance.py run --programs --port 443 --serial no --procs 6
    MOORING_REAL=/path/to/binaries python tests/real/conformance.py run --serial only
    make docs

`--focus` takes a part of it: `--focus 'sig-apps.*Job'`; what is not run stays as it was. Port 443 is where the suite
looks for the issuer of tokens. The parallel tests of api-machinery, apps, architecture, auth, cli and instrumentation
take about fifteen minutes: most of it is waiting. The last run of all of them at once, on 20 November 2026, passed all
but the five below.
"""


REAL_NODES = """## With real nodes

The tests of sig-network, sig-node and sig-storage need containers. They ran on two unmodified kubelets 1.37 with
containerd 1.6 and kube-proxy, each in a network of its own on one machine (Debian 12, cgroups of version 1, no registry
within reach), with Mooring's own scheduler and controllers;
[conformance-real-nodes.tsv](conformance-real-nodes.tsv) has what came of it. Images that the suite wants (agnhost,
busybox, nonroot, nonewprivs, glibc-dns-testing, pause) were made by hand of Kubernetes' sources and Debian's packages;
names in the cluster are answered by kube-dns.

    MOORING_REAL=/path/to/binaries python tests/real/conformance.py run --real-nodes 2 --procs 4
"""
REAL_REASONS = [
    (r"ImageVolume", "containerd 1.6 has no image volumes, and the image would have to be pulled"),
    (r"lifecycle of Pods and PodStatus", "wants an image of nginx, which cannot be had there"),
]
"""By a pattern in a test's name or its message: why it fails on real nodes."""


class Test(NamedTuple):
    area: str
    ended: str
    serial: bool
    name: str
    message: str


def tests() -> list[Test]:
    """Those that ran with simulated nodes."""
    return read(HERE / "conformance.tsv")


def tests_on_real_nodes() -> list[Test]:
    return read(HERE / "conformance-real-nodes.tsv")


def read(file: Path) -> list[Test]:
    lines = file.read_text().splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [Test(area, ended, serial == "serial", name, message) for area, ended, serial, name, message in rows]


def reason(test: Test, *, real: bool = False) -> str:
    text, reasons = (f"{test.name} {test.message}", REAL_REASONS) if real else (test.name, REASONS)
    found = next((why for pattern, why in reasons if re.search(pattern, text)), "")
    message = test.message.replace("|", "\\|").replace("<", "&lt;")
    return found or f"`{message}`"


def page() -> str:
    """Return the whole page."""
    found = tests()
    counted = [test for test in found if test.area in COUNTED and not test.serial]
    passed = sum(test.ended == "passed" for test in counted)
    simulated = [HEAD, _table(found), "", _sentence(passed, len(counted)), "", *_failures(found)]
    real = tests_on_real_nodes()
    return "\n".join([*simulated, "", REAL_NODES, _table(real), "", *_failures(real, real=True)]) + "\n"


def _sentence(passed: int, number: int) -> str:
    return (
        f"Of the parallel tests of api-machinery, apps, architecture, auth, cli and instrumentation, "
        f"**{passed} of {number}** pass."
    )


def _table(found: list[Test]) -> str:
    rows = ["| Area | Passed | Failed | Total |", "|---|---|---|---|"]
    groups = sorted({(test.area, test.serial) for test in found})
    counts = Counter((test.area, test.serial, test.ended) for test in found)
    for area, serial in groups:
        passed, failed = (counts[area, serial, ended] for ended in ("passed", "failed"))
        rows.append(f"| {area}{', serial' if serial else ''} | {passed} | {failed} | {passed + failed} |")
    return "\n".join(rows)


def _failures(found: list[Test], *, real: bool = False) -> list[str]:
    lines = ["## What fails on real nodes, and why" if real else "## What fails, and why"]
    failed = [test for test in found if test.ended == "failed"]
    for area in sorted({test.area for test in failed}):
        lines += ["", f"### {area}", "", "| Test | Why |", "|---|---|"]
        lines += [f"| {test.name} | {reason(test, real=real)} |" for test in failed if test.area == area]
    return lines
