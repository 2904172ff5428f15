"""One container of a pod that runs a program: runs, restarts, probes and status.

A container without a program runs for ever, or completes at once as an init container. Constructed by ``pods.py``.
"""

import asyncio
import os
import signal
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

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
from mooring.api.environment import expand_references
from mooring.api.program_folders import Entrance, container_folder, log_file, read_entrance, write_entrance
from mooring.api.volume_files import MissingError
from mooring.base.http_head import header_lines, request_line
from mooring.base.processes import kill_and_wait, spawn
from mooring.controllers.programs import sandbox
from mooring.controllers.programs.file import Program
from mooring.controllers.programs.process import KILLED, LogFile, Process, StartError, start
from mooring.controllers.programs.sandbox import Mount
from mooring.controllers.simulated_nodes.pod_status import container_id, full_image, image_id
from mooring.controllers.simulated_nodes.pod_steps import backoff_seconds

if TYPE_CHECKING:
    from mooring.controllers.programs.pods import ProgramPod
Command = Callable[[list[str], float], Awaitable[int]]
"""A function that runs a command in the container within a timeout and returns its exit code."""
_HEAD = 64 * 1024
_TARGET_CHARACTERS = "/:~!$&'()*+,;=@%?"


async def probe_once(probe: Probe, pod: Pod, container: Container, command: Command) -> bool:
    """Run a container probe once; return whether it succeeded."""
    seconds = float(max(1, probe.timeout_seconds))
    try:
        async with asyncio.timeout(seconds):
            if probe.exec is not None:
                return await command(probe.exec.command, seconds) == 0
            if probe.http_get is not None:
                return await _probe_http(probe, pod, container)
            if probe.tcp_socket is not None:
                host = probe.tcp_socket.host or pod.status.pod_ip
                _, writer = await asyncio.open_connection(host, _resolve_port(container, probe.tcp_socket.port))
                writer.close()
                return True
    except (OSError, TimeoutError, ValueError):
        return False
    return True  # an unsupported kind of probe


async def _probe_http(probe: Probe, pod: Pod, container: Container) -> bool:
    wanted = probe.http_get
    assert wanted is not None  # noqa: S101 - the caller has looked
    host = wanted.host or pod.status.pod_ip
    context = None
    if wanted.scheme.upper() == "HTTPS":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # as kubelets do
    port = _resolve_port(container, wanted.port)
    headers = {"Host": f"{host}:{port}", "User-Agent": "kube-probe", "Accept": "*/*", "Connection": "close"}
    headers |= {each.name: each.value for each in wanted.http_headers}
    path = wanted.path if wanted.path.startswith("/") else f"/{wanted.path}"
    head = f"{request_line('GET', quote(path, safe=_TARGET_CHARACTERS))}{header_lines(headers.items())}\r\n"
    reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=_HEAD)
    try:
        writer.write(head.encode())
        await writer.drain()
        words = (await reader.readline()).split()
        return len(words) > 1 and 200 <= int(words[1]) < 400
    finally:
        writer.close()


def _resolve_port(container: Container, port: int | str) -> int:
    if isinstance(port, int):
        return port
    return next((each.container_port for each in container.ports if each.name == port), None) or int(port)


_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NOT_STARTED = 128
_LONGEST_MESSAGE = 4096
_CONFIG_SECONDS = 2.0
_HOOK_SECONDS = 3600
_WELL_SECONDS = 600.0
"""After a run of at least this many seconds, a program is restarted without delay, as by a kubelet."""


