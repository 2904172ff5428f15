"""A container that runs a program of this machine: how it begins, how it is, how it ends and begins again."""

import asyncio
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from mooring.api.core_v1 import Container, ExecAction, Lifecycle, LifecycleHandler, Pod, PodSpec, Probe
from mooring.api.meta_v1 import ObjectMeta
from mooring.api.program_folders import container_folder, log_file
from mooring.api.volume_files import MissingError
from mooring.base.clock import Clock, SystemClock
from mooring.controllers.programs import container as containers
from mooring.controllers.programs.container import ProgramContainer
from mooring.controllers.programs.file import Program
from mooring.controllers.programs.pods import ProgramPod
from mooring.controllers.programs.sandbox import Mount
from running_up import is_alive

pytestmark = pytest.mark.req("S.4")
POD = Pod(metadata=ObjectMeta(name="web", namespace="shop", uid="u"), spec=PodSpec(node_name="n"))


@dataclass
class House:
    """The parts of a pod that its containers use."""

    folder: Path
    pod: Pod = POD
    clock: Clock = field(default_factory=SystemClock)
    stopping: bool = False
    network: list[str] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    mounted: list[Mount] = field(default_factory=list)

    async def build_container_variables(self, container: Container) -> dict[str, str]:
        if self.missing:
            raise MissingError(self.missing.pop())
        return {"COLOR": "blue"}

    def build_container_mounts(self, container: Container, variables: dict[str, str]) -> list[Mount]:
        return self.mounted

    def request_status_write(self) -> None:
        pass

    def record_event(self, kind: str, reason: str, note: str) -> None:
        self.events.append(f"{reason}: {note}")


def container_of(house: House, spec: Container, program: Program | None) -> ProgramContainer:
    return ProgramContainer(cast("ProgramPod", house), spec, program)


