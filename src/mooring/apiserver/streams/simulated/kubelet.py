"""`SimulatedKubelet` answers requests to simulated nodes: logs, commands, forwarded ports and proxies."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from mooring.api import codec, errors
from mooring.api.core_v1 import Node, Pod
from mooring.api.meta_v1 import list_of
from mooring.api.quoting import go_quote
from mooring.api.simulation import FAILURE, is_unreachable
from mooring.apiserver.messages.connection import Connection
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.registry.storage.objects import Objects
from mooring.apiserver.streams.kubelet import KubeletTarget, ProxiedRequest
from mooring.apiserver.streams.query_options import CommandOptions, LogOptions, read_command_options, read_ports
from mooring.apiserver.streams.simulated import container, logs, port_forward, remote_command
from mooring.apiserver.streams.simulated.commands import CommandContext, repeat_input, run_command, run_main_process
from mooring.apiserver.streams.simulated.pod_annotations import FILES, read_declared_log
from mooring.apiserver.streams.simulated.port_forward import SPDY_NAME, TUNNELLED, forward_over_spdy
from mooring.apiserver.streams.simulated.terminal import Stdio
from mooring.apiserver.streams.simulated.volumes import IssueToken, read_mounted_files
from mooring.apiserver.streams.websocket import WebSocketByteStream, WebSocketChannels, negotiate_websocket
from mooring.base.bounded_cache import BoundedCache
from mooring.base.clock import Clock
from mooring.shell import Outcome

if TYPE_CHECKING:
    from mooring.apiserver.streams.simulated.programs import ProgramStreams

_TEXT = "text/plain"
_SPDY = "SPDY/3.1"
_SPDY_PROTOCOL = "x-stream-protocol-version"
_REMEMBERED = 100
"""The maximum number of cached outputs of runs, each at most a quarter of a megabyte."""


class SimulatedKubelet:
    """The `Kubelet` of all simulated nodes; `programs` are containers run as real processes here (`--programs`)."""

    def __init__(
        self, objects: Objects, clock: Clock, issue: IssueToken, programs: "ProgramStreams | None" = None
    ) -> None:
        self._objects = objects
        self._clock = clock
        self._issue = issue
        self._programs = programs
        self._outcomes: BoundedCache[tuple[object, ...], Outcome | None] = BoundedCache(_REMEMBERED)

    # -- logs

    async def log(self, target: KubeletTarget, options: LogOptions) -> Response:
        _require_reachable(target.node)
        now = self._clock.now()
        log = await self._read_container_log(target, target.pod, previous=options.previous)
        if options.follow and not options.previous:
            pieces = self._follow_container_log(target, log, options)
        else:
            pieces = logs.select_lines(log, options, now)
        return Response(200, logs.limit_log(pieces, options.limit_bytes), _TEXT)

    async def _follow_container_log(
        self, target: KubeletTarget, log: logs.Log, options: LogOptions
    ) -> AsyncIterator[bytes]:
        now = self._clock.now()
        written = log.count(now)
        async for piece in logs.select_lines(log, options, now):
            yield piece

        async def read_log_again() -> logs.Log | None:
            """Return the log of the same run now; None if the pod or the run no longer exists."""
            metadata = target.pod.metadata
            pod = await self._objects.get(Pod, metadata.name, metadata.namespace)
            if pod is None or pod.metadata.uid != metadata.uid:
                return None
            try:
                for previous in (False, True):
                    found = await self._read_container_log(target, pod, previous=previous)
                    if found.run.began == log.run.began:
                        return found
            except errors.StatusError:
                pass  # the container has no run
            return None

        async for piece in logs.follow_lines(log, options, self._clock, read_log_again, written):
            yield piece

    async def _read_container_log(self, target: KubeletTarget, pod: Pod, *, previous: bool = False) -> logs.Log:
        """Return the log of a container's current or previous run.

        Its source is the first of: a real process (`--programs`), the pod's annotations, the output that the shell
        computes for the container's command, a default line.
        """
        name = target.container
        run = container.find_previous_run(pod, name) if previous else container.find_latest_run(pod, name)
        if self._programs is not None and self._programs.has(pod, name):
            return await asyncio.to_thread(self._programs.log, pod, name, run)  # reads up to 10 MiB
        declared = read_declared_log(pod, name)
        if declared.lines is not None:
            return logs.make_declared_log(run, declared)
        outcome = await self._run_main_process_once(pod, name, run)
        if outcome is not None:
            return logs.make_command_log(run, outcome)
        spec = container.find_container_spec(pod, name)
        image = spec.image if spec else ""
        return logs.make_default_log(
            run, f"container {name} ({image}) started on the simulated node {pod.spec.node_name}"
        )

    async def _run_main_process_once(self, pod: Pod, name: str, run: container.ContainerRun) -> Outcome | None:
        key = (pod.metadata.uid, pod.metadata.annotations.get(FILES, ""), name, run.began)
        if key not in self._outcomes:
            context = await self._make_command_context(pod, name)
            self._outcomes.put(key, await asyncio.to_thread(run_main_process, context, run))  # may run for long
        return self._outcomes.get(key)

    async def _make_command_context(self, pod: Pod, name: str) -> CommandContext:
        return CommandContext(pod, name, self._clock, await read_mounted_files(self._objects, self._issue, pod, name))

    # -- exec, attach and port-forward

    async def connect(self, target: KubeletTarget, subresource: str, request: Request) -> Response:
        _require_reachable(target.node)
        if subresource == "portforward":
            return self._respond_to_port_forward(target, request)
        container.find_current_run(target.pod, target.container)
        options = read_command_options(request)
        if subresource == "exec" and not options.command:
            raise errors.bad_request("you must specify at least one command for the container")
        protocol, headers = _negotiate(request, remote_command.SPDY_PROTOCOL, remote_command.PROTOCOLS)
        process = (
            self._make_exec_process(target, options) if subresource == "exec" else self._make_attach_process(target)
        )

        async def take_over(connection: Connection) -> None:
            channels: remote_command.CommandChannels
            if headers["upgrade"] == _SPDY:
                channels = await remote_command.SpdyChannels.open(connection, options)
            else:
                channels = WebSocketChannels(connection, protocol)
            await remote_command.connect_process(channels, protocol, options, process)

        return Response(101, headers=headers, take_over=take_over)

    def _make_exec_process(self, target: KubeletTarget, options: CommandOptions) -> remote_command.Process:
        async def process(stdio: Stdio) -> int:
            if self._programs is not None and self._programs.has(target.pod, target.container):
                return await self._programs.command(target.pod, target.container, options.command, stdio)
            context = await self._make_command_context(target.pod, target.container)
            return await run_command(context, options.command, stdio)

        return process

    def _make_attach_process(self, target: KubeletTarget) -> remote_command.Process:
        """Return a function that sends a container's log to a client and echoes input."""

        async def write(stdio: Stdio) -> int:
            log = await self._read_container_log(target, target.pod)
            async for piece in self._follow_container_log(target, log, LogOptions(follow=True, tail_lines=0)):
                await stdio.out(piece)
            return 0

        if self._programs is not None and self._programs.has(target.pod, target.container):
            return write  # a program was started without input

        async def process(stdio: Stdio) -> int:
            repeating = asyncio.create_task(repeat_input(stdio))
            try:
                return await write(stdio)
            finally:
                repeating.cancel()
                await asyncio.gather(repeating, return_exceptions=True)

        return process

    def _respond_to_port_forward(self, target: KubeletTarget, request: Request) -> Response:
        phase = target.pod.status.phase
        if phase != "Running":
            raise errors.bad_request(f"unable to forward port because pod is not running. Current status={phase}")
        if self._programs is not None and self._programs.has(target.pod):
            address = target.pod.status.pod_ip
            raise errors.bad_request(f"a program's ports are not forwarded: they are at {address}, on this machine")
        protocol, headers = _negotiate(request, SPDY_NAME, port_forward.PROTOCOLS)
        wanted = read_ports(request)
        if not wanted and protocol not in {SPDY_NAME, TUNNELLED}:  # in SPDY each stream names its port
            raise errors.bad_request("the parameter ports must name at least one port")

        async def take_over(connection: Connection) -> None:
            if protocol == SPDY_NAME:
                await forward_over_spdy(connection, target.pod)
            elif protocol == TUNNELLED:
                await forward_over_spdy(WebSocketByteStream(connection), target.pod)
            else:
                await port_forward.forward_over_websocket(connection, protocol, target.pod, wanted)

        return Response(101, headers=headers, take_over=take_over)

    # -- proxies

    async def proxy_pod(self, target: KubeletTarget, proxied: ProxiedRequest) -> Response:
        _require_reachable(target.node)
        if target.pod.status.phase != "Running":
            name = go_quote(target.pod.metadata.name)
            raise errors.service_unavailable(f"error trying to reach {name}: the pod does not run")
        if self._programs is not None and self._programs.has(target.pod):
            return await self._programs.machines.proxy_pod(target, proxied)
        body = port_forward.make_response_body(target.pod, proxied.port or "80", proxied.request.method, proxied.path)
        return Response(200, body, _TEXT)

    async def proxy_node(self, node: Node, proxied: ProxiedRequest) -> Response:
        _require_reachable(node)
        match proxied.path:
            case "/healthz":
                return Response(200, b"ok", _TEXT)
            case "/pods" | "/pods/":
                pods = await self._objects.list(Pod)
                own = [pod for pod in pods if pod.spec.node_name == node.metadata.name]
                return Response(200, codec.encode(list_of(Pod)(kind="PodList", api_version="v1", items=own)))
        return Response(404, b"404 page not found: simulated kubelets have /healthz and /pods\n", _TEXT)


def _negotiate(request: Request, spdy_protocol: str, websocket_protocols: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the protocol of an upgrade, over SPDY or WebSocket, and the response's headers.

    Raise BadRequest if the client offers none that is known.
    """
    if not request.upgrade.startswith("spdy/3.1"):
        return negotiate_websocket(request, websocket_protocols)
    offered = [word.strip() for word in request.headers.get(_SPDY_PROTOCOL, "").split(",")]
    if spdy_protocol not in offered:
        raise errors.bad_request(f"unable to upgrade: the header {_SPDY_PROTOCOL} does not offer {spdy_protocol}")
    return spdy_protocol, {"upgrade": _SPDY, "connection": "Upgrade", _SPDY_PROTOCOL: spdy_protocol}


def _require_reachable(node: Node) -> None:
    if is_unreachable(node):
        why = f"its annotation {FAILURE} says so"
        raise errors.service_unavailable(f"the kubelet of node {go_quote(node.metadata.name)} does not answer: {why}")
