"""The order in which policies and webhooks see a write, between what is built in.

    built-in mutation → MutatingAdmissionPolicy → mutating webhooks → (again, once, if something was changed)
        → validation → built-in judgement → ValidatingAdmissionPolicy → validating webhooks

`Chain` is asked by ``registry/writing.py`` and its like; a server that has neither policies nor webhooks finds it idle
and makes no `Attributes`. Each sort of extension is a `Step`.
"""

from collections.abc import Awaitable, Callable, Iterable
from operator import attrgetter
from time import perf_counter
from typing import Protocol

from mooring.admission.policy.attributes import Attributes, MatchKey
from mooring.admission.policy.reinvocation import Reinvocation
from mooring.api.base import copy_of
from mooring.api.meta_v1 import Resource
from mooring.apiserver.registry.admission_metrics import AdmissionMetrics


class Step(Protocol):
    """One sort of extension."""

    names: tuple[str, str]
    """What kube-apiserver calls the plugin that changes objects, and the one that judges them."""

    @property
    def is_idle(self) -> bool:
        """Whether there is none of its sort, so that nothing has to be asked."""
        ...

    def spares(self, sort: MatchKey, *, mutating: bool) -> bool:
        """Whether a sort of request is known to concern none of those that change objects, or that judge them."""
        ...

    async def mutate(self, attributes: Attributes, reinvocation: Reinvocation) -> None:
        """Change the object (`attributes.replace_object`), or refuse it with a `StatusError`."""
        ...

    async def validate(self, attributes: Attributes) -> None:
        """Refuse the object with a `StatusError`, or warn."""
        ...


Mutate = Callable[[Resource], None]
"""What is built in, once more: changes an object in place."""


_is_idle = attrgetter("is_idle")


class Chain:
    """The extensions of one server, in their order."""

    def __init__(self, steps: Iterable[Step] = (), metrics: AdmissionMetrics | None = None) -> None:
        self.steps = list(steps)
        self.metrics = metrics

    @property
    def is_idle(self) -> bool:
        return all(map(_is_idle, self.steps))  # without a generator: every write asks

    def spares(self, sort: MatchKey) -> bool:
        """Whether a sort of request is known to concern nobody, so that no `Attributes` have to be made."""
        for step in self.steps:
            if not (step.is_idle or (step.spares(sort, mutating=True) and step.spares(sort, mutating=False))):
                return False
        return True

    def may_change(self, sort: MatchKey) -> bool:
        """Whether somebody may change the objects of a sort of request, and not only judge them."""
        return bool(self._asked(sort, mutating=True))

    def _asked(self, sort: MatchKey, *, mutating: bool) -> list[Step]:
        return [step for step in self.steps if not step.is_idle and not step.spares(sort, mutating=mutating)]

    async def mutate(self, attributes: Attributes, built_in: Mutate) -> None:
        """Let all change the object; a second round follows if one of them did."""
        steps = self._asked(attributes.match_key, mutating=True)
        if not steps:
            return
        reinvocation = Reinvocation()
        for step in steps:
            await self._measured(step.names[0], "admit", attributes, step.mutate(attributes, reinvocation))
        if not reinvocation.wanted:
            return
        reinvocation.is_second = True
        if attributes.obj is not None:
            before = copy_of(attributes.obj)
            built_in(attributes.obj)
            if attributes.obj != before:
                reinvocation.changed()
                attributes.replace_object(attributes.obj)
        for step in steps:
            await self._measured(step.names[0], "admit", attributes, step.mutate(attributes, reinvocation))

    async def admit(self, attributes: Attributes) -> None:
        """Both, for what has nothing between: requests that store no object of their own."""
        await self.mutate(attributes, lambda _: None)
        await self.validate(attributes)

    async def validate(self, attributes: Attributes) -> None:
        """Let all judge the object."""
        for step in self._asked(attributes.match_key, mutating=False):
            await self._measured(step.names[1], "validate", attributes, step.validate(attributes))

    async def _measured(self, name: str, type_: str, attributes: Attributes, work: Awaitable[None]) -> None:
        began, rejected = perf_counter(), True
        try:
            await work
            rejected = False
        finally:
            if self.metrics is not None:
                seconds = perf_counter() - began
                self.metrics.step(name, type_, attributes.operation, seconds, rejected=rejected)
