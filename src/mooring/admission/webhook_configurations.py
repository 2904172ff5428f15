"""Validate ValidatingWebhookConfigurations and MutatingWebhookConfigurations.

Policies apply to these kinds, webhooks do not. ``apiserver/extension/webhooks/`` calls the webhooks.
"""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from mooring.admission import checks
from mooring.admission.options import stored_policies
from mooring.admission.policy import rules
from mooring.admission.policy.rules import FAILURE_POLICIES, MATCH_POLICIES
from mooring.admission.strategy import Request, Strategy, set_missing
from mooring.admission.webhook_clients import REVIEWS, validate_client_config, validate_review_versions
from mooring.api import admissionregistration_v1 as v1
from mooring.api import field_errors, label_selector, names
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.meta_v1 import LabelSelector

T = TypeVar("T", v1.MutatingWebhookConfiguration, v1.ValidatingWebhookConfiguration)
GROUP = "admissionregistration.k8s.io"
STATIC_SUFFIX = ".static.k8s.io"
_REINVOCATION_POLICIES = (v1.IF_NEEDED, v1.NEVER)
_WITHOUT_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_SIDE_EFFECTS = ("None", "NoneOnDryRun", "Some", "Unknown")
_LONGEST_TIMEOUT = 30
_USUAL_TIMEOUT = 10
_HTTPS = 443
_WEBHOOKS = Path("webhooks")


class _WebhookStrictness(msgspec.Struct, frozen=True):
    """The checks that apply to one configuration's webhooks. An update skips checks that the stored webhooks fail."""

    no_side_effects: bool = True
    known_reviews: bool = True
    unique_names: bool = True
    good_label_values: bool = True
    check_conditions: bool = True
    known_conditions: frozenset[str] = frozenset()
    """Match conditions of the stored webhook, which may use every CEL library of this release."""


class _ConfigurationStrategy(Strategy[T]):
    group = GROUP
    namespaced = False
    allow_unconditional_update = False

    def default(self, obj: T) -> None:
        for webhook in obj.webhooks:
            set_missing(webhook, failure_policy=v1.FAIL, match_policy=v1.EQUIVALENT, timeout_seconds=_USUAL_TIMEOUT)
            set_missing(webhook, namespace_selector=LabelSelector(), object_selector=LabelSelector())
            if isinstance(webhook, v1.MutatingWebhook):
                set_missing(webhook, reinvocation_policy=v1.NEVER)
            rules.default_match_rules(webhook.rules)
            if webhook.client_config.service is not None:
                set_missing(webhook.client_config.service, port=_HTTPS)

    def prepare_for_update(self, new: T, old: T, request: Request) -> None:
        new.metadata.generation = old.metadata.generation + (new.webhooks != old.webhooks)

    def validate(self, obj: T, old: T | None, request: Request) -> Errors:
        errors: Errors = []
        strictness = _WebhookStrictness() if old is None else _relax_checks_for_update(old, obj)
        seen: set[str] = set()
        for index, webhook in enumerate(obj.webhooks):
            here = _WEBHOOKS.index(index)
            errors += _validate_webhook(webhook, strictness, request, here)
            versions, at = webhook.admission_review_versions, here.child("admissionReviewVersions")
            errors += checks.require(versions, at, f"must specify one of {', '.join(REVIEWS)}")
            must_know_one = bool(versions) and strictness.known_reviews
            errors += validate_review_versions(versions, at, must_know_one=must_know_one)
            if strictness.unique_names and webhook.name in seen:
                errors.append(field_errors.duplicate(here.child("name"), webhook.name))
            seen.update([webhook.name] if webhook.name else [])
        if old is None and request.options.static_names and obj.metadata.name.endswith(STATIC_SUFFIX):
            errors.append(field_errors.invalid(Path("metadata.name"), obj.metadata.name, _RESERVED))
        return errors

    def warnings(self, new: T, old: T | None, request: Request) -> list[str]:
        found = [f"metadata.name: {_RESERVED}"] if new.metadata.name.endswith(STATIC_SUFFIX) else []
        for place, webhook in enumerate(new.webhooks):
            for index, rule in enumerate(webhook.rules):
                here = _WEBHOOKS.index(place).child("rules").index(index)
                found += [f"{here}: {name} {_EXCLUDED}" for name in _find_excluded_reviews(rule)]
        return found


