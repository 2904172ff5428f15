"""Admission webhooks as a step of admission (``registry/admission/chain.py``), read from the stored configurations.

Mutating webhooks are called one after the other, validating webhooks all at once. Nothing is locked during a call:
neither the store nor other requests wait. The response to a write of a configuration waits until this server uses it
(`catch_up`).

    WebhookError  the call failed or the response was invalid: the failure policy decides
    StatusError   the request is refused: by a webhook, or because the webhook does not support dry run
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from time import perf_counter
from typing import Protocol

from mooring.admission.policy.attributes import Attributes, MatchKey
from mooring.admission.policy.evaluation import ConditionError, MatchConditions, Reinvocation, build_variables
from mooring.admission.policy.matching import Matcher, MatcherIndex, RequestView
from mooring.admission.registry import strategy_of
from mooring.api import codec, errors
from mooring.api.admissionregistration_v1 import (
    IF_NEEDED,
    IGNORE,
    MutatingWebhook,
    MutatingWebhookConfiguration,
    ValidatingWebhook,
    ValidatingWebhookConfiguration,
)
from mooring.api.codec import DecodeError, FieldValidation
from mooring.api.json_tree import check_limits, parse_json
from mooring.api.scheme import Scheme
from mooring.apiserver.extension.webhooks.caller import ClientConfig
from mooring.apiserver.extension.webhooks.failures import WebhookError
from mooring.apiserver.extension.webhooks.reviewing import (
    WebhookResponse,
    build_review,
    make_refusal_error,
    read_response,
)
from mooring.apiserver.registry.admission.metrics import ADMIT, VALIDATING, AdmissionMetrics
from mooring.apiserver.registry.patch import json_patch
from mooring.apiserver.registry.patch.json_patch import PatchError
from mooring.apiserver.registry.storage.objects import KindsFollower
from mooring.base import logs
from mooring.constraints.celenv.authorizer import Decide
from mooring.store.kv import Store

log = logs.get(__name__)
_MUTATION = "mutation.webhook.admission.k8s.io"
_FAILED_OPEN_MUTATION = f"failed-open.{_MUTATION}"
_NO_ERROR, _CALLING, _INTERNAL = "no_error", "calling_webhook_error", "apiserver_internal_error"
"""The reasons of refused requests in kube-apiserver's metrics."""
_FAILED_OPEN_VALIDATION = "failed-open.validating.webhook.admission.k8s.io"
_DEFAULT_SECONDS = 10


class Caller(Protocol):
    """The interface that sends requests to webhooks: ``caller.py`` or, in tests, a fake."""

    async def call(self, config: ClientConfig, body: bytes, *, seconds: int) -> bytes: ...


class CompiledWebhook:
    """One webhook of a configuration, with its compiled rules, selectors and match conditions."""

    def __init__(self, configuration: str, webhook: MutatingWebhook | ValidatingWebhook) -> None:
        self.configuration = configuration
        self.webhook = webhook
        self.name = webhook.name
        self.ignores_failures = webhook.failure_policy == IGNORE
        self.allows_dry_run = webhook.side_effects in ("None", "NoneOnDryRun")
        self.seconds = webhook.timeout_seconds or _DEFAULT_SECONDS
        self.matcher = Matcher(
            webhook.rules, (), webhook.match_policy, webhook.namespace_selector, webhook.object_selector
        )

    @cached_property
    def conditions(self) -> MatchConditions:
        """The match conditions as programs, compiled at the first request that matches the webhook's rules."""
        return MatchConditions(self.webhook.match_conditions, self.webhook.failure_policy)


Configuration = MutatingWebhookConfiguration | ValidatingWebhookConfiguration


def compile_webhooks(configurations: Iterable[Configuration]) -> MatcherIndex[CompiledWebhook]:
    """Return an index of the webhooks in all configurations, in calling order; webhooks without rules are left out."""
    ordered = sorted(configurations, key=lambda each: each.metadata.name)
    return MatcherIndex(
        [CompiledWebhook(each.metadata.name, webhook) for each in ordered for webhook in each.webhooks if webhook.rules]
    )


