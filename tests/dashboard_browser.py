"""Dashboards that a real browser can look at, and pages that remember what went wrong on them."""

import asyncio
import threading
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Protocol

from playwright.sync_api import Page

from mooring.advisor.simulate import Settings
from mooring.advisor.snapshot import Snapshot
from mooring.base import component
from mooring.dashboard.access import Access
from mooring.dashboard.options import Running
from mooring.dashboard.server import DashboardServer


@dataclass
class Watched:
    """A page, and what went wrong on it."""

    page: Page
    problems: list[str] = field(default_factory=list)


class Look(Protocol):
    """Opens a page of a size and a colour scheme."""

    def __call__(self, width: int = 1280, height: int = 900, scheme: str = "light") -> Watched: ...


class Servers:
    """Dashboards in a thread with an event loop of its own, as many as tests ask for."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._stack = AsyncExitStack()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def start(self, access: Access) -> str:
        """Return the address of a dashboard."""

        async def entered() -> str:
            server = await self._stack.enter_async_context(DashboardServer(access))
            assert await server.cluster.ready(), server.cluster.problem
            return server.url

        return asyncio.run_coroutine_threadsafe(entered(), self._loop).result(60)

    def of(self, snapshot: Snapshot) -> str:
        running = Running(component.resolve())
        return self.start(Access(origin=snapshot.origin, settings=Settings(), running=running, read=lambda: snapshot))

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._stack.aclose(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