_RESERVED = (
    f'names ending with "{STATIC_SUFFIX}" are reserved for static manifest-based configurations'
    " and cannot be managed via the API"
)


_EXCLUDED = "is excluded from admission webhooks; this rule will have no effect"
_NEVER_INTERCEPTED = {
    "authentication.k8s.io": ("selfsubjectreviews", "tokenreviews"),
    "authorization.k8s.io": (
        "localsubjectaccessreviews",
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "subjectaccessreviews",
    ),
}
"""Authentication and authorization reviews: a webhook on them could lock out all users."""


def _find_excluded_reviews(rule: v1.RuleWithOperations) -> list[str]:
    if "*" in rule.api_groups or "*" in rule.resources:
        return []
    named = [(group, name) for group in rule.api_groups for name in rule.resources]
    return [f"{name}.{group}" for group, name in dict.fromkeys(named) if name in _NEVER_INTERCEPTED.get(group, ())]


class ValidatingWebhookConfigurationStrategy(_ConfigurationStrategy[v1.ValidatingWebhookConfiguration]):
    """Default and validate ValidatingWebhookConfigurations."""


class MutatingWebhookConfigurationStrategy(_ConfigurationStrategy[v1.MutatingWebhookConfiguration]):
    """Default and validate MutatingWebhookConfigurations."""


def _relax_checks_for_update(old: v1.WebhookConfiguration, new: v1.WebhookConfiguration) -> _WebhookStrictness:
    webhooks: Sequence[v1.Webhook] = old.webhooks
    all_names = [webhook.name for webhook in webhooks]
    before = [webhook.match_conditions for webhook in webhooks]
    return _WebhookStrictness(
        no_side_effects=all(webhook.side_effects in _WITHOUT_SIDE_EFFECTS for webhook in webhooks),
        known_reviews=not any(
            webhook.admission_review_versions and not {*webhook.admission_review_versions} & {*REVIEWS}
            for webhook in webhooks
        ),
        unique_names=len({*all_names}) == len(all_names),
        good_label_values=not any(_validate_selectors(webhook, _WEBHOOKS, strict=True) for webhook in webhooks),
        check_conditions=before != [webhook.match_conditions for webhook in new.webhooks],
        known_conditions=frozenset(each.expression for conditions in before for each in conditions),
    )


def _validate_webhook(webhook: v1.Webhook, strictness: _WebhookStrictness, request: Request, path: Path) -> Errors:
    errors = names.validate_fully_qualified_name(webhook.name, path.child("name"))
    errors += checks.validate_items(webhook.rules, path.child("rules"), rules.validate_match_rule)
    errors += checks.optional_one_of(webhook.failure_policy, FAILURE_POLICIES, path.child("failurePolicy"))
    errors += checks.optional_one_of(webhook.match_policy, MATCH_POLICIES, path.child("matchPolicy"))
    allowed, here = _WITHOUT_SIDE_EFFECTS if strictness.no_side_effects else _SIDE_EFFECTS, path.child("sideEffects")
    if webhook.side_effects is None:
        errors.append(field_errors.required(here, f"must specify one of {', '.join(allowed)}"))
    errors += checks.optional_one_of(webhook.side_effects, allowed, here)
    seconds = webhook.timeout_seconds
    if seconds is not None and not 1 <= seconds <= _LONGEST_TIMEOUT:
        detail = "the timeout value must be between 1 and 30 seconds"
        errors.append(field_errors.invalid(path.child("timeoutSeconds"), seconds, detail))
    errors += _validate_selectors(webhook, path, strict=strictness.good_label_values)
    if isinstance(webhook, v1.MutatingWebhook):
        errors += checks.optional_one_of(
            webhook.reinvocation_policy, _REINVOCATION_POLICIES, path.child("reinvocationPolicy")
        )
    errors += validate_client_config(webhook.client_config, path.child("clientConfig"))
    if strictness.check_conditions:
        here, known = path.child("matchConditions"), strictness.known_conditions
        new = request.options.new_policies
        errors += rules.validate_match_conditions(webhook.match_conditions, here, new, stored_policies, known)
    return errors


def _validate_selectors(webhook: v1.Webhook, path: Path, *, strict: bool) -> Errors:
    errors: Errors = []
    for name, selector in checks.select_fields(webhook, "namespaceSelector", "objectSelector"):
        errors += label_selector.validate(selector, path.child(name), allow_invalid_values=not strict)
    return errors
