"""Probe a container by a command, an HTTP request or a connection. Called by ``container.py``."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from urllib.parse import quote

from mooring.api.core_v1 import Container, Pod, Probe
from mooring.base.clock import Clock
from mooring.base.http_head import header_lines, request_line

Command = Callable[[list[str], float], Awaitable[int]]
"""Runs a command in the container within a timeout; returns its exit code."""
_HEAD = 64 * 1024
_TARGET_CHARACTERS = "/:~!$&'()*+,;=@%?"


async def succeeds(probe: Probe, pod: Pod, container: Container, command: Command) -> bool:
    """Probe once."""
    seconds = float(max(1, probe.timeout_seconds))
    try:
        async with asyncio.timeout(seconds):
            if probe.exec is not None:
                return await command(probe.exec.command, seconds) == 0
            if probe.http_get is not None:
                return await _http(probe, pod, container)
            if probe.tcp_socket is not None:
                host = probe.tcp_socket.host or pod.status.pod_ip
                _, writer = await asyncio.open_connection(host, _port(container, probe.tcp_socket.port))
                writer.close()
                return True
    except (OSError, TimeoutError, ValueError):
        return False
    return True  # an unsupported kind of probe


async def _http(probe: Probe, pod: Pod, container: Container) -> bool:
    asked = probe.http_get
    assert asked is not None  # noqa: S101 - the caller has looked
    host = asked.host or pod.status.pod_ip
    context = None
    if asked.scheme.upper() == "HTTPS":
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # as kubelets do
    port = _port(container, asked.port)
    headers = {"Host": f"{host}:{port}", "User-Agent": "kube-probe", "Accept": "*/*", "Connection": "close"}
    headers |= {each.name: each.value for each in asked.http_headers}
    path = asked.path if asked.path.startswith("/") else f"/{asked.path}"
    head = f"{request_line('GET', quote(path, safe=_TARGET_CHARACTERS))}{header_lines(headers.items())}\r\n"
    reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=_HEAD)
    try:
        writer.write(head.encode())
        await writer.drain()
        words = (await reader.readline()).split()
        return len(words) > 1 and 200 <= int(words[1]) < 400
    finally:
        writer.close()


def _port(container: Container, port: int | str) -> int:
    if isinstance(port, int):
        return port
    return next((each.container_port for each in container.ports if each.name == port), None) or int(port)


async def watched(
    probe: Probe, clock: Clock, ask: Callable[[], Awaitable[bool]], on_result: Callable[[bool], None]
) -> None:
    """Probe periodically; report a result after its threshold of consecutive ones."""
    await clock.sleep(probe.initial_delay_seconds)
    last, row = None, 0
    while True:
        answer = await ask()
        row = row + 1 if answer == last else 1
        last = answer
        if row >= max(1, probe.success_threshold if answer else probe.failure_threshold or 3):
            on_result(answer)
        await clock.sleep(max(1, probe.period_seconds or 10))


async def ended(task: "asyncio.Task[None] | None") -> None:
    """Cancel a task and wait for it."""
    if task is not None:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
