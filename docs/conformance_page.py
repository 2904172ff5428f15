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
    (r"AdmissionWebhook", "admission webhooks are not served yet"),
    (r"AdmissionPolicy", "admission policies are not served yet"),
    (r"API priority and fairness", "FlowSchema and PriorityLevelConfiguration are not served yet"),
    (r"ResourceQuota|exceeded quota", "quotas are kept and not counted yet"),
    (r"Aggregator", "other API servers are not aggregated"),
    (r"AggregatedDiscovery|Discovery should locate", "wants `admissionregistration.k8s.io`, which is not served yet"),
    (r"trust bundle|TrustBundle|CTB", "ClusterTrustBundle is not served yet"),
    (r"mTLS", "the suite's own build knows no version to choose its pods by, and containers would have to run"),
    (r"PodCertificate", "reads a certificate that a kubelet would put into a container"),
    (r"ConversionWebhook", "the webhook would have to run in a container"),
    (r"StatefulSet Basic", "moves the files of a web server with `exec` to make its probe fail; no server runs"),
    (r"Update Demo|Guestbook", "asks web servers that would run in containers"),
    (r"Kubectl logs", "reads what a program of the test image logs"),
    (r"ServiceAccountIssuerDiscovery|mount projected service", "reads what a program of the test image prints"),
    (r"EndpointSliceMirroring", "Endpoints that people write are not mirrored into EndpointSlices"),
    (r"change the type|multiple EndpointSlices|HostPort|NodePort", "asks a Service or a port from a container"),
    (r"Variable Expansion", "simulated nodes do not look at `subPathExpr`"),
    (r"LimitRange", "defaults of LimitRanges are not applied yet"),
    (r"FieldValidation", "unknown and duplicate fields of custom resources are not told as Kubernetes tells them"),
    (r"PublishOpenAPI", "`kubectl explain` of a custom resource prints otherwise than expected"),
    (r"500 podspec updates", "not done within the time of that run"),
    (r"limits.cpu", "simulated nodes do not give resources to variables"),
]
"""By a pattern in a test's name: why it fails."""

HEAD = """# Kubernetes' own conformance suite

Made by `make docs` from [conformance.tsv](conformance.tsv), what came of the last runs of Kubernetes 1.37's `e2e.test`
against `mooring up` with four simulated nodes: no container ever runs. To repeat it, build `e2e.test` and `ginkgo` from
Kubernetes' sources, and

    MOORING_REAL=/path/to/binaries python tests/real/conformance.py run --procs 6
    make docs

Of sig-network and sig-node only the tests were tried that need few containers; real nodes are for the others.
`--focus` takes a part of it: `--focus 'sig-apps.*Job'`; what is not run stays as it was. The parallel tests of
api-machinery, apps, architecture, auth, cli and instrumentation take about half an hour: most of it is waiting.
"""


class Test(NamedTuple):
    area: str
    ended: str
    serial: bool
    name: str
    message: str


def tests() -> list[Test]:
    lines = (HERE / "conformance.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [Test(area, ended, serial == "serial", name, message) for area, ended, serial, name, message in rows]


def reason(test: Test) -> str:
    found = next((why for pattern, why in REASONS if re.search(pattern, test.name)), "")
    message = test.message.replace("|", "\\|").replace("<", "&lt;")
    return found or f"`{message}`"


def page() -> str:
    """The whole page."""
    found = tests()
    counted = [test for test in found if test.area in COUNTED and not test.serial]
    passed = sum(test.ended == "passed" for test in counted)
    return "\n".join([HEAD, _table(found), "", _sentence(passed, len(counted)), "", *_failures(found)]) + "\n"


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


def _failures(found: list[Test]) -> list[str]:
    lines = ["## What fails, and why"]
    failed = [test for test in found if test.ended == "failed"]
    for area in sorted({test.area for test in failed}):
        lines += ["", f"### {area}", "", "| Test | Why |", "|---|---|"]
        lines += [f"| {test.name} | {reason(test)} |" for test in failed if test.area == area]
    return lines
