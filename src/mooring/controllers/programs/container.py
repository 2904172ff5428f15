"""One container of a pod that runs a program: its runs, restarts and probes, and what its status says of them.

A container whose image stands for no program runs for ever and does nothing; as an init container it is done at once.
Made by ``pod.py``.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mooring.api import times
from mooring.api.core_v1 import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    LifecycleHandler,
    Pod,
    Probe,
)
from mooring.api.environment import with_references
from mooring.api.program_folders import Entrance, container_folder, log_file, read_entrance, write_entrance
from mooring.api.volume_files import MissingError
from mooring.base.clock import Clock
from mooring.base.processes import end, spawned
from mooring.controllers.programs import probes, sandbox
from mooring.controllers.programs.file import Program
from mooring.controllers.programs.process import KILLED, LogFile, Process, StartError, start
from mooring.controllers.programs.sandbox import Mount
from mooring.controllers.simulated_nodes.pod_status import container_id, full_image, image_id
from mooring.controllers.simulated_nodes.pod_steps import backoff_seconds

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NOT_STARTED = 128
_LONGEST_MESSAGE = 4096
_CONFIG_SECONDS = 2.0
_HOOK_SECONDS = 3600
_WELL_SECONDS = 600.0
"""Who ran for so long starts again at once, as with a kubelet."""


class Home(Protocol):
    """The pod that a container is in, as the container sees it."""

    pod: Pod
    clock: Clock
    folder: Path
    stopping: bool
    network: list[str]
    """What stands before a command so that it runs in the pod's network."""

    async def variables(self, container: Container) -> dict[str, str]: ...
    def mounts(self, container: Container, variables: dict[str, str]) -> list[Mount]: ...
    def publish(self) -> None: ...
    def event(self, kind: str, reason: str, note: str) -> None: ...


