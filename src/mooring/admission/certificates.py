"""CertificateSigningRequests, PodCertificateRequests, ClusterTrustBundles, and the names of signers.

The server writes the user into a CertificateSigningRequest, whose spec is immutable. Its subresource `approval` writes
the conditions Approved and Denied, `status` the certificate and other conditions. External signers issue certificates
of pods, whose requests prove that the client holds the key. Read next: ``apiserver/access/certificate_checks.py``.
"""

import base64
import binascii
import re
from collections.abc import Callable

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from msgspec import structs

from mooring.admission import checks, meta
from mooring.admission.meta import NameCheck, validate_annotations
from mooring.admission.strategy import Request, StatusStrategy, Strategy, set_missing
from mooring.api import certificate_requests, field_errors, names, times
from mooring.api import certificates_v1 as v1
from mooring.api.certificates_v1 import CertificateSigningRequest as SigningRequest
from mooring.api.field_errors import OMIT_VALUE, Errors
from mooring.api.field_path import Path
from mooring.api.quoting import go_quote

_SPEC, _STATUS = Path("spec"), Path("status")
_CONDITIONS, _CERTIFICATE = _STATUS.child("conditions"), _STATUS.child("certificate")
_KEY = _SPEC.child("stubPKCS10Request")
_LONGEST_UID, _LARGEST_REQUEST, _LARGEST_CHAIN = 128, 10 * 1024, 100 * 1024
_HOUR, _DAY = 3600, 86400
_FINAL = ("Issued", "Denied", "Failed")


class PodCertificateRequestStrategy(Strategy[v1.PodCertificateRequest]):
    has_generation = False
    allow_unconditional_update = False
    immutable = ("spec",)

    def default(self, obj: v1.PodCertificateRequest) -> None:
        set_missing(obj.spec, max_expiration_seconds=_DAY)

    def validate(self, obj: v1.PodCertificateRequest, old: v1.PodCertificateRequest | None, request: Request) -> Errors:
        spec = obj.spec
        if old is not None:
            return []
        errors = validate_signer_name(spec.signer_name, _SPEC.child("signerName"))
        asked, here = spec.unverified_user_annotations, _SPEC.child("unverifiedUserAnnotations")
        errors += validate_annotations(asked, here, need_domain=True)
        for field, name in checks.select_fields(spec, "podName", "serviceAccountName", "nodeName"):
            errors += names.validate(_SPEC.child(field), name, names.dns1123_subdomain(name))
        for field, uid in checks.select_fields(spec, "podUID", "serviceAccountUID", "nodeUID"):
            errors += checks.invalid_if(not uid, _SPEC.child(field), uid, "must not be empty")
            errors += checks.limit_bytes(uid, _LONGEST_UID, _SPEC.child(field))
        return errors + _validate_requested_lifetime(spec) + _validate_pkcs10_request(spec)

    def validate_status(self, new: v1.PodCertificateRequest, old: v1.PodCertificateRequest, request: Request) -> Errors:
        conditions = _STATUS.child("conditions")
        errors: Errors = []
        for index, condition in enumerate(new.status.conditions):
            here = conditions.index(index)
            if condition.type not in _FINAL:
                errors.append(field_errors.not_supported(here.child("type"), condition.type, _FINAL))
            elif condition.status != "True":
                errors.append(field_errors.not_supported(here.child("status"), condition.status, ["True"]))
        if len(new.status.conditions) > 1:
            detail = 'There may be at most one condition with type "Issued", "Denied", or "Failed"'
            errors.append(field_errors.invalid(conditions, new.status.conditions[-1].type, detail))
        errors += checks.validate_conditions(new.status.conditions, conditions)
        return errors or _validate_certificate_outcome(new.status, old.status)


def _validate_requested_lifetime(spec: v1.PodCertificateRequestSpec) -> Errors:
    longest = _DAY if spec.signer_name.partition("/")[0].endswith("kubernetes.io") else 91 * _DAY
    seconds = spec.max_expiration_seconds or 0
    if _HOUR <= seconds <= longest:
        return []
    here = _SPEC.child("maxExpirationSeconds")
    return [field_errors.invalid(here, seconds, f"must be in the range [{_HOUR}, {longest}]")]


