"""CertificateSigningRequests: the request must be parsable and signed; the spec is immutable.

The server writes the user into the request. `approval` writes the conditions Approved and Denied, `status` the
certificate and other conditions. The API server checks who may do either.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from mooring.admission import meta
from mooring.admission.certificates import validate_signer_name
from mooring.admission.checks import require, require_one_of
from mooring.admission.strategy import Request, StatusStrategy, Strategy
from mooring.api import certificate_requests, field_errors, names, times
from mooring.api.certificates_v1 import (
    APPROVED,
    DENIED,
    FAILED,
    CertificateSigningRequest,
    CertificateSigningRequestCondition,
)
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.quoting import go_quote

_SPEC, _CONDITIONS, _CERTIFICATE = Path("spec"), Path("status", "conditions"), Path("status", "certificate")
_USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)
_SHORTEST = 600
_LEGACY = "kubernetes.io/legacy-unknown"
_Conditions = list[CertificateSigningRequestCondition]


class CertificateStrategy(Strategy[CertificateSigningRequest]):
    has_generation = False

    def __init__(self) -> None:
        super().__init__({"status": CertificateStatusStrategy(self), "approval": ApprovalStrategy(self)})

    def name_check(self, name: str) -> names.Messages:
        """Accept any name: names of certificate requests are not restricted."""
        return ()

    def prepare_for_create(self, obj: CertificateSigningRequest, request: Request) -> None:
        super().prepare_for_create(obj, request)
        user, spec = request.user, obj.spec
        spec.username, spec.uid, spec.groups, spec.extra = user.username, user.uid, [*user.groups], dict(user.extra)

    def prepare_for_update(
        self, new: CertificateSigningRequest, old: CertificateSigningRequest, request: Request
    ) -> None:
        super().prepare_for_update(new, old, request)
        new.spec = old.spec

    def rules(self, obj: CertificateSigningRequest, old: CertificateSigningRequest | None, request: Request) -> Errors:
        return [] if old else [*_request_errors(obj), *_usage_errors(obj), *_signer_errors(obj), *_lifetime_errors(obj)]


class CertificateStatusStrategy(StatusStrategy[CertificateSigningRequest]):
    decides = False

    def prepare_for_update(
        self, new: CertificateSigningRequest, old: CertificateSigningRequest, request: Request
    ) -> None:
        super().prepare_for_update(new, old, request)
        if self.decides:
            new.status = structs.replace(old.status, conditions=new.status.conditions)
        else:
            for kind in (APPROVED, DENIED):
                _keep(new.status.conditions, old.status.conditions, kind)
        _stamp(new.status.conditions, old.status.conditions, times.to_seconds(request.now))

    def validate_update(
        self, new: CertificateSigningRequest, old: CertificateSigningRequest, request: Request
    ) -> Errors:
        errors = meta.validate_object_meta_update(new.metadata, old.metadata)
        errors += _condition_errors(new.status.conditions)
        for kind in (APPROVED, DENIED, FAILED):
            before, after = _of(old.status.conditions, kind), _of(new.status.conditions, kind)
            if len(after) < len(before):
                text = f"updates may not remove a condition of type {go_quote(kind)}"
                errors.append(field_errors.forbidden(_CONDITIONS, text))
            elif not self.decides and kind != FAILED and after != before:
                deed = "add" if len(after) > len(before) else "modify"
                text = f"updates may not {deed} a condition of type {go_quote(kind)}"
                errors.append(field_errors.forbidden(_CONDITIONS, text))
        if old.status.certificate and new.status.certificate != old.status.certificate:
            errors.append(field_errors.forbidden(_CERTIFICATE, "updates may not modify existing certificate content"))
        elif new.status.certificate and b"-----BEGIN CERTIFICATE-----" not in new.status.certificate:
            text = "must contain at least one CERTIFICATE PEM block"
            errors.append(field_errors.invalid(_CERTIFICATE, "<certificate data>", text))
        return errors


class ApprovalStrategy(CertificateStatusStrategy):
    decides = True


def _request_errors(obj: CertificateSigningRequest) -> Errors:
    try:
        certificate_requests.read(obj.spec.request)
    except certificate_requests.RequestError as error:
        return [field_errors.invalid(_SPEC.child("request"), "<request>", str(error))]
    return []


def _usage_errors(obj: CertificateSigningRequest) -> Errors:
    usages, path = obj.spec.usages, _SPEC.child("usages")
    errors = [] if usages else [field_errors.required(path, "")]
    for index, usage in enumerate(usages):
        if usage not in _USAGES:
            errors.append(field_errors.not_supported(path.index(index), usage, _USAGES))
        elif usage in usages[:index]:
            errors.append(field_errors.duplicate(path.index(index), usage))
    return errors


def _signer_errors(obj: CertificateSigningRequest) -> Errors:
    name, path = obj.spec.signer_name, _SPEC.child("signerName")
    if name == _LEGACY:
        return [field_errors.invalid(path, name, "the legacy signerName is not allowed via this API version")]
    return validate_signer_name(name, path)


def _lifetime_errors(obj: CertificateSigningRequest) -> Errors:
    seconds = obj.spec.expiration_seconds
    if seconds is None or seconds >= _SHORTEST:
        return []
    text = "may not specify a duration less than 600 seconds (10 minutes)"
    return [field_errors.invalid(_SPEC.child("expirationSeconds"), seconds, text)]


def _condition_errors(conditions: _Conditions) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        path = _CONDITIONS.index(index)
        allowed = ("True",) if condition.type in {APPROVED, DENIED, FAILED} else ("False", "True", "Unknown")
        errors += require(condition.type, path.child("type"), "")
        errors += require_one_of(condition.status, allowed, path.child("status"))
        if condition.type in seen:
            errors.append(field_errors.duplicate(path.child("type"), condition.type))
        seen.add(condition.type)
        if seen >= {APPROVED, DENIED} and condition.type in {APPROVED, DENIED}:
            text = "Approved and Denied conditions are mutually exclusive"
            errors.append(field_errors.invalid(_CONDITIONS, condition.type, text))
    return errors


def _of(conditions: _Conditions, kind: str) -> _Conditions:
    return [condition for condition in conditions if condition.type == kind]


def _keep(new: _Conditions, old: _Conditions, kind: str) -> None:
    before = _of(old, kind)
    places = [index for index, condition in enumerate(new) if condition.type == kind]
    if len(before) == len(places):
        for place, condition in zip(places, before, strict=True):
            new[place] = condition


def _stamp(new: _Conditions, old: _Conditions, now: str) -> None:
    earlier: Mapping[tuple[str, str], Any] = {
        (condition.type, condition.status): condition.last_transition_time for condition in old
    }
    for place, condition in enumerate(new):
        new[place] = structs.replace(
            condition,
            last_update_time=condition.last_update_time or now,
            last_transition_time=condition.last_transition_time
            or earlier.get((condition.type, condition.status))
            or now,
        )