@dataclass
class ProgramContainer:
    """One container of a pod: the program for its image, if any, its process and its status."""

    handle: "ProgramPod"
    spec: Container
    program: Program | None
    restarts: int = 0
    state: ContainerState = field(default_factory=ContainerState)
    last_state: ContainerState = field(default_factory=ContainerState)
    ready: bool = False
    started: bool = False
    process: Process | None = None

    def resume(self, before: ContainerStatus) -> None:
        """Take over the status that an earlier control plane wrote; a running container then counts as killed."""
        self.restarts, self.state, self.last_state = before.restart_count, before.state, before.last_state
        if before.state.running is not None and self.program is not None:
            self._set_terminated(KILLED, before.state.running.started_at or "", "the control plane was stopped")

    def build_status(self) -> ContainerStatus:
        pod = self.handle.pod
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

    def set_waiting(self, reason: str, message: str = "") -> None:
        self._set_state(ContainerState(waiting=ContainerStateWaiting(reason=reason, message=message)))

    @property
    def exit_code(self) -> int | None:
        """Return the exit code of the last run; None while the container waits for its first run or is running."""
        return self.state.terminated.exit_code if self.state.terminated is not None else None

    # -- runs

    async def run_until_done(self, policy: str) -> int:
        """Run and restart the container by its restart policy; return the last exit code."""
        while True:
            code = self.exit_code
            if code is not None:
                if self.handle.stopping or policy == "Never" or (policy == "OnFailure" and code == 0):
                    return code
                await self._wait_for_backoff()
            await self.run()

    async def run(self) -> None:
        """Run the program once, until it ends."""
        program = self.program
        if program is None:
            self._set_running()
            await asyncio.Event().wait()
            return
        try:
            variables = await self.handle.build_container_variables(self.spec)
            mounts = self.handle.build_container_mounts(self.spec, variables)
        except MissingError as error:
            self.set_waiting("CreateContainerConfigError", str(error))
            self.handle.record_event("Warning", "Failed", f"Error: {error}")
            await self.handle.clock.sleep(_CONFIG_SECONDS)
            return
        self.restarts += 1 if (self.state.terminated or self.last_state.terminated) is not None else 0
        began = times.to_seconds(self.handle.clock.now())
        try:
            self.process = await self._start_process(program, variables, mounts)
        except (StartError, OSError) as error:
            self.handle.record_event("Warning", "Failed", f"Error: {error}")
            self._set_terminated(_NOT_STARTED, began, str(error), reason="StartError")
            return
        await self._supervise_process(self.process, began)

    async def _supervise_process(self, process: Process, began: str) -> None:
        self._set_running()
        self.handle.record_event("Normal", "Started", f"Container started: {self.spec.name}")
        probing = asyncio.create_task(self._run_probes())
        code = KILLED
        try:
            if self.spec.lifecycle and self.spec.lifecycle.post_start:
                await self._run_lifecycle_hook(self.spec.lifecycle.post_start)
            code = await process.wait()
        finally:
            await process.end()  # also when cancelled
            probing.cancel()
            with suppress(asyncio.CancelledError):
                await probing
            self.process = None
            self._set_terminated(code, began, self._read_termination_message())

    def _set_running(self) -> None:
        now = times.to_seconds(self.handle.clock.now())
        started = self.spec.startup_probe is None or self.program is None
        ready = started and (self.spec.readiness_probe is None or self.program is None)
        self._set_state(ContainerState(running=ContainerStateRunning(started_at=now)), started=started, ready=ready)

    def _set_terminated(self, code: int, began: str, message: str, *, reason: str = "") -> None:
        ended = ContainerStateTerminated(
            exit_code=code,
            reason=reason or ("Error" if code else "Completed"),
            message=message,
            started_at=began,
            finished_at=times.to_seconds(self.handle.clock.now()),
            container_id=container_id(self.handle.pod, self.spec.name, self.restarts),
        )
        self._set_state(ContainerState(terminated=ended))

    def _set_state(self, state: ContainerState, *, started: bool = False, ready: bool = False) -> None:
        if self.state.terminated is not None:
            self.last_state = ContainerState(terminated=self.state.terminated)
        self.state, self.started, self.ready = state, started, ready
        self.handle.request_status_write()

    async def _wait_for_backoff(self) -> None:
        ended = self.state.terminated
        delay = backoff_seconds(self.restarts)
        if ended is not None and ended.started_at and ended.finished_at:
            lasted = times.parse(ended.finished_at) - times.parse(ended.started_at)
            delay = 0.0 if lasted.total_seconds() >= _WELL_SECONDS else delay
        if delay:
            meta = self.handle.pod.metadata
            where = f"{meta.name}_{meta.namespace}({meta.uid})"
            message = f"back-off {delay:g}s restarting failed container={self.spec.name} pod={where}"
            self.set_waiting("CrashLoopBackOff", message)
            self.handle.record_event(
                "Warning", "BackOff", f"Back-off restarting failed container {self.spec.name} in pod {where}"
            )
            await self.handle.clock.sleep(delay)

    async def stop(self, seconds: float) -> None:
        """Send SIGTERM to the program, and SIGKILL after the grace period."""
        process = self.process
        if process is None:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                if self.spec.lifecycle and self.spec.lifecycle.pre_stop:
                    await self._run_lifecycle_hook(self.spec.lifecycle.pre_stop)
                process.send_signal(signal.SIGTERM)
                await process.wait()
        process.kill()

    # -- starting

    async def _start_process(self, program: Program, variables: dict[str, str], mounts: list[Mount]) -> Process:
        pod, folder = self.handle.pod, self._folder
        folder.mkdir(parents=True, exist_ok=True)
        self._message_file.write_bytes(b"")
        directory = self.spec.working_dir or program.working_dir
        if not program.root:
            mounted = {"MOORING_MOUNTS": self._create_mounts_folder(folder, mounts)}
            known = {**os.environ, **program.env, **mounted, **variables}
            write_entrance(folder, Entrance(self.handle.network, known, directory))
            words = [*self.handle.network, *self._build_command_line(program, known)]
            return await start(words, known, directory, self._open_log(folder), None)
        known = {"PATH": _PATH, "HOME": "/root", **program.env, **variables}
        if self.spec.termination_message_path:
            mounts = [*mounts, Mount(self.spec.termination_message_path, self._message_file)]
        layer = folder / "layer"
        await asyncio.to_thread(sandbox.create_layer, layer)  # a container starts from its image
        hostname = pod.spec.hostname or pod.metadata.name
        before = sandbox.build_isolation_command(
            Path(program.root), layer, mounts, hostname=hostname, directory=directory
        )
        info = os.pipe()
        words = [
            *self.handle.network,
            *before,
            *sandbox.report_process_id_options(info[1]),
            *self._build_command_line(program, known),
        ]
        process = await start(words, known, "", self._open_log(folder), info)
        write_entrance(
            folder,
            Entrance([*self.handle.network, *sandbox.build_enter_command(process.number, directory)], known, "/"),
        )
        return process

    def _open_log(self, folder: Path) -> LogFile:
        log_file(folder, self.restarts - 2).unlink(missing_ok=True)
        return LogFile(log_file(folder, self.restarts), self.handle.clock)

    def _create_mounts_folder(self, folder: Path, mounts: list[Mount]) -> str:
        """Create a folder with links to the mounted volumes; return its path."""
        seen = folder / "mounts"
        for mount in sorted(mounts):
            place = seen / os.path.normpath(mount.path).lstrip("/")
            if not place.parent.resolve().is_relative_to(self.handle.folder.resolve()):
                raise StartError(f"mountPath {mount.path!r} leads out of the pod's volumes")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            place.symlink_to(mount.source, target_is_directory=mount.source.is_dir())
        return str(seen)

    def _build_command_line(self, program: Program, variables: dict[str, str]) -> list[str]:
        if self.spec.command and not program.run:
            words = [*self.spec.command, *self.spec.args]
        else:
            words = [*(program.run or program.command), *(self.spec.args or program.args)]
        return [expand_references(word, variables) for word in words]

    @property
    def _folder(self) -> Path:
        return container_folder(self.handle.folder, self.handle.pod.metadata.uid, self.spec.name)

    @property
    def _message_file(self) -> Path:
        return self._folder / "termination-log"

    def _read_termination_message(self) -> str:
        with suppress(OSError), self._message_file.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _LONGEST_MESSAGE))
            return file.read(_LONGEST_MESSAGE).decode(errors="replace")
        return ""

    # -- probes

    async def run_command(self, words: list[str], seconds: float) -> int:
        """Run a command in the container; return its exit code."""
        entrance = read_entrance(self._folder)
        if entrance is None:
            return _NOT_STARTED
        try:
            process = await spawn(
                *entrance.words,
                *words,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                env=entrance.environment,
                cwd=entrance.directory or None,
            )
        except (OSError, ValueError):  # a zero byte in the command
            return _NOT_STARTED
        try:
            return await asyncio.wait_for(process.wait(), seconds)
        finally:
            if process.returncode is None:
                await kill_and_wait(process)

    async def _run_lifecycle_hook(self, handler: LifecycleHandler) -> None:
        if handler.sleep is not None:
            await self.handle.clock.sleep(handler.sleep.seconds)
            return
        wanted = Probe(exec=handler.exec, http_get=handler.http_get, timeout_seconds=_HOOK_SECONDS)
        await probe_once(wanted, self.handle.pod, self.spec, self.run_command)

    async def _run_probes(self) -> None:
        up = asyncio.Event()
        if self.spec.startup_probe is None:
            up.set()

        def handle_startup_result(succeeded: bool) -> None:
            if succeeded:
                self._set_readiness(started=True, ready=self.spec.readiness_probe is None)
                up.set()
            elif not up.is_set():
                self._kill_unhealthy("Startup")

        def handle_liveness_result(succeeded: bool) -> None:
            if not succeeded:
                self._kill_unhealthy("Liveness")

        async with asyncio.TaskGroup() as tasks:
            starting = tasks.create_task(self._probe_periodically(self.spec.startup_probe, handle_startup_result))
            await up.wait()
            starting.cancel()
            tasks.create_task(self._probe_periodically(self.spec.liveness_probe, handle_liveness_result))
            tasks.create_task(
                self._probe_periodically(
                    self.spec.readiness_probe, lambda succeeded: self._set_readiness(started=True, ready=succeeded)
                )
            )

    async def _probe_periodically(self, probe: Probe | None, on_result: Callable[[bool], None]) -> None:
        """Run a probe, if any; call `on_result` after as many equal results in a row as the threshold requires."""
        if probe is None:
            return
        await self.handle.clock.sleep(probe.initial_delay_seconds)
        last, repeated = None, 0
        while True:
            succeeded = await probe_once(probe, self.handle.pod, self.spec, self.run_command)
            repeated = repeated + 1 if succeeded == last else 1
            last = succeeded
            if repeated >= max(1, probe.success_threshold if succeeded else probe.failure_threshold or 3):
                on_result(succeeded)
            await self.handle.clock.sleep(max(1, probe.period_seconds or 10))

    def _set_readiness(self, *, started: bool, ready: bool) -> None:
        if (self.started, self.ready) != (started, ready):
            self.started, self.ready = started, ready
            self.handle.request_status_write()

    def _kill_unhealthy(self, which: str) -> None:
        self.handle.record_event("Warning", "Unhealthy", f"{which} probe failed")
        self.handle.record_event(
            "Normal", "Killing", f"Container {self.spec.name} failed {which.lower()} probe, will be restarted"
        )
        if self.process is not None:
            self.process.kill()