Make = Callable[..., ProgramContainer]


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def make(house: House, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setattr(containers, "backoff_seconds", lambda _: 0.01)

    def made(script: str, **spec: object) -> ProgramContainer:
        program = Program("image", run=(sys.executable, "-u", "-c", script))
        return container_of(house, Container(name="c", image="image", **spec), program)  # type: ignore[arg-type] # what tests vary

    return made


def logged(house: House, restarts: int = 0) -> list[str]:
    text = log_file(container_folder(house.folder, "u", "c"), restarts).read_text()
    return [line.split(" ", 1)[1] for line in text.splitlines()]


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - of another process, without an event
            await asyncio.sleep(0.01)


async def ended(task: "asyncio.Task[int]") -> int:
    async with asyncio.timeout(20):
        return await task


async def test_arguments_variables_volumes_and_the_log_are_the_containers(
    house: House, make: Make, tmp_path: Path
) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume" / "a").write_text("from a volume")
    house.mounted = [Mount("/etc/settings", tmp_path / "volume")]
    made = make(
        "import os, sys; print(sys.argv[1:]); print(open(os.environ['MOORING_MOUNTS'] + '/etc/settings/a').read())\n"
        "print('to the error stream', file=sys.stderr); sys.stdout.write('no end of line')",
        args=["$(COLOR)", "$$(COLOR)", "$(OTHER)"],
    )
    assert await made.run_until_done("Never") == 0
    assert logged(house) == [
        "['blue', '$(COLOR)', '$(OTHER)']",
        "from a volume",
        "to the error stream",
        "no end of line",
    ]
    assert made.build_status().state.terminated is not None


@pytest.mark.parametrize(
    ("policy", "code", "runs"),
    [("Never", 3, 1), ("OnFailure", 0, 1), ("OnFailure", 3, 3), ("Always", 0, 3)],
    ids=str,
)
async def test_the_policy_says_whether_it_begins_again(
    policy: str, code: int, runs: int, house: House, make: Make
) -> None:
    made = make(f"raise SystemExit({code})")
    life = asyncio.create_task(made.run_until_done(policy))
    if runs == 1:
        assert await ended(life) == code
    else:
        await until(lambda: made.restarts >= 2)
        house.stopping = True
        assert await ended(life) == code
        assert made.last_state.terminated is not None
        assert made.last_state.terminated.exit_code == code
        assert not log_file(container_folder(house.folder, "u", "c"), 0).exists(), "the last two logs are kept"
    assert (made.restarts > 0) is (runs > 1)


async def test_a_signal_is_reported_as_by_a_shell(make: Make) -> None:
    made = make("import os; os.kill(os.getpid(), 9)")
    assert await made.run_until_done("Never") == 128 + signal.SIGKILL


async def test_a_program_that_cannot_be_started_says_why(house: House) -> None:
    made = container_of(house, Container(name="c", image="image"), Program("image", run=("/no/such/thing",)))
    assert await made.run_until_done("Never") != 0
    assert made.state.terminated is not None
    said = [made.state.terminated.message, *house.events, *logged(house)]
    assert any("No such file" in each for each in said)


@pytest.mark.parametrize(
    ("mount", "spec", "reported"),
    [
        ("/", {}, "Is a directory"),
        ("/a", {"args": ["zero \0 byte"]}, "null byte"),
        ("/away/victim", {}, "leads out of the pod's volumes"),
    ],
    ids=["a volume in place of everything", "a zero byte", "a link out of a volume"],
)
async def test_what_cannot_be_done_ends_the_run_with_the_reason(
    mount: str, spec: dict[str, object], reported: str, house: House, make: Make
) -> None:
    house.folder, outside = house.folder / "programs", house.folder / "outside"
    outside.mkdir()
    (outside / "victim").touch()
    (house.folder / "volume").mkdir(parents=True)
    seen = container_folder(house.folder, "u", "c") / "mounts"
    seen.mkdir(parents=True)
    (seen / "away").symlink_to(outside)
    house.mounted = [Mount(mount, house.folder / "volume")]
    made = make("", **spec)
    assert await made.run_until_done("Never") != 0
    assert made.state.terminated is not None
    assert made.state.terminated.reason == "StartError"
    assert reported in made.state.terminated.message
    assert (outside / "victim").is_file()
    assert not (outside / "victim").is_symlink()


async def test_a_path_with_steps_up_stays_below_the_containers_mounts(house: House, make: Make, tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "victim").write_text("kept")
    house.mounted = [Mount("/../../../../victim", tmp_path / "volume")]
    assert await make("import os; os.listdir(os.environ['MOORING_MOUNTS'] + '/victim')").run_until_done("Never") == 0
    assert (tmp_path / "victim").read_text() == "kept"


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap (Debian's package bubblewrap)")
async def test_a_program_with_a_root_sees_its_volumes_there_and_commands_enter_it(house: House, tmp_path: Path) -> None:
    for name in ("image/usr", "volume"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (tmp_path / "image" / name).symlink_to(f"usr/{name}")
    house.mounted = [Mount("/usr", Path("/usr"), read_only=True), Mount("/data", tmp_path / "volume")]
    script = "echo hello > /data/a; echo farewell > /dev/termination-log; until test -e /data/b; do sleep 0.1; done"
    spec = Container(name="c", image="image", termination_message_path="/dev/termination-log")
    program = Program("image", root=str(tmp_path / "image"), command=("/bin/sh", "-c", script))
    made = container_of(house, spec, program)
    life = asyncio.create_task(made.run_until_done("Never"))
    await until(lambda: made.process is not None and (tmp_path / "volume" / "a").exists())
    assert await made.run_command(["/bin/sh", "-c", "cat /data/a > /data/b"], 20) == 0
    assert await ended(life) == 0
    assert (tmp_path / "volume" / "b").read_text() == "hello\n"
    assert made.state.terminated is not None
    assert made.state.terminated.message == "farewell\n"


async def test_the_last_words_are_the_end_of_a_long_message(house: House, make: Make) -> None:
    file = container_folder(house.folder, "u", "c") / "termination-log"
    made = make(f"open({str(file)!r}, 'w').write('x' * 10_000 + 'the end')")
    assert await made.run_until_done("Never") == 0
    assert made.state.terminated is not None
    assert made.state.terminated.message.endswith("xthe end")
    assert len(made.state.terminated.message) == 4096


async def test_a_probe_that_takes_too_long_leaves_nothing_behind(house: House, make: Make, tmp_path: Path) -> None:
    script = f"sleep 60 & echo $! > {tmp_path}/sleeper; wait"
    probe = Probe(exec=ExecAction(command=["sh", "-c", script]), period_seconds=60, timeout_seconds=1)
    made = make("import time; time.sleep(60)", readiness_probe=probe)
    life = asyncio.create_task(made.run_until_done("Always"))
    await until(lambda: (tmp_path / "sleeper").exists() and (tmp_path / "sleeper").read_text().strip())
    await until(lambda: not is_alive(int((tmp_path / "sleeper").read_text())))
    life.cancel()
    await asyncio.gather(life, return_exceptions=True)


async def test_what_is_missing_is_waited_for(house: House, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "_CONFIG_SECONDS", 0.01)
    house.missing = ['secret "tls" not found']
    made = make("")
    assert await made.run_until_done("Never") == 0
    assert made.restarts == 0
    assert 'Failed: Error: secret "tls" not found' in house.events


async def test_it_may_say_farewell_within_its_time(house: House, make: Make) -> None:
    made = make(
        "import signal, time\n"
        "def farewell(*_):\n    print('farewell'); raise SystemExit(5)\n"
        "signal.signal(signal.SIGTERM, farewell); print('here')\ntime.sleep(60)",
        lifecycle=Lifecycle(pre_stop=LifecycleHandler(exec=ExecAction(command=["touch", str(house.folder / "told")]))),
    )
    life = asyncio.create_task(made.run_until_done("Always"))
    await until(lambda: made.process is not None and logged(house) == ["here"])
    house.stopping = True
    await made.stop(20)
    assert await ended(life) == 5
    assert logged(house) == ["here", "farewell"]
    assert (house.folder / "told").exists(), "the hook before the end has run"


async def test_who_does_not_end_is_killed_with_all_that_he_has_started(house: House, make: Make) -> None:
    made = make(
        "import signal, subprocess, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print(subprocess.Popen(['sleep', '60']).pid); time.sleep(60)"
    )
    life = asyncio.create_task(made.run_until_done("Always"))
    await until(lambda: made.process is not None and logged(house))
    house.stopping = True
    await made.stop(0.05)
    assert await ended(life) == 128 + signal.SIGKILL
    await until(lambda: not is_alive(int(logged(house)[0])))


async def test_probes_say_when_it_has_started_and_is_ready(house: House, make: Make, tmp_path: Path) -> None:
    def asks(name: str) -> Probe:
        return Probe(
            exec=ExecAction(command=["test", "-e", str(tmp_path / name)]), period_seconds=1, failure_threshold=60
        )

    made = make("import time; time.sleep(60)", startup_probe=asks("up"), readiness_probe=asks("ready"))
    life = asyncio.create_task(made.run_until_done("Always"))
    await until(lambda: made.process is not None)
    assert (made.started, made.ready) == (False, False)
    (tmp_path / "up").touch()
    await until(lambda: made.started)
    assert not made.ready
    (tmp_path / "ready").touch()
    await until(lambda: made.ready)
    (tmp_path / "ready").unlink()
    life.cancel()
    await asyncio.gather(life, return_exceptions=True)
    assert made.process is None


async def test_who_is_not_alive_is_started_again(house: House, make: Make) -> None:
    probe = Probe(exec=ExecAction(command=["false"]), period_seconds=1, failure_threshold=1)
    made = make("import time; time.sleep(60)", liveness_probe=probe)
    life = asyncio.create_task(made.run_until_done("Always"))
    await until(lambda: made.restarts > 0)
    life.cancel()
    await asyncio.gather(life, return_exceptions=True)
    assert "Unhealthy: Liveness probe failed" in house.events


async def test_a_log_that_grows_too_long_loses_its_older_half(
    house: House, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mooring.controllers.programs.process.MOST_LOG_BYTES", 20_000)
    assert await make("for n in range(2000): print(n, 'x' * 20)").run_until_done("Never") == 0
    lines = logged(house)
    assert lines[-1].startswith("1999 ")
    assert [int(line.split()[0]) for line in lines] == list(range(2000 - len(lines), 2000))
    assert sum(map(len, lines)) < 20_000


async def test_a_container_without_a_program_runs_for_ever(house: House) -> None:
    made = container_of(house, Container(name="c", image="other"), None)
    life = asyncio.create_task(made.run_until_done("Always"))
    await until(lambda: made.ready)
    life.cancel()
    await asyncio.gather(life, return_exceptions=True)
    assert made.state.running is not None
