"""Take the writes of a batch through the chain together.

Writes that differ only in names, bodies and rows are authorized once, executed in one call, and each counted, logged
and audited. If the user may not write every object of the resource, or the kind needs that, each goes through the chain
alone. `WriteBatches` in ``batch.py`` calls it; the chain of single requests is in ``app.py``.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import zip_longest
from typing import cast

import msgspec
from msgspec.structs import replace

from mooring.admission.pipeline import generate_uid
from mooring.api.scheme import Scheme
from mooring.apiserver.access.authz import Authorizer, attributes_of
from mooring.apiserver.messages.exchange import Exchange
from mooring.apiserver.messages.http import Request, Response
from mooring.apiserver.messages.routes import ResourceRoute, resolve
from mooring.apiserver.registry import Resources
from mooring.apiserver.registry.handler import Batch
from mooring.apiserver.registry.verbs.executor import Outcome, ResponsePair
from mooring.apiserver.requests.exchanges import Exchanges
from mooring.apiserver.requests.limiter import RequestLimiter
from mooring.apiserver.requests.skew import SkewReporter


class BatchChain(msgspec.Struct, frozen=True, kw_only=True):
    """Executes the steps of the chain for all writes of a batch at once."""

    scheme: Scheme
    skew: SkewReporter
    limiter: RequestLimiter
    authorizer: Authorizer
    resources: Resources
    exchanges: Exchanges
    respond_alone: Callable[[Request], Awaitable[Response]]
    """Takes one write of a batch through the chain."""

    async def respond(self, batch: Batch) -> list[Response]:
        """Execute writes that differ only in names and bodies; return the response to each.

        Errors become responses. If a deletion follows each update, return the response to the last of the two that was
        executed.
        """
        exchange, routes = self._exchange_of(batch.requests)
        ending = self._exchange_of(batch.deletions) if batch.deletions else None
        outcomes: Sequence[Outcome] | None = None
        try:
            if await self._may_write_all(exchange, len(batch.requests)) and (
                ending is None or await self._may_write_all(ending[0], len(batch.deletions))
            ):
                outcomes = await self.resources.write(replace(batch, routes=routes))
        except Exception as error:
            outcomes = [error] * len(batch.requests)
        if outcomes is None:
            return await asyncio.gather(*self._respond_one_by_one(batch))
        firsts = [outcome.first if isinstance(outcome, ResponsePair) else outcome for outcome in outcomes]
        answers = self._finish_responses(exchange, firsts, batch.requests, routes)
        lasts = {number: each.last for number, each in enumerate(outcomes) if isinstance(each, ResponsePair)}
        if ending is not None and lasts:
            followed = ([batch.deletions[number] for number in lasts], [ending[1][number] for number in lasts])
            answered = self._finish_responses(ending[0], list(lasts.values()), *followed)
            for number, answer in zip(lasts, answered, strict=True):
                answers[number] = answer
        return answers

    def _respond_one_by_one(self, batch: Batch) -> Iterator[Awaitable[Response]]:
        """Yield, for each write of a batch, an awaitable that authorizes and executes it alone."""
        if batch.deletions:
            return map(self._respond_in_turn, batch.requests, batch.deletions)
        return (self.respond_alone(request) for request in batch.requests)

    async def _respond_in_turn(self, write: Request, deletion: Request) -> Response:
        answer = await self.respond_alone(write)
        return await self.respond_alone(deletion) if answer.status < 300 else answer

    def _exchange_of(self, requests: Sequence[Request]) -> tuple[Exchange, list[ResourceRoute]]:
        """Return one exchange that stands for several requests, and the routes of those that have one."""
        exchange = self.exchanges.begin(requests[0])
        exchange.user = requests[0].user
        routes = [route for request in requests if (route := resolve(self.scheme, request.path)) is not None]
        if len(routes) == len(requests):
            exchange.route = replace(routes[0], name="")
        return exchange, routes

    async def _may_write_all(self, exchange: Exchange, count: int) -> bool:
        """Return whether the user may write every object of the resource; if so, count each write for the rate."""
        request, route = exchange.request, exchange.route
        if route is None or route.streams or route.path or route.watch:
            return False
        self.skew.check_user_agent(request.user_agent)
        named = attributes_of(request, replace(route, name="any"))
        exchange.verb = named.verb
        attributes = replace(named, name="")
        await self.authorizer.prepare(request.user, attributes)
        decision = self.authorizer.authorize(request.user, attributes)
        exchange.allowed_by = decision.reason or "RBAC"
        for _ in range(count if decision.allowed else 0):
            self.limiter.check_rate(request.user)
        return decision.allowed

    def _finish_responses(
        self,
        exchange: Exchange,
        outcomes: Sequence[Response | Exception],
        requests: Sequence[Request],
        routes: Sequence[ResourceRoute],
    ) -> list[Response]:
        """Return a response for each outcome of a batch, errors included; count and log each."""
        exchange.route = routes[0] if routes else exchange.route
        if self.exchanges.logs_each or not all(isinstance(outcome, Response) for outcome in outcomes):
            each = zip_longest(outcomes, requests, routes)
            return [self._finish_response(exchange, *one) for one in each]
        answers = cast("list[Response]", list(outcomes))
        sizes = Counter((answer.status, len(cast("bytes", answer.body))) for answer in answers)
        for (exchange.code, exchange.bytes_sent), times in sizes.items():
            self.exchanges.record_end(exchange, times)  # only the numbers differ
        return answers

    def _finish_response(
        self, exchange: Exchange, outcome: Response | Exception, request: Request, route: ResourceRoute | None
    ) -> Response:
        """Return one write's response or error with its own request id; count and log it."""
        request.request_id = generate_uid()
        each = replace(exchange, request=request, route=route or exchange.route)
        response = self.exchanges.respond_to_error(each, outcome) if isinstance(outcome, Exception) else outcome
        self.exchanges.record(each, response)
        return response
