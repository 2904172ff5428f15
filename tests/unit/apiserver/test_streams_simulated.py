"""What simulated containers log and answer: functions of the pod's annotations, its commands and the time."""

import asyncio
import io
import tarfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from mooring.api import errors, times
from mooring.api.core_v1 import Pod
from mooring.apiserver.streams.query_options import LogOptions
from mooring.apiserver.streams.simulated import commands, container, logs
from mooring.apiserver.streams.simulated.commands import CommandContext
from mooring.apiserver.streams.simulated.container import ContainerRun
from mooring.apiserver.streams.simulated.pod_annotations import DeclaredLog, read_declared_log
from mooring.apiserver.streams.simulated.port_forward import SimulatedHttpServer
from mooring.apiserver.streams.simulated.terminal import Stdio
from mooring.testing.clock import START, MockClock

pytestmark = pytest.mark.req("N.8")
P = "simulation.mooring.dev/"
ABC = DeclaredLog(("a", "b", "c"), seconds=2)


def pod(annotations: dict[str, str] | None = None, **state: Any) -> Pod:
    """Return a pod with one container that has run since `START` by default."""
    status = {"name": "c", "state": {"running": {"startedAt": times.to_seconds(START)}}, **state}
    tree = {
        "metadata": {"name": "web", "namespace": "default", "uid": "u", "annotations": annotations or {}},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "img", "env": [{"name": "A", "value": "b"}]}]},
        "status": {"phase": "Running", "containerStatuses": [status]},
    }
    return msgspec.convert(tree, Pod)


@dataclass(frozen=True)
class Shown:
    name: str
    rule: DeclaredLog
    after: float
    lines: str
    options: LogOptions = field(default_factory=LogOptions)
    ended_after: float | None = None


SHOWN = [
    Shown("all lines come at once without seconds", DeclaredLog(("a", "b")), 0, "ab"),
    Shown("lines come one after the other", ABC, 2.5, "ab"),
    Shown("there are no more than there are", ABC, 100, "abc"),
    Shown("lines are repeated if the annotation says so", DeclaredLog(("a", "b"), 1, repeat=True), 4, "ababa"),
    Shown("none comes after the end", ABC, 100, "a", ended_after=1),
    Shown("the tail", ABC, 100, "bc", LogOptions(tail_lines=2)),
    Shown("no tail at all", ABC, 100, "", LogOptions(tail_lines=0)),
    Shown("the youngest", ABC, 5, "bc", LogOptions(since_seconds=3)),
    Shown("from a time on", ABC, 5, "c", LogOptions(since_time=START + timedelta(seconds=3))),
    Shown(
        "a tail of a log without a beginning",
        DeclaredLog(("a", "b", "c"), 0.01, repeat=True),
        86400,
        "a",
        LogOptions(tail_lines=1),
    ),
    Shown("an empty log", DeclaredLog(()), 5, ""),
]


async def joined(pieces: AsyncIterator[bytes]) -> bytes:
    return b"".join([piece async for piece in pieces])


@pytest.mark.parametrize("case", SHOWN, ids=lambda case: case.name)
async def test_what_a_log_shows(case: Shown) -> None:
    ended = None if case.ended_after is None else START + timedelta(seconds=case.ended_after)
    log = logs.make_declared_log(ContainerRun(START, ended), case.rule)
    found = await joined(logs.select_lines(log, case.options, START + timedelta(seconds=case.after)))
    assert found.decode().replace("\n", "") == case.lines


async def test_a_log_keeps_its_last_lines_only() -> None:
    log = logs.make_declared_log(ContainerRun(START), DeclaredLog(("a",), 0.01, repeat=True))
    found = await joined(logs.select_lines(log, LogOptions(), START + timedelta(days=30)))
    assert found.count(b"\n") == logs.KEPT_LINES


async def test_timestamps_are_those_of_kubelets() -> None:
    log = logs.make_declared_log(ContainerRun(START), DeclaredLog(("a", "b"), 0.5))
    found = await joined(logs.select_lines(log, LogOptions(timestamps=True), START + timedelta(seconds=1)))
    assert found == b"2026-01-01T00:00:00.000000000Z a\n2026-01-01T00:00:00.500000000Z b\n"


