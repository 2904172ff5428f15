"""One webhook is asked about one request: the review is sent, and what comes back becomes an answer or an error.

- `CallError`: the webhook could not be asked, or made no sense. The failure policy decides what that means.
- a `StatusError`: the request is refused, because the webhook must not be asked on dry run.

Called by ``admission.py``.
"""

from typing import Any, Protocol

from mooring.admission.policy.attributes import Attributes
from mooring.admission.policy.matching import RequestView
from mooring.api import errors
from mooring.apiserver.extension.webhooks.caller import ClientConfig
from mooring.apiserver.extension.webhooks.configurations import Hook
from mooring.apiserver.extension.webhooks.failures import WebhookError
from mooring.apiserver.extension.webhooks.reviewing import Answer, answer_in, review_of


class CallError(Exception):
    """A webhook was of no use; the message is for the client, the code for metrics."""

    def __init__(self, name: str, why: str, code: int = 503) -> None:
        super().__init__(f'failed calling webhook "{name}": {why}')
        self.code = code


class Caller(Protocol):
    """Sends requests to webhooks: ``caller.py``, or what a test puts in its place."""

    async def call(self, config: ClientConfig, body: bytes, *, seconds: int) -> bytes: ...


async def ask(caller: Caller, hook: Hook[Any], attributes: Attributes, match: RequestView, *, mutating: bool) -> Answer:
    """The answer of a webhook, which may not allow the request; raises CallError and StatusError."""
    if attributes.dry_run and not hook.allows_dry_run:
        raise errors.bad_request(f'admission webhook "{hook.name}" does not support dry run')
    try:
        question = review_of(attributes, match, hook.webhook.admission_review_versions)
    except WebhookError as error:
        raise CallError(hook.name, str(error), error.code) from None
    try:
        body = await caller.call(hook.webhook.client_config, question.body, seconds=hook.seconds)
    except WebhookError as error:
        raise CallError(hook.name, f"failed to call webhook: {error}", error.code) from None
    try:
        answer = answer_in(body, question, mutating=mutating)
    except WebhookError as error:
        raise CallError(hook.name, str(error), error.code) from None
    for key, value in answer.audit_annotations.items():
        attributes.audit_annotations.setdefault(f"{hook.name}/{key}", value)
    attributes.warnings.extend(answer.warnings)
    return answer
