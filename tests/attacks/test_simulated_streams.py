"""Annotations and volumes of simulated pods that would make logs, commands and ports expensive."""

import time
import tracemalloc
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app_calls import Caller
from mooring.api import errors
from mooring.api.core_v1 import ConfigMap, Pod
from mooring.api.simulation import PREFIX
from mooring.apiserver.messages.connection import ConnectionLostError
from mooring.apiserver.streams.query_options import LogOptions
from mooring.apiserver.streams.simulated import logs
from mooring.apiserver.streams.simulated.commands import CommandContext, run_command
from mooring.apiserver.streams.simulated.container import ContainerRun
from mooring.apiserver.streams.simulated.pod_annotations import DeclaredLog, find_declared_command
from mooring.apiserver.streams.simulated.port_forward import SimulatedHttpServer
from mooring.apiserver.streams.simulated.terminal import Stdio
from mooring.apiserver.streams.simulated.volumes import read_mounted_files
from mooring.shell import Outcome
from mooring.shell.machine import Printed
from mooring.testing.builders import made
from mooring.testing.clock import MockClock

pytestmark = pytest.mark.req("S.6")
START = datetime(2026, 1, 1, tzinfo=UTC)
PODS = "/api/v1/namespaces/default/pods"
LONG = "x" * 200_000
MIB = 1024 * 1024


def pod(annotations: dict[str, str] | None = None, **spec: Any) -> Pod:
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}], **spec}
    named = {f"{PREFIX}{name}": text for name, text in (annotations or {}).items()}
    return made(Pod, {"metadata": {"name": "p", "namespace": "d", "annotations": named}, "spec": spec})


def repeated(line: str) -> logs.Log:
    """Return a log of very many equal lines."""
    return logs.make_declared_log(ContainerRun(START, None, 0), DeclaredLog((line,), 0.01, repeat=True))


@pytest.mark.parametrize("line", [LONG, "ź" * 100_000, "", "x"], ids=["long", "not ASCII", "empty", "short"])
async def test_a_log_is_made_in_small_pieces_of_its_last_ten_mebibytes(line: str) -> None:
    tracemalloc.start()
    try:
        pieces = logs.select_lines(repeated(line), LogOptions(), START + timedelta(days=30))
        sizes = [len(piece) async for piece in pieces]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(sizes) <= 10 * MIB
    assert max(sizes) <= 64 * 1024 + len(line.encode()) + 1
    assert peak < 2 * MIB


async def test_a_slow_follower_misses_lines_instead_of_taking_memory() -> None:
    clock = MockClock(START)
    log = repeated(LONG)

    async def present() -> logs.Log | None:
        return None

    clock.advance(3600)
    pieces = logs.follow_lines(log, LogOptions(follow=True), clock, present, 0)
    sizes: list[int] = []
    async for piece in pieces:
        sizes.append(len(piece))
        if sum(sizes) > 9 * MIB:
            break
    assert max(sizes) <= 300_000


async def test_one_byte_of_a_long_log_costs_little(call: Caller) -> None:
    await call("POST", "/api/v1/nodes", {"metadata": {"name": "n", "annotations": {f"{PREFIX}node": "true"}}})
    annotations = {f"{PREFIX}logs": LONG, f"{PREFIX}log-seconds": "0.01", f"{PREFIX}log-repeat": "true"}
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    body = {"metadata": {"name": "p", "annotations": annotations}, "spec": spec}
    assert (await call("POST", PODS, body)).status == 201
    state = {"running": {"startedAt": "2020-01-01T00:00:00Z"}}
    statuses = [{"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": 0, "state": state}]
    status = {"status": {"phase": "Running", "containerStatuses": statuses}}
    patched = await call("PATCH", f"{PODS}/p/status", status, content_type="application/merge-patch+json")
    assert patched.status == 200, patched.message
    tracemalloc.start()
    try:
        answer = await call("GET", f"{PODS}/p/log?limitBytes=1")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (answer.status, answer.body) == (200, b"x")
    assert peak < 5 * MIB