def _validate_pkcs10_request(spec: v1.PodCertificateRequestSpec) -> Errors:
    if not spec.stub_pkcs10_request:
        detail = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"
        return [field_errors.invalid(_SPEC, OMIT_VALUE, detail)]
    if len(spec.stub_pkcs10_request) > _LARGEST_REQUEST:
        return [field_errors.too_long(_KEY, _LARGEST_REQUEST)]
    try:
        asked = x509.load_der_x509_csr(spec.stub_pkcs10_request)
        key = asked.public_key()
        is_signed = asked.is_signature_valid
    except (ValueError, UnsupportedAlgorithm, InvalidSignature):
        return [field_errors.invalid(_KEY, OMIT_VALUE, "must be a valid PKCS#10 CSR")]
    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size not in (3072, 4096):
            detail = "RSA keys must have modulus size 3072 or 4096"
            return [field_errors.invalid(_KEY, f"{key.key_size}-bit modulus", detail)]
    elif isinstance(key, ec.EllipticCurvePublicKey):
        if key.curve.name not in ("secp256r1", "secp384r1", "secp521r1"):
            detail = "elliptic public keys must use curve P256, P384, or P521"
            return [field_errors.invalid(_KEY, f"curve {key.curve.name}", detail)]
    elif not isinstance(key, ed25519.Ed25519PublicKey):
        detail = "unknown public key type; supported types are Ed25519, ECDSA, and RSA"
        return [field_errors.invalid(_KEY, OMIT_VALUE, detail)]
    return [] if is_signed else [field_errors.invalid(_KEY, OMIT_VALUE, "invalid signature")]


def _validate_certificate_outcome(new: v1.PodCertificateRequestStatus, old: v1.PodCertificateRequestStatus) -> Errors:
    if old.conditions:
        detail = "immutable after PodCertificateRequest is issued, denied, or failed"
        return [] if new == old else [field_errors.invalid(_STATUS, new, detail)]
    chain = _STATUS.child("certificateChain")
    if not any(condition.type == "Issued" for condition in new.conditions):
        if new == v1.PodCertificateRequestStatus(conditions=new.conditions):
            return []
        detail = "non-condition status fields must be empty when denying or failing the PodCertificateRequest"
        return [field_errors.invalid(_STATUS, new, detail)]
    if len(new.certificate_chain) > _LARGEST_CHAIN:
        return [field_errors.too_long(chain, _LARGEST_CHAIN)]
    try:
        x509.load_pem_x509_certificates(new.certificate_chain.encode())
    except ValueError:
        detail = "issued certificate chain must contain at least one certificate"
        return [field_errors.invalid(chain, new.certificate_chain, detail)]
    detail = "must be present and consistent with the issued certificate"
    return checks.require_fields(new, _STATUS, "notBefore", "notAfter", "beginRefreshAt", detail=detail)


_BUNDLE = _SPEC.child("trustBundle")
_LARGEST = 1024 * 1024
_BLOCK = re.compile(r"^-----BEGIN ([^\n]*?)-----[ \t\r]*\n(.*?)^-----END \1-----[ \t\r]*$", re.DOTALL | re.MULTILINE)
_HEADER = re.compile(r"^[^\n:]+:", re.MULTILINE)


class ClusterTrustBundleStrategy(Strategy[v1.ClusterTrustBundle]):
    has_generation = False
    allow_unconditional_update = False
    immutable = ("spec.signerName",)

    def name_check_for(self, obj: v1.ClusterTrustBundle, request: Request) -> NameCheck:
        return _build_bundle_name_check(obj.spec.signer_name)

    def validate(self, obj: v1.ClusterTrustBundle, old: v1.ClusterTrustBundle | None, request: Request) -> Errors:
        spec, errors = obj.spec, Errors()
        if old is not None:
            wrong = _build_bundle_name_check(spec.signer_name)(obj.metadata.name)
            errors += names.validate(Path("metadata.name"), obj.metadata.name, wrong)
        if spec.signer_name:
            errors += validate_signer_name(spec.signer_name, _SPEC.child("signerName"))
        if old is None or spec.trust_bundle != old.spec.trust_bundle:
            errors += _validate_trust_bundle(spec.trust_bundle)
        return errors