async def test_followed_lines_come_when_it_is_their_time() -> None:
    clock, ends = MockClock(), START + timedelta(seconds=5)
    log = logs.make_declared_log(ContainerRun(START), ABC)

    async def present() -> logs.Log | None:
        return logs.make_declared_log(ContainerRun(START, ends if clock.now() >= ends else None), ABC)

    found: list[tuple[float, bytes]] = []

    async def follow() -> None:
        pieces = logs.follow_lines(log, LogOptions(), clock, present, 1)
        found.extend([(clock.monotonic(), piece) async for piece in pieces])

    task = asyncio.create_task(follow())
    await clock.run(6)
    await task
    assert found == [(2.0, b"b\n"), (4.0, b"c\n")]


async def test_a_limit_of_bytes_cuts_within_a_line() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"one\n"
        yield b"two\n"

    assert await joined(logs.limit_log(pieces(), 6)) == b"one\ntw"


def test_what_a_command_prints_is_a_log_line_by_line() -> None:
    here = CommandContext(pod(), "c", MockClock())
    outcome = here.interpret(["sh", "-c", "echo -n a; sleep 1; echo b; echo c >&2; sleep 5; echo -n d"], START)
    log = logs.make_command_log(ContainerRun(START), outcome)
    assert (list(log.lines), list(log.seconds)) == (["ab", "c", "d"], [1.0, 1.0, 6.0])


UNUSABLE = [
    ({f"{P}log-seconds": "soon"}, "log-seconds cannot be used: 'soon' is not a number"),
    ({f"{P}log-seconds": "nan"}, "is not a number"),
    ({f"{P}log-repeat": "true"}, "log-repeat cannot be used: it needs"),
]


@pytest.mark.parametrize(("annotations", "message"), UNUSABLE)
def test_a_rule_that_cannot_be_read_is_an_error_that_names_it(annotations: dict[str, str], message: str) -> None:
    with pytest.raises(errors.BadRequest, match=message):
        read_declared_log(pod(annotations), "c")


def test_one_container_may_have_a_log_of_its_own() -> None:
    annotations = {f"{P}logs": "all\n", f"{P}logs.c": "own\n\n"}
    assert (read_declared_log(pod(annotations), "c").lines, read_declared_log(pod(annotations), "d").lines) == (
        ("own", ""),
        ("all",),
    )


def test_runs_are_described_in_the_words_of_the_kubelet() -> None:
    waiting = pod(state={"waiting": {"reason": "ContainerCreating"}})
    with pytest.raises(errors.BadRequest, match='container "c" in pod "web" is waiting to start: ContainerCreating'):
        container.find_latest_run(waiting, "c")
    with pytest.raises(errors.BadRequest, match='previous terminated container "c" in pod "web" not found'):
        container.find_previous_run(pod(), "c")
    with pytest.raises(errors.InternalError, match="container not found"):
        container.find_current_run(waiting, "c")
    ended = {"terminated": {"exitCode": 3, "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:09Z"}}
    crashed = pod(state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState=ended, restartCount=1)
    assert container.find_latest_run(crashed, "c").exit_code == container.find_previous_run(crashed, "c").exit_code == 3
    assert container.find_previous_run(crashed, "c").ended == START + timedelta(seconds=9)


# -- commands


async def run(of: Pod, *words: str, stdin: bytes | None = None, tty: bool = False) -> tuple[int, bytes, bytes]:
    """Return the exit code, the output and the errors of a command."""
    out, err = bytearray(), bytearray()

    async def to_out(data: bytes) -> None:
        out.extend(data)

    async def to_err(data: bytes) -> None:
        err.extend(data)

    stdio = Stdio(to_out, to_err, tty=tty)
    if stdin:
        await stdio.feed(stdin)
    if not tty:
        await stdio.end()
    code = await asyncio.wait_for(commands.run_command(CommandContext(of, "c", MockClock()), words, stdio), 5)
    return code, bytes(out), bytes(err)


RULES = """
- {command: "psql *", stdout: "1 row\\n"}
- {command: "boom", stderr: "no!\\n", exitCode: 42}
- {command: "only elsewhere", container: other}
"""
FILES = "/etc/app/a.conf: one\n/etc/app/b.conf: two\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("psql", "-c", "select 1"), (0, b"1 row\n", b"")),
        (("boom",), (42, b"", b"no!\n")),
        (("echo", "hi"), (0, b"hi\n", b"")),
        (("sh", "-c", "echo $A; echo oops >&2; exit 3"), (3, b"b\n", b"oops\n")),
        (("/bin/sh", "-c", "echo all >/dev/null 2>&1; cat /etc/app/a.conf"), (0, b"one", b"")),
        (("hostname",), (0, b"web\n", b"")),
        (("date", "+%Y"), (0, b"2026\n", b"")),
    ],
    ids=str,
)
async def test_what_commands_answer(words: tuple[str, ...], expected: tuple[int, bytes, bytes]) -> None:
    assert await run(pod({f"{P}exec": RULES, f"{P}files": FILES}), *words) == expected


