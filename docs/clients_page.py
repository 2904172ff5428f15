"""Makes `clients.md` of `clients.tsv`, which `tests/real/clients.py` writes, and of what is said of suites below.

Called by ``generate.py``. A failed test for which no reason is known shows the first words of its message.
"""

import re
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
ABOUT = {
    "lightkube": "lightkube 0.21.0: `e2e-tests`",
    "kr8s": "kr8s, July 2026, the whole suite",
    "kubernetes": "kubernetes 37, the official client, August 2026: `e2e_test`, `dynamic`, `aio/e2e_test`",
    "kubernetes_asyncio": "kubernetes_asyncio, April 2026: `e2e_test`",
    "kopf": "kopf, June 2026: `tests/e2e`, its examples as running operators",
}
"""Which tests of which version a suite is."""

REASONS = [
    (r"custom_resources", "wants `apiextensions.k8s.io/v1beta1`, gone since Kubernetes 1.22; fails on Kubernetes too"),
    (r"test_cache_decoder", "compares two resources, though the class compares by identity; fails on Kubernetes too"),
    (r"test_portforward", "talks through a forwarded port to an nginx and a Python program that would have to run"),
    (r"17-admission", "its library for certificates does not know OpenSSL 3, before it asks the server anything"),
    (
        r"port_forward|test_adoption|test_service_exec",
        "the fixture writes 40 MiB with `dd` into the files of an nginx; no such program runs on a simulated node",
    ),
    (
        r"unraisable",
        "the loop of the operator ended while TLS connections were still being closed; another example in every run",
    ),
    (
        r"test_patch_pod_json",
        "expects no labels but its own; a pod has its node's zone and region as soon as it is bound, as since 1.35",
    ),
]
"""By a pattern in a test's name and message: why it fails."""

HEAD = """# Client libraries' own tests

Made by `make docs` from [clients.tsv](clients.tsv), what came of the last runs of the tests that client libraries have
for themselves, against `mooring up` with three simulated nodes. To repeat it, put the sources of the libraries into one
folder, each with a `.venv` that has what its tests need, and

    MOORING_CLIENTS=/path/to/suites python tests/real/clients.py run
    make docs

`run lightkube kopf` takes some of them; what is not run stays as it was.

| Suite | Passed | Failed | Skipped, or expected to fail |
|---|---|---|---|
"""


class Test(NamedTuple):
    suite: str
    name: str
    ended: str
    message: str


def tests() -> list[Test]:
    lines = (HERE / "clients.tsv").read_text().splitlines()
    return [Test(*line.split("\t")) for line in lines if not line.startswith("#")]


def reason(test: Test) -> str:
    text = f"{test.name} {test.message}"
    found = next((why for pattern, why in REASONS if re.search(pattern, text)), "")
    return found or "`" + test.message.replace("|", "\\|").replace("<", "&lt;") + "`"


def page() -> str:
    """Return the whole page."""
    found = tests()
    rows = []
    for suite, about in ABOUT.items():
        ended = [test.ended for test in found if test.suite == suite]
        counts = " | ".join(str(ended.count(each)) for each in ("passed", "failed", "skipped"))
        rows.append(f"| {about} | {counts} |")
    failures = ["", "## What fails, and why", "", "| Suite | Test | Why |", "|---|---|---|"]
    failures += [
        f"| {test.suite} | {test.name.rpartition('.')[2]} | {reason(test)} |"
        for test in found
        if test.ended == "failed"
    ]
    return HEAD + "\n".join([*rows, *failures]) + "\n"
