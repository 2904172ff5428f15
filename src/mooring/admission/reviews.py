"""Validate review kinds, which are answered at once and never stored: users, access and tokens.

Their metadata is empty; the API server answers them after admission. `Scale`, the size of a workload, is here too.
"""

from typing import TypeVar

from mooring.admission import checks
from mooring.admission.strategy import Request, Strategy, set_missing
from mooring.api import authorization_v1 as v1
from mooring.api import field_errors, meta_v1
from mooring.api.authentication_v1 import SelfSubjectReview, TokenRequest, TokenReview
from mooring.api.autoscaling_v1 import Scale
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

T = TypeVar("T", bound=meta_v1.Resource)
_SPEC = Path("spec")


class _ReviewStrategy(Strategy[T]):
    namespaced = False
    has_generation = False

    def validate_create(self, obj: T, request: Request) -> Errors:
        return self.validate(obj, None, request)


class SubjectAccessReviewStrategy(_ReviewStrategy[v1.SubjectAccessReview]):
    def validate(self, obj: v1.SubjectAccessReview, old: v1.SubjectAccessReview | None, request: Request) -> Errors:
        return _validate_access(obj.spec) + _validate_user(obj.spec)


class LocalSubjectAccessReviewStrategy(_ReviewStrategy[v1.LocalSubjectAccessReview]):
    def validate(
        self, obj: v1.LocalSubjectAccessReview, old: v1.LocalSubjectAccessReview | None, request: Request
    ) -> Errors:
        errors = _validate_access(obj.spec) + _validate_user(obj.spec)
        attributes = obj.spec.resource_attributes
        if attributes is not None and attributes.namespace != obj.metadata.namespace:
            here = _SPEC.child("resourceAttributes", "namespace")
            errors.append(field_errors.invalid(here, attributes.namespace, "must match metadata.namespace"))
        if obj.spec.non_resource_attributes is not None:
            here = _SPEC.child("nonResourceAttributes")
            detail = "disallowed on this kind of request"
            errors.append(field_errors.invalid(here, obj.spec.non_resource_attributes, detail))
        return errors


class SelfSubjectAccessReviewStrategy(_ReviewStrategy[v1.SelfSubjectAccessReview]):
    def validate(
        self, obj: v1.SelfSubjectAccessReview, old: v1.SelfSubjectAccessReview | None, request: Request
    ) -> Errors:
        return _validate_access(obj.spec)


class SelfSubjectRulesReviewStrategy(_ReviewStrategy[v1.SelfSubjectRulesReview]):
    """Accept every SelfSubjectRulesReview."""


class SelfSubjectReviewStrategy(_ReviewStrategy[SelfSubjectReview]):
    """Accept every SelfSubjectReview."""


class TokenReviewStrategy(_ReviewStrategy[TokenReview]):
    def validate(self, obj: TokenReview, old: TokenReview | None, request: Request) -> Errors:
        return [] if obj.spec.token else [field_errors.required(_SPEC.child("token"))]


class TokenRequestStrategy(_ReviewStrategy[TokenRequest]):
    def default(self, obj: TokenRequest) -> None:
        set_missing(obj.spec, expiration_seconds=3600)

    def validate(self, obj: TokenRequest, old: TokenRequest | None, request: Request) -> Errors:
        return checks.validate_token_lifetime(obj.spec.expiration_seconds or 0, _SPEC.child("expirationSeconds"))


class ScaleStrategy(_ReviewStrategy[Scale]):
    def validate_update(self, new: Scale, old: Scale, request: Request) -> Errors:
        return checks.non_negative(new.spec.replicas, _SPEC.child("replicas"))


def _validate_access(spec: v1.SubjectAccessReviewSpec | v1.SelfSubjectAccessReviewSpec) -> Errors:
    resource, other = spec.resource_attributes, spec.non_resource_attributes
    if resource is not None and other is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        return [field_errors.invalid(_SPEC.child("nonResourceAttributes"), other, detail)]
    if resource is None and other is None:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [field_errors.invalid(_SPEC.child("resourceAttributes"), None, detail)]
    return []


def _validate_user(spec: v1.SubjectAccessReviewSpec) -> Errors:
    if spec.user or spec.groups:
        return []
    return [field_errors.invalid(_SPEC.child("user"), "", "at least one of user or group must be specified")]