@dataclass
class ProgramContainer:
    """A container, and how it is now."""

    home: Home
    spec: Container
    program: Program | None
    restarts: int = 0
    state: ContainerState = field(default_factory=ContainerState)
    last_state: ContainerState = field(default_factory=ContainerState)
    ready: bool = False
    started: bool = False
    process: Process | None = None

    def resume(self, before: ContainerStatus) -> None:
        """Go on where a control plane that was stopped has left the container: its process ended with that."""
        self.restarts, self.state, self.last_state = before.restart_count, before.state, before.last_state
        if before.state.running is not None and self.program is not None:
            self._end(KILLED, before.state.running.started_at or "", "the control plane was stopped")

    def status(self) -> ContainerStatus:
        pod = self.home.pod
        waits = self.state.waiting is not None and self.last_state.terminated is None
        return ContainerStatus(
            name=self.spec.name,
            state=self.state,
            last_state=self.last_state,
            ready=self.ready,
            restart_count=self.restarts,
            image=self.spec.image if waits else full_image(self.spec.image),
            image_id="" if waits else image_id(self.spec.image),
            container_id="" if waits else container_id(pod, self.spec.name, self.restarts),
            started=self.started,
            allocated_resources={} if waits else self.spec.resources.requests,
            resources=self.spec.resources,
        )

    def wait(self, reason: str, message: str = "") -> None:
        if self.state.terminated is not None:
            self.last_state = ContainerState(terminated=self.state.terminated)
        self.state = ContainerState(waiting=ContainerStateWaiting(reason=reason, message=message))
        self.ready = self.started = False
        self.home.publish()

    @property
    def exit_code(self) -> int | None:
        """How the last run ended; None while one goes on."""
        return self.state.terminated.exit_code if self.state.terminated is not None else None

    # -- runs

    async def live(self, policy: str) -> int:
        """Run, and run again as the policy says; the exit code of the last run."""
        while True:
            code = self.exit_code
            if code is not None:
                if self.home.stopping or policy == "Never" or (policy == "OnFailure" and code == 0):
                    return code
                await self._back_off()
            await self.run()

    async def run(self) -> None:
        """Run once, until it ends."""
        program = self.program
        if program is None:
            self._runs()
            await asyncio.Event().wait()
            return
        try:
            variables = await self.home.variables(self.spec)
            mounts = self.home.mounts(self.spec, variables)
        except MissingError as error:
            self.wait("CreateContainerConfigError", str(error))
            self.home.event("Warning", "Failed", f"Error: {error}")
            await self.home.clock.sleep(_CONFIG_SECONDS)
            return
        self.restarts += 1 if (self.state.terminated or self.last_state.terminated) is not None else 0
        began = times.to_seconds(self.home.clock.now())
        try:
            self.process = await self._start(program, variables, mounts)
        except (StartError, OSError) as error:
            self.home.event("Warning", "Failed", f"Error: {error}")
            self._end(_NOT_STARTED, began, str(error), reason="StartError")
            return
        await self._accompany(self.process, began)

    async def _accompany(self, process: Process, began: str) -> None:
        """Be with a process until it ends."""
        self._runs()
        self.home.event("Normal", "Started", f"Container started: {self.spec.name}")
        probing = asyncio.create_task(self._probe())
        code = KILLED
        try:
            if self.spec.lifecycle and self.spec.lifecycle.post_start:
                await self._hook(self.spec.lifecycle.post_start)
            code = await process.wait()
        finally:
            await process.end()  # also when this was cancelled: nothing is left behind
            await probes.ended(probing)
            self.process = None
            self._end(code, began, self._message())

    def _runs(self) -> None:
        if self.state.terminated is not None:
            self.last_state = ContainerState(terminated=self.state.terminated)
        now = times.to_seconds(self.home.clock.now())
        self.state = ContainerState(running=ContainerStateRunning(started_at=now))
        self.started = self.spec.startup_probe is None or self.program is None
        self.ready = self.started and (self.spec.readiness_probe is None or self.program is None)
        self.home.publish()

    def _end(self, code: int, began: str, message: str, *, reason: str = "") -> None:
        ended = ContainerStateTerminated(
            exit_code=code,
            reason=reason or ("Error" if code else "Completed"),
            message=message,
            started_at=began,
            finished_at=times.to_seconds(self.home.clock.now()),
            container_id=container_id(self.home.pod, self.spec.name, self.restarts),
        )
        if self.state.terminated is not None:
            self.last_state = ContainerState(terminated=self.state.terminated)
        self.state = ContainerState(terminated=ended)
        self.ready = self.started = False
        self.home.publish()

    async def _back_off(self) -> None:
        ended = self.state.terminated
        delay = backoff_seconds(self.restarts)
        if ended is not None and ended.started_at and ended.finished_at:
            lasted = times.parse(ended.finished_at) - times.parse(ended.started_at)
            delay = 0.0 if lasted.total_seconds() >= _WELL_SECONDS else delay
        if delay:
            meta = self.home.pod.metadata
            where = f"{meta.name}_{meta.namespace}({meta.uid})"
            message = f"back-off {delay:g}s restarting failed container={self.spec.name} pod={where}"
            self.wait("CrashLoopBackOff", message)
            self.home.event(
                "Warning", "BackOff", f"Back-off restarting failed container {self.spec.name} in pod {where}"
            )
            await self.home.clock.sleep(delay)

    async def stop(self, seconds: float) -> None:
        """Ask the process to end, and end it when the time is over."""
        process = self.process
        if process is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                if self.spec.lifecycle and self.spec.lifecycle.pre_stop:
                    await self._hook(self.spec.lifecycle.pre_stop)
                process.signal(signal.SIGTERM)
                await process.wait()
        process.kill()

    # -- how a process begins

    async def _start(self, program: Program, variables: dict[str, str], mounts: list[Mount]) -> Process:
        pod = self.home.pod
        folder = container_folder(self.home.folder, pod.metadata.uid, self.spec.name)
        folder.mkdir(parents=True, exist_ok=True)
        self._message_file.write_bytes(b"")
        directory = self.spec.working_dir or program.working_dir
        if not program.root:
            known = {**os.environ, **program.env, **self._seen_by_path(folder, mounts), **variables}
            write_entrance(folder, Entrance(self.home.network, known, directory))
            words = [*self.home.network, *self._words(program, known)]
            return await start(words, known, directory, self._log(folder), None)
        known = {"PATH": _PATH, "HOME": "/root", **program.env, **variables}
        if self.spec.termination_message_path:
            mounts = [*mounts, Mount(self.spec.termination_message_path, self._message_file)]
        layer = folder / "layer"
        await asyncio.to_thread(sandbox.clear, layer)  # a container begins with what its image has
        info = os.pipe()
        before = sandbox.isolated(
            Path(program.root),
            layer,
            mounts,
            hostname=pod.spec.hostname or pod.metadata.name,
            directory=directory,
            info=info[1],
        )
        words = [*self.home.network, *before, *self._words(program, known)]
        process = await start(words, known, "", self._log(folder), info)
        write_entrance(folder, Entrance([*self.home.network, *sandbox.entering(process.number, directory)], known, "/"))
        return process

    def _log(self, folder: Path) -> LogFile:
        """A new one; the last two are kept, as with a kubelet."""
        log_file(folder, self.restarts - 2).unlink(missing_ok=True)
        return LogFile(log_file(folder, self.restarts), self.home.clock)

    def _seen_by_path(self, folder: Path, mounts: list[Mount]) -> dict[str, str]:
        """Put volumes where a program without a file system of its own finds them: a variable names that folder."""
        seen = folder / "mounts"
        for mount in sorted(mounts):
            place = seen / os.path.normpath(mount.path).lstrip("/")
            if not place.parent.resolve().is_relative_to(self.home.folder.resolve()):
                raise StartError(f"mountPath {mount.path!r} leads out of the pod's volumes")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            place.symlink_to(mount.source, target_is_directory=mount.source.is_dir())
        return {"MOORING_MOUNTS": str(seen)}

    def _words(self, program: Program, variables: dict[str, str]) -> list[str]:
        """The command line, as Kubernetes puts it together of the container's and the image's."""
        if program.run:
            words = [*program.run, *(self.spec.args or program.args)]
        elif self.spec.command:
            words = [*self.spec.command, *self.spec.args]
        else:
            words = [*program.command, *(self.spec.args or program.args)]
        return [with_references(word, variables) for word in words]

    @property
    def _message_file(self) -> Path:
        return container_folder(self.home.folder, self.home.pod.metadata.uid, self.spec.name) / "termination-log"

    def _message(self) -> str:
        """What the container has left as its last words."""
        with suppress(OSError), self._message_file.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LONGEST_MESSAGE))
            return file.read(_LONGEST_MESSAGE).decode(errors="replace")
        return ""

    # -- how it is

    async def command(self, words: list[str], seconds: float) -> int:
        """Run a command where the process runs; its exit code."""
        folder = container_folder(self.home.folder, self.home.pod.metadata.uid, self.spec.name)
        entrance = read_entrance(folder)
        if entrance is None:
            return _NOT_STARTED
        try:
            process = await spawned(
                *entrance.words,
                *words,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env=entrance.environment,
                cwd=entrance.directory or None,
            )
        except (OSError, ValueError):  # a zero byte is no part of a command
            return _NOT_STARTED
        try:
            return await asyncio.wait_for(process.wait(), seconds)
        finally:
            if process.returncode is None:
                await end(process)

    async def _hook(self, handler: LifecycleHandler) -> None:
        if handler.sleep is not None:
            await self.home.clock.sleep(handler.sleep.seconds)
            return
        asked = Probe(exec=handler.exec, http_get=handler.http_get, timeout_seconds=_HOOK_SECONDS)
        await probes.succeeds(asked, self.home.pod, self.spec, self.command)

    async def _probe(self) -> None:
        """Ask all probes until cancelled: the one for the start first, then the others."""
        up = asyncio.Event()
        if self.spec.startup_probe is None:
            up.set()

        def begun(well: bool) -> None:
            if well:
                self._set(started=True, ready=self.spec.readiness_probe is None)
                up.set()
            elif not up.is_set():
                self._unhealthy("Startup")

        def alive(well: bool) -> None:
            if not well:
                self._unhealthy("Liveness")

        async with asyncio.TaskGroup() as tasks:
            starting = tasks.create_task(self._watch(self.spec.startup_probe, begun))
            await up.wait()
            starting.cancel()
            tasks.create_task(self._watch(self.spec.liveness_probe, alive))
            tasks.create_task(self._watch(self.spec.readiness_probe, lambda well: self._set(started=True, ready=well)))

    async def _watch(self, probe: Probe | None, told: Callable[[bool], None]) -> None:
        if probe is not None:
            ask = lambda: probes.succeeds(probe, self.home.pod, self.spec, self.command)  # noqa: E731 - short
            await probes.watched(probe, self.home.clock, ask, told)

    def _set(self, *, started: bool, ready: bool) -> None:
        if (self.started, self.ready) != (started, ready):
            self.started, self.ready = started, ready
            self.home.publish()

    def _unhealthy(self, which: str) -> None:
        self.home.event("Warning", "Unhealthy", f"{which} probe failed")
        self.home.event(
            "Normal", "Killing", f"Container {self.spec.name} failed {which.lower()} probe, will be restarted"
        )
        if self.process is not None:
            self.process.kill()