def _build_bundle_name_check(signer: str) -> Callable[[str], names.Messages]:
    def check(name: str) -> names.Messages:
        if not signer:
            if ":" in name:
                return ('ClusterTrustBundle without signer name must not have ":" in its name',)
            return names.dns1123_subdomain(name)
        prefix = f"{signer.replace('/', ':')}:"
        if not name.startswith(prefix):
            return (f"ClusterTrustBundle for signerName {signer} must be named with prefix {prefix}",)
        return names.dns1123_subdomain(name.removeprefix(prefix))

    return check


def _validate_trust_bundle(text: str) -> Errors:
    if len(text.encode()) > _LARGEST:
        return [field_errors.too_long(_BUNDLE, _LARGEST)]
    problems: list[str] = []
    places: dict[bytes, list[int]] = {}
    for index, block in enumerate(_BLOCK.finditer(text)):
        found = _parse_trust_anchor(block[1], block[2])
        if isinstance(found, str):
            problems.append(f"entry {index} {found}")
        else:
            places.setdefault(found, []).append(index)
    if not problems and not places:
        problems.append("at least one trust anchor must be provided")
    if not problems:
        shown = (" ".join(map(str, indices)) for indices in places.values() if len(indices) > 1)
        problems = [f"duplicate trust anchor (indices [{indices}])" for indices in shown]
    return [field_errors.invalid(_BUNDLE, "<value omitted>", problem) for problem in problems]


def _parse_trust_anchor(kind: str, body: str) -> bytes | str:
    if kind != "CERTIFICATE":
        return f"has bad block type: {kind}"
    if _HEADER.search(body):
        return "has PEM block headers"
    try:
        der = base64.b64decode("".join(body.split()), validate=True)
        certificate = x509.load_der_x509_certificate(der)
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_authority, der = False, b""
    except (ValueError, binascii.Error, UnsupportedAlgorithm):
        return "does not parse as X.509"
    return der if is_authority else "does not have the CA bit set"


_MAX_DOMAIN_LENGTH = 253
_MAX_LENGTH = 2 * 253 + 63 + 2


def validate_signer_name(name: str, path: Path) -> Errors:
    """Return errors for a signer name that is not a domain with a dot, one slash and a path: `example.com/signer`."""
    if not name:
        return [field_errors.required(path, "")]
    parts = name.split("/")
    if len(parts) != 2:
        text = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        return [field_errors.invalid(path, name, text)]
    domain, rest = parts
    errors = [field_errors.too_long(path, _MAX_DOMAIN_LENGTH)] if len(domain) > _MAX_DOMAIN_LENGTH else []
    errors += _validate_signer_labels(path, domain, names.dns1123_label)
    text = "should be a domain with at least two segments separated by dots"
    errors += checks.invalid_if("." not in domain, path, domain, text)
    errors += _validate_signer_labels(path, rest, names.dns1123_subdomain)
    if len(name) > _MAX_LENGTH:
        errors.append(field_errors.too_long(path, _MAX_LENGTH))
    return errors


def _validate_signer_labels(path: Path, text: str, check: Callable[[str], names.Messages]) -> Errors:
    for label in text.split("."):
        if wrong := check(label):
            return [field_errors.invalid(path, text, f"validating label {go_quote(label)}: {why}") for why in wrong]
    return []


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
_Conditions = list[v1.CertificateSigningRequestCondition]


