"""Attach the advisor to an API server: the kinds below `/apis/advisor.mooring.dev` and their handlers.

The advisor is imported on its first request, so that servers start as fast without it. Read next:
``mooring.advisor.http_api``.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.api import advisor_v1
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.messages.routes import ResourceRoute
from mooring.apiserver.options import ServerConfig
from mooring.apiserver.server import ApiServer

if TYPE_CHECKING:
    from mooring.advisor.http_api import AdvisorApi


def with_advisor(config: ServerConfig) -> ServerConfig:
    """Return the configuration with the advisor's kinds."""
    return replace(config, kinds=(*config.kinds, *advisor_v1.KINDS))


def serve_advice(server: ApiServer, config: ServerConfig) -> None:
    """Register the advisor's handlers with a server."""
    loading: list[asyncio.Task[AdvisorApi]] = []

    def load() -> "AdvisorApi":
        from mooring.advisor.audit import ask  # noqa: PLC0415 - loaded when it is needed
        from mooring.advisor.http_api import AdvisorApi  # noqa: PLC0415 - as above
        from mooring.advisor.simulate.options import for_component  # noqa: PLC0415 - as above

        about_us = partial(ask, config.component, runtime_config=config.runtime_config)
        return AdvisorApi(store=server.store, ask=about_us, settings=for_component(config.component))

    async def answer(request: Request, route: ResourceRoute) -> Response:
        if not loading:  # in a thread, because importing blocks the event loop
            loading.append(asyncio.create_task(asyncio.to_thread(load), name="loading the advisor"))
        advisor = await asyncio.shield(loading[0])
        return await advisor.answers()[route.group, route.resource](request, route)

    for kind in advisor_v1.KINDS:
        server.app.answers[kind.group, kind.plural] = answer
