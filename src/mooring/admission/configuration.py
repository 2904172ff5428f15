"""Validate ConfigMaps, Secrets and ServiceAccounts: keys and size; immutable ones must not change."""

import msgspec

from mooring.admission import checks
from mooring.admission.meta import IMMUTABLE
from mooring.admission.strategy import Request, Strategy
from mooring.api import field_errors, names
from mooring.api.core_v1 import ConfigMap, ObjectReference, Secret, ServiceAccount
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path

MAX_BYTES = 1024 * 1024
WHEN_IMMUTABLE = "field is immutable when `immutable` is set"
_DATA = Path("data")
_BINARY_DATA = Path("binaryData")
_SERVICE_ACCOUNT = "kubernetes.io/service-account.name"
_REDACTED = "<secret contents redacted>"


class ConfigMapStrategy(Strategy[ConfigMap]):
    has_generation = False

    def validate(self, obj: ConfigMap, old: ConfigMap | None, request: Request) -> Errors:
        errors = []
        if old is not None and old.immutable:
            errors += _validate_immutable_data(obj.immutable, obj.data == old.data)
            errors += checks.forbidden_if(obj.binary_data != old.binary_data, _BINARY_DATA, WHEN_IMMUTABLE)
        for key in obj.data:
            if key in obj.binary_data or not names.is_valid_config_key(key):
                errors += _validate_data_key(key, _DATA, "binaryData" if key in obj.binary_data else "")
        for key in obj.binary_data:
            errors += _validate_data_key(key, _BINARY_DATA, "")
        left = MAX_BYTES - sum(map(len, obj.binary_data.values()))
        may_exceed = 4 * sum(map(len, obj.data.values())) > left  # a character has up to four bytes
        if may_exceed and sum(len(value.encode(errors="surrogatepass")) for value in obj.data.values()) > left:
            errors.append(field_errors.too_long(Path(""), MAX_BYTES))
        return errors


class SecretStrategy(Strategy[Secret]):
    has_generation = False

    def default(self, obj: Secret) -> None:
        obj.type = obj.type or "Opaque"
        for key, text in obj.string_data.items():
            obj.data[key] = text.encode(errors="surrogatepass")
        obj.string_data = {}  # write-only: it is never read back

    def validate(self, obj: Secret, old: Secret | None, request: Request) -> Errors:
        errors = []
        if old is not None:
            errors += checks.invalid_if(obj.type != old.type, Path("type"), obj.type, IMMUTABLE)
            if old.immutable:
                errors += _validate_immutable_data(obj.immutable, obj.data == old.data)
        for key in obj.data:
            errors += names.validate(_DATA.key(key), key, names.config_map_key(key))
        if sum(map(len, obj.data.values())) > MAX_BYTES:
            errors.append(field_errors.too_long(_DATA, MAX_BYTES))
        return errors + _validate_secret_type(obj)


class ServiceAccountStrategy(Strategy[ServiceAccount]):
    has_generation = False
    allow_unconditional_update = False

    def prepare_for_create(self, obj: ServiceAccount, request: Request) -> None:
        _keep_secret_names(obj)

    def prepare_for_update(self, new: ServiceAccount, old: ServiceAccount, request: Request) -> None:
        super().prepare_for_update(new, old, request)
        _keep_secret_names(new)


def _keep_secret_names(account: ServiceAccount) -> None:
    account.secrets = [ObjectReference(name=secret.name) for secret in account.secrets]


def _validate_immutable_data(immutable: bool | None, same_data: bool) -> Errors:
    errors = checks.forbidden_if(not immutable, Path("immutable"), WHEN_IMMUTABLE)
    return errors + checks.forbidden_if(not same_data, _DATA, WHEN_IMMUTABLE)


def _validate_data_key(key: str, path: Path, also_in: str) -> Errors:
    wrong = names.config_map_key(key)
    errors = names.validate(path.key(key), key, wrong) if wrong else []
    errors += checks.invalid_if(also_in, path.key(key), key, f"duplicate of key present in {also_in}")
    return errors


def _validate_secret_type(secret: Secret) -> Errors:
    data = secret.data
    match secret.type:
        case "kubernetes.io/service-account-token":
            if not secret.metadata.annotations.get(_SERVICE_ACCOUNT):
                return [field_errors.required(Path("metadata.annotations").key(_SERVICE_ACCOUNT))]
        case "kubernetes.io/dockercfg":
            return _validate_json_entry(data, ".dockercfg")
        case "kubernetes.io/dockerconfigjson":
            return _validate_json_entry(data, ".dockerconfigjson")
        case "kubernetes.io/basic-auth":
            if "username" not in data and "password" not in data:
                return [field_errors.required(_DATA.key(key)) for key in ("username", "password")]
        case "kubernetes.io/ssh-auth":
            if not data.get("ssh-privatekey"):
                return [field_errors.required(_DATA.key("ssh-privatekey"))]
        case "kubernetes.io/tls":
            return [field_errors.required(_DATA.key(key)) for key in ("tls.crt", "tls.key") if key not in data]
    return []


def _validate_json_entry(data: dict[str, bytes], key: str) -> Errors:
    if key not in data:
        return [field_errors.required(_DATA.key(key))]
    try:
        msgspec.json.decode(data[key], type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return [field_errors.invalid(_DATA.key(key), _REDACTED, str(error))]
    return []
