"""A server on a store in memory, attacked through its edge by users with few rights."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app_calls import ADMIN, Caller, running
from mooring.apiserver.server import ApiServer


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ApiServer]:
    async with running(tmp_path) as found:
        yield found


@pytest.fixture
def call(server: ApiServer) -> Caller:
    """Return the administrator."""
    return Caller(server.app, ADMIN)