async def test_what_nothing_answers_says_how_to_answer_it() -> None:
    code, out, err = await run(pod({f"{P}exec": RULES}), "only", "elsewhere")
    assert (code, out) == (127, b"")
    assert b"simulation.mooring.dev/exec can say" in err


@pytest.mark.parametrize(
    "rules",
    ["- {comand: x}", "- {command: x, exitCode: 300}", "{command: x}", "- [", "- {command: x, seconds: -1}", "&a [*a]"],
)
async def test_unusable_rules_for_commands_are_named(rules: str) -> None:
    with pytest.raises(errors.BadRequest, match=r"annotation simulation\.mooring\.dev/exec cannot be used"):
        await run(pod({f"{P}exec": rules}), "x")


async def test_input_is_repeated_by_cat_and_run_by_a_shell() -> None:
    assert await run(pod(), "cat", stdin=b"some\ninput") == (0, b"some\ninput", b"")
    assert await run(pod(), "/bin/sh", "-c", "cat", stdin=b"input") == (0, b"input", b"")
    script = b"echo one\n\necho two >&2; false\nexit 7\necho never\n"
    assert await run(pod(), "sh", stdin=script) == (7, b"one\n", b"two\n")
    assert await run(pod(), "sh", stdin=b"false\n") == (1, b"", b"")


def test_a_script_in_the_arguments_is_what_a_container_logs() -> None:
    of = pod()
    of.spec.containers[0].args = ["/bin/sh", "-c", "while true; do echo $A; sleep 5; done"]
    outcome = commands.run_main_process(CommandContext(of, "c", MockClock()), ContainerRun(START))
    assert outcome is not None
    assert [tuple(printed) for printed in outcome.output[:2]] == [(0.0, "b\n", 1), (5.0, "b\n", 1)]


async def test_a_terminal_shows_what_is_typed_and_knows_its_keys() -> None:
    code, out, _ = await run(pod(), "sh", stdin=b"echx\x7fo hi\rnever\x03\x04", tty=True)
    assert code == 130  # the last that happened was Ctrl-C
    assert out.startswith(b"echx\x08 \x08o hi\r\nnever^C\r\n")  # all was typed before the shell began
    assert out.endswith(b"$ hi\r\n$ $ ")


async def test_files_are_packed_for_kubectl_cp_and_none_are_taken() -> None:
    code, out, _ = await run(pod({f"{P}files": FILES}), "tar", "cf", "-", "/etc/app")
    assert code == 0
    with tarfile.open(fileobj=io.BytesIO(out)) as archive:
        assert archive.getnames() == ["etc/app/a.conf", "etc/app/b.conf"]
    code, _, err = await run(pod(), "tar", "-xmf", "-", "-C", "/tmp")
    assert (code, b"takes no others" in err) == (2, True)
    assert (await run(pod(), "tar", "cf", "-", "/none"))[0] == 2


# -- ports


def test_a_port_answers_every_request_and_ends_with_what_is_none() -> None:
    port = SimulatedHttpServer(pod({f"{P}http": "hello"}), 80)
    answer = port.receive(b"GET /a HTTP/1.1\r\nhost: x\r\n\r\nHEAD / HT")
    assert answer.endswith(b"\r\n\r\nhello")
    assert b"content-length: 5\r\n" in port.receive(b"TP/1.1\r\n\r\n")
    assert port.receive(b"\x00nonsense").startswith(b"HTTP/1.1 400")
    assert port.receive(b"GET / HTTP/1.1\r\n\r\n") == b""


def test_a_port_does_not_collect_headers_without_end() -> None:
    port = SimulatedHttpServer(pod(), 80)
    port.receive(b"GET / HTTP/1.1\r\n")
    answers = [port.receive(b"x-long: " + b"y" * 8000 + b"\r\n") for _ in range(10)]
    assert port.is_over
    assert any(answers)