def test_output_without_line_breaks_is_joined_once() -> None:
    outcome = Outcome(0, 1.0, tuple(Printed(0.0, "x" * 10, 1) for _ in range(20_000)))
    begun = time.process_time()
    log = logs.make_command_log(ContainerRun(START, None, 0), outcome)
    assert [len(line) for line in log.lines] == [200_000]
    assert time.process_time() - begun < 0.5


PATTERNS = {
    "many stars": "*a" * 4000 + "*b",
    "many question marks": "*" + "?" * 8000 + "b",
    "both": "*a*a?a" * 2000 + "b",
}


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS.keys())
def test_a_rule_with_many_wildcards_is_matched_in_linear_time(pattern: str) -> None:
    hostile = pod({"exec": f'[{{command: "{pattern}", stdout: x}}]'})
    begun = time.process_time()
    assert find_declared_command(hostile, "c", ("a" * 4000,)) is None
    assert find_declared_command(hostile, "c", ("a" * 60_000,)) is None
    assert time.process_time() - begun < 1.5


@pytest.mark.parametrize(
    "rules",
    ["[" + "{command: a}," * 1001 + "]", f'[{{command: "{"a" * 20_000}"}}]'],
    ids=["too many rules", "a pattern that is too long"],
)
def test_rules_are_limited(rules: str) -> None:
    with pytest.raises(errors.BadRequest, match="exec cannot be used"):
        find_declared_command(pod({"exec": rules}), "c", ("a",))


RULES = [
    ("a *", "a b", True),
    ("a ?", "a bc", False),
    ("a [b]", "a [b]", True),
    ("a.c", "abc", False),
    ("*", "a\nb", True),
]


@pytest.mark.parametrize(("pattern", "command", "is_match"), RULES, ids=[f"{rule[0]} and {rule[1]}" for rule in RULES])
def test_stars_and_question_marks_are_the_only_signs(pattern: str, command: str, *, is_match: bool) -> None:
    rule = find_declared_command(pod({"exec": f'[{{command: "{pattern}"}}]'}), "c", (command,))
    assert (rule is not None) == is_match


async def test_an_archive_has_every_file_once() -> None:
    written: list[bytes] = []

    async def out(data: bytes) -> None:
        written.append(data)

    here = CommandContext(pod(), "c", MockClock(START), {"/data/f": "y" * MIB})
    assert await run_command(here, ["tar", "cf", "-", *["/data"] * 90], Stdio(out, out)) == 0
    assert sum(map(len, written)) < 2 * MIB


def test_answers_to_many_requests_at_once_are_limited() -> None:
    port = SimulatedHttpServer(pod({"http": LONG}), 80)
    answers = port.receive(b"GET / HTTP/1.1\r\n\r\n" * 3000)
    assert len(answers) < 2 * MIB
    assert port.is_over
    assert b"connection: close" in answers


class Objects:
    """One ConfigMap under every name."""

    def __init__(self) -> None:
        self.reads = 0

    async def get(self, cls: type, name: str, namespace: str = "") -> Any:
        self.reads += 1
        metadata = {"name": name, "namespace": namespace}
        return made(cls, {"metadata": metadata, "data": {"f": "z" * MIB}}) if cls is ConfigMap else None


def _mounting(volumes: int, mounts: int) -> Pod:
    sources = [{"name": f"v{n}", "configMap": {"name": "c"}} for n in range(volumes)]
    places = [{"name": f"v{n % volumes}", "mountPath": f"/m{n}"} for n in range(mounts)]
    return pod(volumes=sources, containers=[{"name": "c", "image": "i", "volumeMounts": places}])


async def _no_token(*_: Any) -> Any:
    raise ConnectionLostError


async def test_a_volume_that_is_mounted_often_is_read_once() -> None:
    objects: Any = Objects()
    found = await read_mounted_files(objects, _no_token, _mounting(1, 500), "c")
    assert len({id(text) for text in found.values()}) == 1
    assert objects.reads == 1


async def test_the_files_of_all_volumes_are_limited() -> None:
    objects: Any = Objects()
    with pytest.raises(errors.BadRequest, match="more than 10000 files or 16 MiB"):
        await read_mounted_files(objects, _no_token, _mounting(100, 100), "c")
    assert objects.reads <= 17