class CertificateStrategy(Strategy[SigningRequest]):
    has_generation = False

    def __init__(self) -> None:
        super().__init__({"status": CertificateStatusStrategy(self), "approval": ApprovalStrategy(self)})

    def name_check(self, name: str) -> names.Messages:
        """Accept any name: Kubernetes does not restrict the names of CertificateSigningRequests."""
        return ()

    def prepare_for_create(self, obj: SigningRequest, request: Request) -> None:
        super().prepare_for_create(obj, request)
        user, spec = request.user, obj.spec
        spec.username, spec.uid, spec.groups, spec.extra = user.username, user.uid, [*user.groups], dict(user.extra)

    def prepare_for_update(self, new: SigningRequest, old: SigningRequest, request: Request) -> None:
        super().prepare_for_update(new, old, request)
        new.spec = old.spec

    def validate(self, obj: SigningRequest, old: SigningRequest | None, request: Request) -> Errors:
        spec, errors = obj.spec, Errors()
        if old is not None:
            return []
        try:
            certificate_requests.read(spec.request)
        except certificate_requests.RequestError as error:
            errors.append(field_errors.invalid(_SPEC.child("request"), "<request>", str(error)))
        here, seen = _SPEC.child("usages"), checks.UniqueKeys()
        errors += checks.require(spec.usages, here)
        for index, usage in enumerate(spec.usages):
            errors += checks.one_of(usage, _USAGES, here.index(index)) or seen.add(usage, here.index(index))
        if spec.signer_name == _LEGACY:
            detail = "the legacy signerName is not allowed via this API version"
            errors.append(field_errors.invalid(_SPEC.child("signerName"), spec.signer_name, detail))
        else:
            errors += validate_signer_name(spec.signer_name, _SPEC.child("signerName"))
        seconds, detail = spec.expiration_seconds, "may not specify a duration less than 600 seconds (10 minutes)"
        is_short = seconds is not None and seconds < _SHORTEST
        return errors + checks.invalid_if(is_short, _SPEC.child("expirationSeconds"), seconds, detail)


class CertificateStatusStrategy(StatusStrategy[SigningRequest]):
    is_approval = False

    def prepare_for_update(self, new: SigningRequest, old: SigningRequest, request: Request) -> None:
        super().prepare_for_update(new, old, request)
        if self.is_approval:
            new.status = structs.replace(old.status, conditions=new.status.conditions)
        else:
            for kind in (v1.APPROVED, v1.DENIED):
                _restore_conditions(new.status.conditions, old.status.conditions, kind)
        _set_condition_times(new.status.conditions, old.status.conditions, times.to_seconds(request.now))

    def validate_update(self, new: SigningRequest, old: SigningRequest, request: Request) -> Errors:
        errors = meta.validate_object_meta_update(new.metadata, old.metadata)
        errors += _validate_request_conditions(new.status.conditions)
        for kind in (v1.APPROVED, v1.DENIED, v1.FAILED):
            before = _select_conditions(old.status.conditions, kind)
            after = _select_conditions(new.status.conditions, kind)
            if len(after) < len(before):
                text = f"updates may not remove a condition of type {go_quote(kind)}"
                errors.append(field_errors.forbidden(_CONDITIONS, text))
            elif not self.is_approval and kind != v1.FAILED and after != before:
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
    is_approval = True


def _validate_request_conditions(conditions: _Conditions) -> Errors:
    errors: Errors = []
    seen, decided = checks.UniqueKeys(), set[str]()
    for index, condition in enumerate(conditions):
        path = _CONDITIONS.index(index)
        allowed = ("True",) if condition.type in {v1.APPROVED, v1.DENIED, v1.FAILED} else checks.STATUSES
        errors += checks.require(condition.type, path.child("type"))
        errors += checks.require_one_of(condition.status, allowed, path.child("status"))
        errors += seen.add(condition.type, path.child("type"))
        decided |= {condition.type} & {v1.APPROVED, v1.DENIED}
        if len(decided) == 2 and condition.type in decided:
            text = "Approved and Denied conditions are mutually exclusive"
            errors.append(field_errors.invalid(_CONDITIONS, condition.type, text))
    return errors


def _select_conditions(conditions: _Conditions, kind: str) -> _Conditions:
    return [condition for condition in conditions if condition.type == kind]


def _restore_conditions(new: _Conditions, old: _Conditions, kind: str) -> None:
    before = _select_conditions(old, kind)
    places = [index for index, condition in enumerate(new) if condition.type == kind]
    if len(before) == len(places):
        for place, condition in zip(places, before, strict=True):
            new[place] = condition


def _set_condition_times(new: _Conditions, old: _Conditions, now: str) -> None:
    earlier = {(condition.type, condition.status): condition.last_transition_time for condition in old}
    for place, each in enumerate(new):
        since = each.last_transition_time or earlier.get((each.type, each.status)) or now
        new[place] = structs.replace(each, last_update_time=each.last_update_time or now, last_transition_time=since)
