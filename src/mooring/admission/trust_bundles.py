"""ClusterTrustBundles: trust anchors for pods, with or without a signer.

``apiserver/access/certificate_checks.py`` authorizes writes for a signer.
"""

import base64
import binascii
import re
from collections.abc import Callable

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from mooring.admission import meta
from mooring.admission.rule_strategy import RuleStrategy
from mooring.admission.signer_names import validate_signer_name
from mooring.admission.strategy import Request
from mooring.api import field_errors, names
from mooring.api.certificates_v1 import ClusterTrustBundle
from mooring.api.field_errors import FieldError
from mooring.api.field_path import Path

_SPEC = Path("spec")
_BUNDLE = _SPEC.child("trustBundle")
_LARGEST = 1024 * 1024
_BLOCK = re.compile(r"^-----BEGIN ([^\n]*?)-----[ \t\r]*\n(.*?)^-----END \1-----[ \t\r]*$", re.DOTALL | re.MULTILINE)
_HEADER = re.compile(r"^[^\n:]+:", re.MULTILINE)


class ClusterTrustBundleStrategy(RuleStrategy[ClusterTrustBundle]):
    has_generation = False
    allow_unconditional_update = False

    def validate_create(self, obj: ClusterTrustBundle, request: Request) -> list[FieldError]:
        name_check = _name_check(obj.spec.signer_name)
        errors = meta.validate_object_meta(obj.metadata, namespaced=False, name_check=name_check)
        return errors + self.rules(obj, None, request)

    def rules(self, obj: ClusterTrustBundle, old: ClusterTrustBundle | None, request: Request) -> list[FieldError]:
        spec, errors = obj.spec, list[FieldError]()
        if spec.signer_name:
            errors += validate_signer_name(spec.signer_name, _SPEC.child("signerName"))
        if old is None or spec.trust_bundle != old.spec.trust_bundle:
            errors += _bundle(spec.trust_bundle)
        if old is not None:
            errors += meta.immutable(spec.signer_name, old.spec.signer_name, _SPEC, "signerName")
        return errors


def _name_check(signer: str) -> Callable[[str], names.Messages]:
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


def _bundle(text: str) -> list[FieldError]:
    if len(text.encode()) > _LARGEST:
        return [field_errors.too_long(_BUNDLE, _LARGEST)]
    problems: list[str] = []
    places: dict[bytes, list[int]] = {}
    for index, block in enumerate(_BLOCK.finditer(text)):
        found = _anchor(block[1], block[2])
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


def _anchor(kind: str, body: str) -> bytes | str:
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
