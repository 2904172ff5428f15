"""Serve clients in the same process, by ``client/in_process.py`` instead of a socket."""

from collections import defaultdict
from collections.abc import Awaitable, Callable

from mooring.api.authentication_v1 import UserInfo
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.requests.app import Application
from mooring.client import transport


def handler(app: Application, user: UserInfo) -> Callable[[transport.Request], Awaitable[Response]]:
    """Return a function that serves a user's requests from this process, authorized and limited as from the network."""

    async def answer(asked: transport.Request) -> Response:
        query: dict[str, list[str]] = defaultdict(list)
        for name, value in asked.query:
            query[name].append(value)
        return await app.respond(
            Request(
                method=asked.method, path=asked.path, query=query, headers=asked.headers, body=asked.body, user=user
            )
        )

    return answer
