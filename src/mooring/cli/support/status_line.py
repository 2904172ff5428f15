"""The status of `mooring up`: a changing line on a terminal, otherwise a line per change.

Nodes and pods are counted by watching the store. Of several changes of a pod within 0.3 s only the last is decoded, and
only its phase and node.
"""

import asyncio
import os
import shutil
import sys
import time
from collections import Counter

import click
import msgspec

from mooring.api.scheme import Scheme
from mooring.apiserver.registry.storage.stored import Stored
from mooring.base import logs
from mooring.base.logs import CLEAR_LINE
from mooring.store.errors import Closed, RevisionError, StoreError
from mooring.store.kv import KeyValue, Store

_ON_TERMINAL_SECONDS = 0.5
_PLAIN_SECONDS = 10.0
_COLORS = {"Running": "green", "Pending": "yellow", "Failed": "red"}
_RETRY_SECONDS = 1.0
_REST_SECONDS, _MAX_EVENTS = 0.3, 10_000
"""The interval between updates, and the most events per update."""
log = logs.get(__name__)


def print_line(text: str, *, end: bool = True) -> None:
    """Print text to standard output; do nothing if its reader is gone, as in `mooring up | head -1`."""
    try:
        click.echo(text, nl=end)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class StatusLine:
    """The status line of `mooring up`: `run` prints the numbers of nodes and pods until it is cancelled."""

    def __init__(self, counts: "ObjectCounts", *, on_terminal: bool) -> None:
        self._counts = counts
        self._on_terminal = on_terminal
        self._last = ""

    async def run(self) -> None:
        seconds = _ON_TERMINAL_SECONDS if self._on_terminal else _PLAIN_SECONDS
        bound, then = self._counts.bound, time.monotonic()
        try:
            while True:
                await asyncio.sleep(seconds)
                now = time.monotonic()
                rate = (self._counts.bound - bound) / (now - then)
                bound, then = self._counts.bound, now
                self._print(await self._build_text(rate))
        finally:
            if self._on_terminal:
                print_line(CLEAR_LINE, end=False)

    async def _build_text(self, rate: float) -> str:
        phases = {phase: number for phase, number in sorted(self._counts.phases.items()) if number}
        pods = ", ".join(click.style(f"{number} {phase}", fg=_COLORS.get(phase)) for phase, number in phases.items())
        nodes = await self._counts.nodes()
        text = f"{nodes} node{'s' * (nodes != 1)} · pods: {pods or 'none'}"
        return f"{text} · {rate:.3g} scheduled/s" if rate else text

    def _print(self, text: str) -> None:
        if self._on_terminal:
            width = shutil.get_terminal_size().columns
            plain = click.unstyle(text)
            print_line(CLEAR_LINE + (text if len(plain) < width else plain[: width - 1]), end=False)
        elif text != self._last:
            print_line(click.unstyle(text))
        self._last = text


class _Spec(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""


class _Status(msgspec.Struct, gc=False):
    phase: str = ""


class _Pod(msgspec.Struct, gc=False):
    spec: _Spec
    status: _Status


_decode = msgspec.json.Decoder(_Pod).decode


class ObjectCounts:
    """Counts nodes, and pods by phase, by watching a store."""

    def __init__(self, store: Store, scheme: Scheme) -> None:
        self._store = store
        self._pod_prefix, self._node_prefix = (_key_prefix_of(scheme, kind) for kind in ("Pod", "Node"))
        self._pods: dict[str, tuple[str, bool]] = {}
        """Phase, and whether it has a node, by key."""
        self.phases: Counter[str] = Counter()
        self.bound = 0
        """Pods that were given a node since the counting began."""

    async def nodes(self) -> int:
        return await self._store.count(self._node_prefix)

    async def run(self) -> None:
        """Count until the store is closed."""
        while True:
            try:
                page = await self._store.range(self._pod_prefix)
                self._pods = {kv.key: _phase_and_placement(kv) for kv in page.items}
                self.phases = Counter(phase for phase, _ in self._pods.values())
                await self._follow_changes(page.revision)
            except RevisionError:
                continue
            except Closed:
                return
            except StoreError as error:
                log.debug("pods cannot be counted for a while: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _follow_changes(self, revision: int) -> None:
        with self._store.watch(self._pod_prefix, after=revision) as watcher:
            while True:
                latest = {event.key: event.current for event in (await watcher.next(limit=_MAX_EVENTS)).events}
                for key, current in latest.items():
                    self._count_change(key, current)
                await asyncio.sleep(_REST_SECONDS)  # so that of several changes of a pod only the last is looked at

    def _count_change(self, key: str, current: KeyValue | None) -> None:
        phase, had_node = self._pods.pop(key, ("", False))
        if phase:
            self.phases[phase] -= 1
        if current is None:
            return
        phase, has_node = self._pods[key] = _phase_and_placement(current)
        self.phases[phase] += 1
        self.bound += has_node and not had_node


def _key_prefix_of(scheme: Scheme, name: str) -> str:
    kind = scheme.kind("v1", name)
    assert kind is not None  # noqa: S101 - every version serves the core kinds
    return Stored(scheme, kind).prefix


def _phase_and_placement(kv: KeyValue) -> tuple[str, bool]:
    pod = _decode(kv.value)
    return sys.intern(pod.status.phase or "Pending"), bool(pod.spec.node_name)
