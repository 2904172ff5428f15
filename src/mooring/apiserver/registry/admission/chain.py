"""The chain of policies and webhooks that a write passes between the halves of built-in admission.

    built-in mutation → MutatingAdmissionPolicy → mutating webhooks → (all once more, if one changed the object)
        → built-in validation → ValidatingAdmissionPolicy → validating webhooks

``write_admission.py`` calls the `Chain`: this is the only place where policies and webhooks are called. Each of the two
is a `Step`. A server without any finds the chain idle and makes no `Attributes`.
"""

from collections.abc import Awaitable, Callable, Iterable
from operator import attrgetter
from time import perf_counter
from typing import Protocol

from mooring.admission.policy.attributes import Attributes, MatchKey
from mooring.admission.policy.evaluation import Reinvocation
from mooring.api.base import copy_of
from mooring.api.meta_v1 import Resource
from mooring.apiserver.registry.admission.metrics import AdmissionMetrics


class Step(Protocol):
    """The interface of the two admission steps, policies and webhooks, of which each mutates and validates."""

    names: tuple[str, str]
    """kube-apiserver's names of the mutating and of the validating admission plugin."""

    @property
    def is_idle(self) -> bool:
        """Return whether no policies (or no webhooks) exist, so that requests skip the step."""
        ...

    def ignores(self, key: MatchKey, *, mutating: bool) -> bool:
        """Return whether none of the step's mutating (or validating) rules can match a resource and operation."""
        ...

    async def mutate(self, attributes: Attributes, reinvocation: Reinvocation) -> None:
        """Change the request's object by `attributes.replace_object`; raise a `StatusError` to refuse the request."""
        ...

    async def validate(self, attributes: Attributes) -> None:
        """Raise a `StatusError` to refuse the request's object; warnings are added to the request."""
        ...


Mutate = Callable[[Resource], None]
"""A function that repeats built-in mutation on an object in place."""


_is_idle = attrgetter("is_idle")


class Chain:
    """The admission steps of a server (policies, webhooks), called one after the other."""

    def __init__(self, steps: Iterable[Step] = (), metrics: AdmissionMetrics | None = None) -> None:
        self._steps = list(steps)
        self._metrics = metrics

    @property
    def is_idle(self) -> bool:
        return all(map(_is_idle, self._steps))  # without a generator: every write asks

    def ignores(self, key: MatchKey) -> bool:
        """Return whether no policy or webhook can match a request, so that no `Attributes` need to be built."""
        return not (self._matching(key, mutating=True) or self._matching(key, mutating=False))

    def _matching(self, key: MatchKey, *, mutating: bool) -> list[Step]:
        return [step for step in self._steps if not step.is_idle and not step.ignores(key, mutating=mutating)]

    async def mutate(self, attributes: Attributes, built_in: Mutate) -> None:
        """Have mutating policies and webhooks change the object, again if any changed it; raise a refusal's error."""
        steps = self._matching(attributes.match_key, mutating=True)
        if not steps:
            return
        reinvocation = Reinvocation()
        for step in steps:
            await self._run_measured(step.names[0], "admit", attributes, step.mutate(attributes, reinvocation))
        if not reinvocation.wanted:
            return
        reinvocation.is_second = True
        if attributes.obj is not None:
            before = copy_of(attributes.obj)
            built_in(attributes.obj)
            if attributes.obj != before:
                reinvocation.record_change()
                attributes.replace_object(attributes.obj)
        for step in steps:
            await self._run_measured(step.names[0], "admit", attributes, step.mutate(attributes, reinvocation))

    async def admit(self, attributes: Attributes) -> None:
        """Have policies and webhooks change the object of `attributes`, then check it; raise a refusal's error."""
        await self.mutate(attributes, lambda _: None)
        await self.validate(attributes)

    async def validate(self, attributes: Attributes) -> None:
        """Have validating policies and webhooks check the object; raise the error of the first refusal."""
        for step in self._matching(attributes.match_key, mutating=False):
            await self._run_measured(step.names[1], "validate", attributes, step.validate(attributes))

    async def _run_measured(self, name: str, type_: str, attributes: Attributes, work: Awaitable[None]) -> None:
        began, rejected = perf_counter(), True
        try:
            await work
            rejected = False
        finally:
            if self._metrics is not None:
                seconds = perf_counter() - began
                self._metrics.record_step(name, type_, attributes.operation, seconds, rejected=rejected)
