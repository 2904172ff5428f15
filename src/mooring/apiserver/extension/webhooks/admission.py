"""Admission by webhooks: those that change objects, one after the other, and those that refuse, all at once.

`WebhookAdmission` is made by ``step.py`` of the configurations that there are. While a webhook is asked, nothing is
held: neither the store nor any other request waits. Read next: ``asking.py``.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import Any

from mooring.admission.policy.attributes import Attributes, MatchKey
from mooring.admission.policy.conditions import ConditionError
from mooring.admission.policy.evaluation import values_for
from mooring.admission.policy.matching import Index, RequestView
from mooring.admission.policy.reinvocation import Reinvocation
from mooring.admission.registry import strategy_of
from mooring.api import codec, errors
from mooring.api.admissionregistration_v1 import (
    IF_NEEDED,
    MutatingWebhook,
    MutatingWebhookConfiguration,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
)
from mooring.api.codec import DecodeError, FieldValidation
from mooring.api.json_tree import check_limits, parse_json
from mooring.apiserver.extension.webhooks.asking import Caller, CallError, ask
from mooring.apiserver.extension.webhooks.configurations import Hook, mutating_hooks, validating_hooks
from mooring.apiserver.extension.webhooks.reviewing import Answer, refusal
from mooring.apiserver.registry.admission_metrics import ADMIT, VALIDATING, AdmissionMetrics
from mooring.apiserver.registry.patch import json_patch
from mooring.apiserver.registry.patch.errors import PatchError
from mooring.base import logs
from mooring.constraints.celenv.authorizer import Decide

log = logs.get(__name__)
_MUTATION = "mutation.webhook.admission.k8s.io"
_FAILED_OPEN_MUTATION = f"failed-open.{_MUTATION}"
_NO_ERROR, _CALLING, _INTERNAL = "no_error", "calling_webhook_error", "apiserver_internal_error"
"""Why a request was refused, in the words of kube-apiserver's metrics."""
_FAILED_OPEN_VALIDATION = "failed-open.validating.webhook.admission.k8s.io"


