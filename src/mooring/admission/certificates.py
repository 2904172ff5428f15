"""PodCertificateRequests: validated and stored; an external signer issues the certificates.

The signature is verified, so that a client cannot request a certificate for a key that it does not hold.
"""

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from mooring.admission.conditions import validate_conditions
from mooring.admission.meta import IMMUTABLE, validate_annotations
from mooring.admission.rule_strategy import RuleStrategy
from mooring.admission.signer_names import validate_signer_name
from mooring.admission.strategy import Request
from mooring.api import field_errors, names
from mooring.api.certificates_v1 import PodCertificateRequest, PodCertificateRequestSpec, PodCertificateRequestStatus
from mooring.api.field_errors import OMIT_VALUE, FieldError
from mooring.api.field_path import Path

_SPEC, _STATUS = Path("spec"), Path("status")
_KEY = _SPEC.child("stubPKCS10Request")
_LONGEST_UID, _LARGEST_REQUEST, _LARGEST_CHAIN = 128, 10 * 1024, 100 * 1024
_HOUR, _DAY = 3600, 86400
_FINAL = ("Issued", "Denied", "Failed")


class PodCertificateRequestStrategy(RuleStrategy[PodCertificateRequest]):
    has_generation = False
    allow_unconditional_update = False

    def default(self, obj: PodCertificateRequest) -> None:
        if obj.spec.max_expiration_seconds is None:
            obj.spec.max_expiration_seconds = _DAY

    def rules(
        self, obj: PodCertificateRequest, old: PodCertificateRequest | None, request: Request
    ) -> list[FieldError]:
        spec = obj.spec
        if old is not None:
            return [] if spec == old.spec else [field_errors.invalid(_SPEC, spec, IMMUTABLE)]
        errors = validate_signer_name(spec.signer_name, _SPEC.child("signerName"))
        asked, here = spec.unverified_user_annotations, _SPEC.child("unverifiedUserAnnotations")
        errors += validate_annotations(asked, here, need_domain=True)
        for field, name in (
            ("podName", spec.pod_name),
            ("serviceAccountName", spec.service_account_name),
            ("nodeName", spec.node_name),
        ):
            errors += names.validate(_SPEC.child(field), name, names.dns1123_subdomain(name))
        for field, uid in (
            ("podUID", spec.pod_uid),
            ("serviceAccountUID", spec.service_account_uid),
            ("nodeUID", spec.node_uid),
        ):
            errors += _uid(uid, _SPEC.child(field))
        return errors + _life(spec) + _key(spec)

    def status_rules(
        self, new: PodCertificateRequest, old: PodCertificateRequest, request: Request
    ) -> list[FieldError]:
        conditions = _STATUS.child("conditions")
        errors: list[FieldError] = []
        for index, condition in enumerate(new.status.conditions):
            here = conditions.index(index)
            if condition.type not in _FINAL:
                errors.append(field_errors.not_supported(here.child("type"), condition.type, _FINAL))
            elif condition.status != "True":
                errors.append(field_errors.not_supported(here.child("status"), condition.status, ["True"]))
        if len(new.status.conditions) > 1:
            detail = 'There may be at most one condition with type "Issued", "Denied", or "Failed"'
            errors.append(field_errors.invalid(conditions, new.status.conditions[-1].type, detail))
        errors += validate_conditions(new.status.conditions, conditions)
        return errors or _answer(new.status, old.status)


def _uid(uid: str, path: Path) -> list[FieldError]:
    if not uid:
        return [field_errors.invalid(path, uid, "must not be empty")]
    return [field_errors.too_long(path, _LONGEST_UID)] if len(uid) > _LONGEST_UID else []


def _life(spec: PodCertificateRequestSpec) -> list[FieldError]:
    longest = _DAY if spec.signer_name.partition("/")[0].endswith("kubernetes.io") else 91 * _DAY
    seconds = spec.max_expiration_seconds or 0
    if _HOUR <= seconds <= longest:
        return []
    here = _SPEC.child("maxExpirationSeconds")
    return [field_errors.invalid(here, seconds, f"must be in the range [{_HOUR}, {longest}]")]


def _key(spec: PodCertificateRequestSpec) -> list[FieldError]:
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


def _answer(new: PodCertificateRequestStatus, old: PodCertificateRequestStatus) -> list[FieldError]:
    if old.conditions:
        detail = "immutable after PodCertificateRequest is issued, denied, or failed"
        return [] if new == old else [field_errors.invalid(_STATUS, new, detail)]
    chain = _STATUS.child("certificateChain")
    if not any(condition.type == "Issued" for condition in new.conditions):
        if new == PodCertificateRequestStatus(conditions=new.conditions):
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
    return [
        field_errors.required(_STATUS.child(name), "must be present and consistent with the issued certificate")
        for name, value in (
            ("notBefore", new.not_before),
            ("notAfter", new.not_after),
            ("beginRefreshAt", new.begin_refresh_at),
        )
        if not value
    ]
