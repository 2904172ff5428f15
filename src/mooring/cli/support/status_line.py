"""The status of `mooring up`: a changing line on a terminal, otherwise a line per change."""

import asyncio
import os
import shutil
import sys
import time

import click

from mooring.base.logs import CLEAR_LINE
from mooring.cli.support.object_counts import ObjectCounts

_ON_TERMINAL_SECONDS = 0.5
_PLAIN_SECONDS = 10.0
_COLORS = {"Running": "green", "Pending": "yellow", "Failed": "red"}


def print_line(text: str, *, end: bool = True) -> None:
    """Print; continue silently if the reader is gone, as in `mooring up | head -1`."""
    try:
        click.echo(text, nl=end)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class StatusLine:
    """Print counts until cancelled."""

    def __init__(self, counts: ObjectCounts, *, on_terminal: bool) -> None:
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
                self._print(await self._text(rate))
        finally:
            if self._on_terminal:
                print_line(CLEAR_LINE, end=False)

    async def _text(self, rate: float) -> str:
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