class WebhookAdmission:
    """All webhooks of a server."""

    def __init__(
        self,
        mutating: Iterable[MutatingWebhookConfiguration],
        validating: Iterable[ValidatingWebhookConfiguration],
        caller: Caller,
        namespace_labels: Callable[[str], Mapping[str, str]],
        decide: Decide,
        *,
        metrics: AdmissionMetrics,
    ) -> None:
        self._mutating = mutating_hooks(mutating)
        self._validating = validating_hooks(validating)
        self._caller = caller
        self._labels = namespace_labels
        self._decide = decide
        self._metrics = metrics

    def spares(self, sort: MatchKey, *, mutating: bool) -> bool:
        """Whether no webhook is asked about a sort of request."""
        return self._mutating.matches_nothing(sort) if mutating else self._validating.matches_nothing(sort)

    # -- those that change objects

    async def mutate(self, attributes: Attributes, reinvocation: Reinvocation) -> None:
        """Ask those that may change the object, and let them; raises a `StatusError` when the request is refused.

        None is asked for the first time in the second round.
        """
        for index, hook in enumerate(self._concerned(self._mutating, attributes)):
            if reinvocation.skips(hook):
                continue
            match = self._match(hook, attributes)
            if match is None:
                continue
            place = f"round_{int(reinvocation.is_second)}_index_{index}"
            if await self._mutated(hook, attributes, match, place):
                reinvocation.changed()
            if hook.webhook.reinvocation_policy == IF_NEEDED:
                reinvocation.invoked(hook)

    async def _mutated(
        self, hook: Hook[MutatingWebhook], attributes: Attributes, match: RequestView, place: str
    ) -> bool:
        """Ask one of them; whether it has changed the object."""
        changed = False

        def take(answer: Answer) -> None:
            nonlocal changed
            if answer.patch:
                changed = _patched(hook.name, attributes, match, answer.patch, answer.patch_type)

        try:
            await self._asked(hook, attributes, match, ADMIT, take)
        except CallError as error:
            self._failed(hook, attributes, error, ADMIT, f"{_FAILED_OPEN_MUTATION}/{place}")
        finally:
            said = {"configuration": hook.configuration, "webhook": hook.name, "mutated": changed}
            attributes.audit_annotations[f"{_MUTATION}/{place}"] = json.dumps(said, separators=(",", ":"))
        return changed

    # -- those that refuse

    async def validate(self, attributes: Attributes) -> None:
        """Ask those that may refuse the request, all at once; raises what the first of them says that refuses."""
        hooks = self._concerned(self._validating, attributes)
        if not hooks:
            return
        matched = [(hook, match) for hook in hooks if (match := self._match(hook, attributes)) is not None]
        if not matched:
            return
        calls = [self._validated(hook, attributes, match, place) for place, (hook, match) in enumerate(matched)]
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        for outcome in outcomes:
            if outcome is not None:
                raise outcome

    async def _validated(
        self, hook: Hook[ValidatingWebhook], attributes: Attributes, match: RequestView, place: int
    ) -> None:
        try:
            await self._asked(hook, attributes, match, VALIDATING, lambda _: None)
        except CallError as error:
            self._failed(hook, attributes, error, VALIDATING, f"{_FAILED_OPEN_VALIDATION}/round_0_index_{place}")

    # -- both

    def _concerned(self, hooks: Index[Hook[Any]], attributes: Attributes) -> list[Hook[Any]]:
        """Those whose rules can match; nobody is asked about the configuration of admission itself."""
        return [] if not hooks or attributes.is_exempt else hooks.candidates(attributes)

    def _match(self, hook: Hook[Any], attributes: Attributes) -> RequestView | None:
        """As what a webhook sees a request; None if it is not asked. Raises Forbidden where that cannot be told."""
        match = hook.matcher.match(attributes, self._labels)
        if match is None or not hook.conditions:
            return match
        try:
            return match if hook.conditions.hold(values_for(attributes, match, decide=self._decide)) else None
        except ConditionError as error:
            resource = attributes.resource
            raise errors.forbidden(resource.resource, attributes.name, str(error), group=resource.group) from None

    async def _asked(
        self, hook: Hook[Any], attributes: Attributes, match: RequestView, type_: str, take: Callable[[Answer], None]
    ) -> None:
        """Ask a webhook, and take its answer; raises what it refuses, and CallError. What came of it is counted."""
        began, where = perf_counter(), (hook.name, type_, attributes.operation)
        try:
            answer = await ask(self._caller, hook, attributes, match, mutating=type_ == ADMIT)
            if answer.allowed:
                take(answer)
        except CallError as error:
            self._count(where, began, error.code, "" if hook.ignores_failures else _CALLING)
            raise
        except errors.StatusError:
            self._count(where, began, 0, _INTERNAL)
            raise
        if not answer.allowed:
            refused = refusal(hook.name, answer.status)
            self._count(where, began, refused.status.code, _NO_ERROR)
            raise refused
        self._count(where, began, 200)

    def _count(self, where: tuple[str, str, str], began: float, code: int, refused: str = "") -> None:
        """`refused` says why the request was; empty where it goes on."""
        if refused:
            self._metrics.refused(*where, refused, code)
        self._metrics.called(*where, perf_counter() - began, code, rejected=bool(refused))

    def _failed(self, hook: Hook[Any], attributes: Attributes, error: CallError, type_: str, annotation: str) -> None:
        """A call has failed: refuse the request, or let it pass, as the webhook's owner has decided."""
        fields = {"configuration": hook.configuration, "why": str(error)}
        if not hook.ignores_failures:
            log.warning("Failed calling a webhook, failing closed", extra={"fields": fields})
            raise errors.internal_error(str(error))
        log.warning("Failed calling a webhook, failing open", extra={"fields": fields})
        self._metrics.failed_open(hook.name, type_)
        attributes.audit_annotations[annotation] = hook.name


def _patched(name: str, attributes: Attributes, match: RequestView, patch: bytes, patch_type: str) -> bool:
    """Apply a webhook's patch to the object; whether that changed it. Raises CallError and InternalError."""
    undecodable = "received undecodable patch in webhook response: "
    try:
        check_limits(patch)
        operations = parse_json(patch)
    except DecodeError as error:
        raise CallError(name, f"{undecodable}{error}") from None
    if not isinstance(operations, list):
        raise CallError(name, f"{undecodable}a JSON patch is an array of operations")
    if not operations:
        return False
    before = attributes.object_tree(match.kind)
    if before is None:
        why = "attempted to modify the object, which is not supported for this operation"
        raise errors.internal_error(f'admission webhook "{name}" {why}')
    if patch_type != "JSONPatch":
        raise CallError(name, f'unsupported patch type "{patch_type}"')
    kind = attributes.scheme.kind(match.kind.api_version, match.kind.kind)
    if kind is None:
        raise errors.internal_error(f"no kind {match.kind.kind} is known in {match.kind.api_version}")
    try:
        json_patch.check_operations(operations)
        patched = json_patch.apply(operations, json.loads(json.dumps(before)))
        made, _ = codec.from_tree(patched, kind.type, FieldValidation.IGNORE)
    except (DecodeError, PatchError, RecursionError) as error:
        raise errors.internal_error(str(error)) from None
    if (made.api_version, made.kind) != (kind.api_version, kind.kind):
        given = f"{made.api_version.rpartition('/')[2]}.{made.kind}"
        raise errors.internal_error(f"converting ({given}) to ({kind.version}.{kind.kind}): unknown conversion")
    changed = bool(codec.to_tree(made) != before)
    obj = attributes.scheme.convert(made, attributes.scheme.hub(kind)) if kind.plural else made
    strategy_of(type(obj)).default(obj)
    attributes.replace_object(obj)
    return changed
