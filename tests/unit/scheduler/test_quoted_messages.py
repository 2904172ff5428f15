"""Every event and log line that the proposals quote: a row is a quote, with the proposal's section.

The errors of the API server that they quote are in ``tests/unit/admission/test_pod_quoted_errors.py``.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from mooring.base import logs
from mooring.scheduler.deciding.engine import Engine
from mooring.scheduler.framework.profiles import ProfileSpec
from mooring.testing.builders import node, pod

pytestmark = pytest.mark.req("5471.4", "5721.7", "5500.6")

UNTOLERATED = "0/1 nodes are available: 1 node(s) had untolerated taint {{version: {}}}."
UNMATCHED = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."


def toleration(**fields: str) -> dict[str, Any]:
    return {"tolerations": [fields]}


def affinity(**term: Any) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


@dataclass(frozen=True)
class Quote:
    section: str
    spec: dict[str, Any]
    event: str
    """The message of the event FailedScheduling."""
    level: int = logging.NOTSET
    log: str = ""
    """The line in the log, once however often the pod is tried; none if empty."""
    fields: dict[str, str] = field(default_factory=dict)
    value: str = "x.y"
    """The value of the node's taint, or of its label if there is affinity."""


NEWER = {"matchExpressions": [{"key": "version", "operator": "SemverGt", "values": ["1.0.0"]}]}
QUOTES = [
    Quote(
        "KEP-5471 How can someone using this feature know that it is working: the event",
        toleration(key="version", operator="Gt", value="950"),
        UNTOLERATED.format("940"),
        value="940",
    ),
    Quote(
        "KEP-5471 Taint matching logic: Failed to parse taint value as integer for numeric comparison",
        toleration(key="version", operator="Gt", value="950"),
        UNTOLERATED.format("x.y"),
        logging.WARNING,
        'Failed to parse taint value "x.y" as integer for numeric comparison: ',
    ),
    Quote(
        "KEP-5721 How can someone using this feature know that it is working: the event",
        toleration(key="version", operator="SemverGt", value="2.0.0"),
        UNTOLERATED.format("1.0.0"),
        value="1.0.0",
    ),
    Quote(
        "KEP-5721 Node-Side Handling, tolerations: the event and the log",
        toleration(key="version", operator="SemverGt", value="2.0.0"),
        UNTOLERATED.format("x.y"),
        logging.ERROR,
        "failed to parse taint value as semantic version",
        {"taint": "x.y"},
    ),
    Quote(
        "KEP-5721 Node-Side Handling, node affinity: the log",
        affinity(**NEWER),
        UNMATCHED,
        logging.DEBUG,
        "Parse semver failed for value x.y in label version",
    ),
    Quote(
        "KEP-5500 How can someone using this feature know that it is working: the event for tolerations",
        toleration(expression="taint.value == 'z'"),
        UNTOLERATED.format("x.y"),
    ),
    Quote(
        "KEP-5500 How can someone using this feature know that it is working: the event for node affinity",
        affinity(matchCELExpressions=["node.labels['version'] == 'z'"]),
        UNMATCHED,
    ),
    Quote(
        "KEP-5500 Toleration matching: failed to compile CEL expression",
        toleration(expression="taint.none"),
        UNTOLERATED.format("x.y"),
        logging.ERROR,
        "failed to compile CEL expression",
        {"expression": "taint.none"},
    ),
    Quote(
        "KEP-5500 Toleration matching: CEL Runtime error",
        toleration(expression="int(taint.value) > 1"),
        UNTOLERATED.format("x.y"),
        logging.ERROR,
        "CEL Runtime error",
        {"expression": "int(taint.value) > 1"},
    ),
    Quote(
        "KEP-5500 Node affinity matching: Failed to compile CEL expression",
        affinity(matchCELExpressions=["node.none"]),
        UNMATCHED,
        logging.ERROR,
        "Failed to compile CEL expression",
        {"expression": "node.none"},
    ),
    Quote(
        "KEP-5500 Node affinity matching: CEL runtime error",
        affinity(matchCELExpressions=["node.labels['none'] == 'z'"]),
        UNMATCHED,
        logging.ERROR,
        "CEL runtime error",
        {"expression": "node.labels['none'] == 'z'"},
    ),
]


@pytest.fixture(autouse=True)
def nothing_said_yet() -> Iterator[None]:
    logs._once.clear()
    yield
    logs._once.clear()


@pytest.mark.parametrize("quote", QUOTES, ids=lambda quote: quote.section)
def test_a_quoted_message_is_what_is_said(quote: Quote, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="mooring.constraints")
    engine = Engine((ProfileSpec(),))
    if "affinity" in quote.spec:
        engine.put(node("a", labels={"version": quote.value}))
    else:
        engine.put(node("a", taints=[f"version={quote.value}:NoSchedule"]))
    for name in ("p", "q"):
        assert engine.schedule(pod(name, spec=quote.spec)).message == quote.event
    said = [record for record in caplog.records if record.name.startswith("mooring.constraints")]
    assert [record.levelno for record in said] == ([quote.level] if quote.log else [])
    if quote.log:
        assert said[0].getMessage().startswith(quote.log)
        assert quote.fields.items() <= vars(said[0]).get("fields", {}).items()