class WebhookStep(KindsFollower):
    """The admission step that calls the mutating and validating admission webhooks that match a request."""

    names = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")

    def __init__(
        self,
        store: Store,
        scheme: Scheme,
        caller: Caller,
        namespace_labels: Callable[[str], Mapping[str, str]],
        decide: Decide,
        *,
        metrics: AdmissionMetrics,
    ) -> None:
        kinds = scheme.hub_of(MutatingWebhookConfiguration), scheme.hub_of(ValidatingWebhookConfiguration)
        super().__init__(store, scheme, kinds)
        self._caller = caller
        self._labels = namespace_labels
        self._decide = decide
        self._metrics = metrics
        self._compiled: dict[bool, MatcherIndex[CompiledWebhook]] = {}
        """The compiled mutating (True) and validating webhooks, as far as they have been asked for."""
        self.is_idle = True

    def _on_changes(self) -> None:
        self._compiled.clear()
        self.is_idle = not any(each.objects for each in self._followers.values())

    def _hooks(self, *, mutating: bool) -> MatcherIndex[CompiledWebhook]:
        found = self._compiled.get(mutating)
        if found is None:
            kind = MutatingWebhookConfiguration if mutating else ValidatingWebhookConfiguration
            found = self._compiled[mutating] = compile_webhooks(self._objects(kind.__name__).values())
        return found

    def ignores(self, key: MatchKey, *, mutating: bool) -> bool:
        return self._hooks(mutating=mutating).matches_nothing(key)

    async def mutate(self, attributes: Attributes, reinvocation: Reinvocation) -> None:
        """Call the matching mutating webhooks in order and apply their patches; raise a refusal's error.

        With `reinvocation` (second round), call only webhooks that were called in the first and request it.
        """
        for index, hook in enumerate(self._find_candidates(attributes, mutating=True)):
            if reinvocation.should_skip(hook):
                continue
            match = self._match_request(hook, attributes)
            if match is None:
                continue
            place = f"round_{int(reinvocation.is_second)}_index_{index}"
            changed = False
            try:
                changed = await self._call_webhook(hook, attributes, match, ADMIT, f"{_FAILED_OPEN_MUTATION}/{place}")
            finally:
                record = {"configuration": hook.configuration, "webhook": hook.name, "mutated": changed}
                attributes.audit_annotations[f"{_MUTATION}/{place}"] = json.dumps(record, separators=(",", ":"))
            if changed:
                reinvocation.record_change()
            if isinstance(hook.webhook, MutatingWebhook) and hook.webhook.reinvocation_policy == IF_NEEDED:
                reinvocation.record_invocation(hook)

    async def validate(self, attributes: Attributes) -> None:
        """Call the matching validating webhooks concurrently; if any refuse, raise the first's error in order."""
        hooks = self._find_candidates(attributes, mutating=False)
        matched = [(hook, match) for hook in hooks if (match := self._match_request(hook, attributes)) is not None]
        place = f"{_FAILED_OPEN_VALIDATION}/round_0_index"
        calls = [
            self._call_webhook(hook, attributes, match, VALIDATING, f"{place}_{index}")
            for index, (hook, match) in enumerate(matched)
        ]
        for outcome in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    def _find_candidates(self, attributes: Attributes, *, mutating: bool) -> list[CompiledWebhook]:
        """Return the webhooks whose rules may match; none for a write of webhook or policy configurations."""
        return [] if attributes.is_exempt else self._hooks(mutating=mutating).candidates(attributes)

    def _match_request(self, hook: CompiledWebhook, attributes: Attributes) -> RequestView | None:
        """Return the request as a webhook sees it, None if it does not match; raise Forbidden if a condition fails."""
        match = hook.matcher.match(attributes, self._labels)
        if match is None or not hook.conditions:
            return match
        try:
            return match if hook.conditions.are_met(build_variables(attributes, match, decide=self._decide)) else None
        except ConditionError as error:
            resource = attributes.resource
            raise errors.forbidden(resource.resource, attributes.name, str(error), group=resource.group) from None

    async def _call_webhook(
        self, hook: CompiledWebhook, attributes: Attributes, match: RequestView, type_: str, failed_open: str
    ) -> bool:
        """Call a webhook, count the call, and apply the patch that it returns; return whether the object changed.

        Raise the error of a refusal. If the call failed, either raise InternalError or annotate it as `failed_open`.
        """
        began, where = perf_counter(), (hook.name, type_, attributes.operation)
        changed = False
        try:
            answer = await self._send_review(hook, attributes, match, mutating=type_ == ADMIT)
            if answer.allowed and answer.patch:
                changed = _apply_patch(hook.name, attributes, match, answer.patch, answer.patch_type)
        except WebhookError as error:
            self._record_call(where, began, error.code, "" if hook.ignores_failures else _CALLING)
            self._handle_failure(hook, attributes, error, type_, failed_open)
            return False
        except errors.StatusError:
            self._record_call(where, began, 0, _INTERNAL)
            raise
        if not answer.allowed:
            refused = make_refusal_error(hook.name, answer.status)
            self._record_call(where, began, refused.status.code, _NO_ERROR)
            raise refused
        self._record_call(where, began, 200)
        return changed

    async def _send_review(
        self, hook: CompiledWebhook, attributes: Attributes, match: RequestView, *, mutating: bool
    ) -> WebhookResponse:
        """Send an AdmissionReview to a webhook; return its validated response. Raise WebhookError."""
        if attributes.dry_run and not hook.allows_dry_run:
            raise errors.bad_request(f'admission webhook "{hook.name}" does not support dry run')
        review = build_review(attributes, match, hook.webhook.admission_review_versions)
        try:
            body = await self._caller.call(hook.webhook.client_config, review.body, seconds=hook.seconds)
        except WebhookError as error:
            raise WebhookError(f"failed to call webhook: {error}", error.code) from None
        answer = read_response(body, review, mutating=mutating)
        for key, value in answer.audit_annotations.items():
            attributes.audit_annotations.setdefault(f"{hook.name}/{key}", value)
        attributes.warnings.extend(answer.warnings)
        return answer

    def _record_call(self, where: tuple[str, str, str], began: float, code: int, refused: str = "") -> None:
        """Count a webhook call and its duration; `refused` is the reason for a refusal in metrics, or empty."""
        if refused:
            self._metrics.record_rejection(*where, refused, code)
        self._metrics.record_call(*where, perf_counter() - began, code, rejected=bool(refused))

    def _handle_failure(
        self, hook: CompiledWebhook, attributes: Attributes, error: WebhookError, type_: str, annotation: str
    ) -> None:
        """Apply the failure policy to a failed call: raise InternalError, or continue and annotate it."""
        why = f'failed calling webhook "{hook.name}": {error}'
        fields = {"configuration": hook.configuration, "why": why}
        if not hook.ignores_failures:
            log.warning("Failed calling a webhook, failing closed", extra={"fields": fields})
            raise errors.internal_error(why)
        log.warning("Failed calling a webhook, failing open", extra={"fields": fields})
        self._metrics.failed_open(hook.name, type_)
        attributes.audit_annotations[annotation] = hook.name


def _apply_patch(name: str, attributes: Attributes, match: RequestView, patch: bytes, patch_type: str) -> bool:
    """Apply a webhook's JSON patch to the object; return whether it changed. Raise WebhookError if it is unusable."""
    undecodable = "received undecodable patch in webhook response: "
    try:
        check_limits(patch)
        operations = parse_json(patch)
    except DecodeError as error:
        raise WebhookError(f"{undecodable}{error}") from None
    if not isinstance(operations, list):
        raise WebhookError(f"{undecodable}a JSON patch is an array of operations")
    if not operations:
        return False
    before = attributes.object_tree(match.kind)
    if before is None:
        why = "attempted to modify the object, which is not supported for this operation"
        raise errors.internal_error(f'admission webhook "{name}" {why}')
    if patch_type != "JSONPatch":
        raise WebhookError(f'unsupported patch type "{patch_type}"')
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
