"""The environments of admission: expressions of policies, and match conditions of policies and webhooks.

    object.spec.replicas <= params.spec.maxReplicas
    request.userInfo.username.startsWith('system:') || authorizer.requestResource.check('approve').allowed()

`object`, `oldObject` and `params` are dynamic; `request` and `namespaceObject` are typed. The functions of KEP-5500 are
available too. Mutations are built from `Object{…}`, whose fields are open, and `JSONPatch{…}`. Used by
``admission/policy/``.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from mooring.base.version import Version
from mooring.cel.environment import Environment
from mooring.cel.ext.traversal import READ_AND_KEEP_SIZE
from mooring.cel.library import Library, Overload, function
from mooring.cel.types import BOOL, DYN, INT, STRING, TIMESTAMP, Field, ObjectType, Type, list_of, map_of
from mooring.constraints.celenv.authorizer import (
    AUTHORIZER_LIBRARY,
    SELECTORS_LIBRARY,
    AuthorizerValue,
    ResourceCheck,
)
from mooring.constraints.celenv.environments import COST_LIMIT, base_environment, full_base_environment
from mooring.constraints.celenv.semver import COMPARE_LIBRARY

PER_CALL: Final = COST_LIMIT
"""The cost limit of one expression."""
BUDGET: Final = 10_000_000
"""The cost limit of all expressions of a policy, for one request and one set of parameters."""
CONDITIONS_BUDGET: Final = 2_500_000
"""The cost limit of all match conditions of a policy or webhook."""
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMPARE_SINCE: Final = Version(1, 35)
_STRINGS: Final = list_of(STRING)


def _object(type_name: str, /, **fields: Type) -> ObjectType:
    return ObjectType(type_name, {key: Field(type_) for key, type_ in fields.items()})


_GVK: Final = _object("kubernetes.GroupVersionKind", group=STRING, version=STRING, kind=STRING)
_GVR: Final = _object("kubernetes.GroupVersionResource", group=STRING, version=STRING, resource=STRING)
_USER: Final = _object(
    "kubernetes.UserInfo", username=STRING, uid=STRING, groups=_STRINGS, extra=map_of(STRING, _STRINGS)
)
_REQUEST: Final = _object(
    "kubernetes.AdmissionRequest",
    kind=_GVK.type,
    resource=_GVR.type,
    subResource=STRING,
    requestKind=_GVK.type,
    requestResource=_GVR.type,
    requestSubResource=STRING,
    name=STRING,
    namespace=STRING,
    operation=STRING,
    userInfo=_USER.type,
    dryRun=BOOL,
    options=DYN,
)
_SPEC: Final = _object("kubernetes.NamespaceSpec", finalizers=_STRINGS)
_CONDITION: Final = _object(
    "kubernetes.NamespaceCondition",
    status=STRING,
    type=STRING,
    lastTransitionTime=TIMESTAMP,
    message=STRING,
    reason=STRING,
)
_STATUS: Final = _object("kubernetes.NamespaceStatus", conditions=list_of(_CONDITION.type), phase=STRING)
_METADATA: Final = _object(
    "kubernetes.NamespaceMetadata",
    name=STRING,
    generateName=STRING,
    namespace=STRING,
    labels=map_of(STRING, STRING),
    annotations=map_of(STRING, STRING),
    UID=STRING,
    creationTimestamp=TIMESTAMP,
    deletionGracePeriodSeconds=INT,
    deletionTimestamp=TIMESTAMP,
    generation=INT,
    resourceVersion=STRING,
    finalizers=_STRINGS,
)
_NAMESPACE: Final = _object("kubernetes.Namespace", metadata=_METADATA.type, spec=_SPEC.type, status=_STATUS.type)
_TYPES: Final = (_GVK, _GVR, _USER, _REQUEST, _SPEC, _CONDITION, _STATUS, _METADATA, _NAMESPACE)
_JSON_PATCH: Final = _object("JSONPatch", **{"op": STRING, "from": STRING, "path": STRING, "value": DYN})


def _escaped_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


_ESCAPE: Final = Overload("string_jsonpatch_escapeKey_string", (STRING,), STRING, _escaped_key, cost=READ_AND_KEEP_SIZE)
_PATCH_LIBRARY: Final = Library("kubernetes.jsonpatch", functions=(function("jsonpatch.escapeKey", _ESCAPE),))
_VARIABLES: Final = "kubernetes.variables"


@lru_cache(maxsize=64)
def admission_environment(
    version: Version | None, *, params: bool = False, authorizer: bool = True, patches: bool = False
) -> Environment:
    """Return the environment for new expressions at a minimum compatibility version, or for stored ones (None).

    `params`: declare `params`. `authorizer`: declare `authorizer`, which message expressions must not use. `patches`:
    declare the types that mutations build.
    """
    base = full_base_environment() if version is None else base_environment(version)
    libraries: list[Library] = [AUTHORIZER_LIBRARY]
    if version is None or version >= Version(1, 31):
        libraries.append(SELECTORS_LIBRARY)
    if version is None or version >= _COMPARE_SINCE:
        libraries.append(COMPARE_LIBRARY)
    variables: dict[str, Type] = {
        "object": DYN,
        "oldObject": DYN,
        "namespaceObject": _NAMESPACE.type,
        "request": _REQUEST.type,
    }
    if params:
        variables["params"] = DYN
    if authorizer:
        variables |= {"authorizer": AuthorizerValue.cel_type, "authorizer.requestResource": ResourceCheck.cel_type}
    made = base.extend(variables=variables, libraries=libraries, types=_TYPES)
    if not patches:
        return made
    return made.extend(types=(_JSON_PATCH,), libraries=(_PATCH_LIBRARY,), open_types=("Object",))


def with_variables(base: Environment, variables: Mapping[str, Type], text: str | None = None) -> Environment:
    """Return the environment extended by a policy's composed variables, as `variables.name`.

    Given `text`, declare only the variables that it can name: otherwise the work for a policy would grow with the
    square of its variables, because each has its own environment.
    """
    named = variables if text is None else sorted(variables.keys() & set(_IDENTIFIER.findall(text)))
    return _with_variables(base, tuple((name, variables[name]) for name in named))


@lru_cache(maxsize=256)
def _with_variables(base: Environment, variables: tuple[tuple[str, Type], ...]) -> Environment:
    declared = ObjectType(_VARIABLES, {name: Field(type_) for name, type_ in variables})
    return base.extend(variables={"variables": declared.type}, types=(declared,))
