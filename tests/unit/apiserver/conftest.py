"""The fixture `api`: the server's handlers on a store in memory, called without a socket."""

from collections.abc import AsyncIterator

import pytest

from api_caller import ApiCaller, api_caller


@pytest.fixture
async def api() -> AsyncIterator[ApiCaller]:
    async with api_caller() as caller:
        yield caller
