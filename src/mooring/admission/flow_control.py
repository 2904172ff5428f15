"""FlowSchemas and PriorityLevelConfigurations, which classify requests and limit their concurrency.

Two of each are mandatory, with fixed specs. Suggested ones are those of Kubernetes; the server updates them while their
annotation allows it. ``apiserver/requests/flow_control.py`` creates both.
"""

import math

from msgspec import structs

from mooring.admission import checks
from mooring.admission.strategy import Request, Strategy, set_empty, set_missing
from mooring.api import field_errors, names
from mooring.api import flowcontrol_v1 as v1
from mooring.api.field_errors import Errors
from mooring.api.field_path import Path
from mooring.api.flowcontrol_v1 import PriorityLevelConfiguration as PriorityLevel
from mooring.api.meta_v1 import ObjectMeta

AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"
EXEMPT, CATCH_ALL = "exempt", "catch-all"
ALL = "*"
_API = "flowcontrol.apiserver.k8s.io/v1"


def _build_metadata(name: str) -> ObjectMeta:
    return ObjectMeta(name=name, annotations={AUTO_UPDATE: "true"})


def _build_level(name: str, spec: v1.PriorityLevelConfigurationSpec) -> PriorityLevel:
    kind = "PriorityLevelConfiguration"
    return PriorityLevel(kind=kind, api_version=_API, metadata=_build_metadata(name), spec=spec)


def _build_queued_level(name: str, shares: int, lendable: int, queues: int, hand_size: int) -> PriorityLevel:
    queuing = v1.QueuingConfiguration(queues=queues, hand_size=hand_size, queue_length_limit=50)
    limited = v1.LimitedPriorityLevelConfiguration(
        nominal_concurrency_shares=shares,
        lendable_percent=lendable,
        limit_response=v1.LimitResponse(type="Queue", queuing=queuing),
    )
    return _build_level(name, v1.PriorityLevelConfigurationSpec(type="Limited", limited=limited))


_ALL_RESOURCES = v1.ResourcePolicyRule(
    verbs=[ALL], api_groups=[ALL], resources=[ALL], namespaces=[ALL], cluster_scope=True
)
_ALL_PATHS = v1.NonResourcePolicyRule(verbs=[ALL], non_resource_urls=[ALL])
_EVERYTHING = v1.PolicyRulesWithSubjects(resource_rules=[_ALL_RESOURCES], non_resource_rules=[_ALL_PATHS])


def _build_schema(
    name: str,
    level: str,
    precedence: int,
    subjects: list[v1.Subject],
    rules: v1.PolicyRulesWithSubjects = _EVERYTHING,
    *,
    method: str = "ByUser",
) -> v1.FlowSchema:
    spec = v1.FlowSchemaSpec(
        priority_level_configuration=v1.PriorityLevelConfigurationReference(name=level),
        matching_precedence=precedence,
        distinguisher_method=v1.FlowDistinguisherMethod(type=method) if method else None,
        rules=[structs.replace(rules, subjects=subjects)],
    )
    return v1.FlowSchema(kind="FlowSchema", api_version=_API, metadata=_build_metadata(name), spec=spec)


def _build_group_subjects(*names: str) -> list[v1.Subject]:
    return [v1.Subject(kind="Group", group=v1.GroupSubject(name=name)) for name in names]


def _build_user_subjects(*names: str) -> list[v1.Subject]:
    return [v1.Subject(kind="User", user=v1.UserSubject(name=name)) for name in names]


def _build_lease_rule(*verbs: str) -> v1.ResourcePolicyRule:
    return v1.ResourcePolicyRule(
        verbs=[*verbs], api_groups=["coordination.k8s.io"], resources=["leases"], namespaces=[ALL]
    )


_ALL_USERS = _build_group_subjects("system:unauthenticated", "system:authenticated")
_NODES = _build_group_subjects("system:nodes")
_SYSTEM_ACCOUNTS = [
    v1.Subject(kind="ServiceAccount", service_account=v1.ServiceAccountSubject(namespace="kube-system", name=ALL))
]
_MANAGER = _build_user_subjects("system:kube-controller-manager")
_SCHEDULER = _build_user_subjects("system:kube-scheduler")
_PROBES = v1.NonResourcePolicyRule(verbs=["get"], non_resource_urls=["/healthz", "/readyz", "/livez"])
_OWN_NODE = v1.ResourcePolicyRule(
    verbs=[ALL], api_groups=[""], resources=["nodes", "nodes/status"], namespaces=[ALL], cluster_scope=True
)

MANDATORY_LEVELS = {
    EXEMPT: _build_level(
        EXEMPT,
        v1.PriorityLevelConfigurationSpec(
            type="Exempt", exempt=v1.ExemptPriorityLevelConfiguration(nominal_concurrency_shares=0, lendable_percent=0)
        ),
    ),
    CATCH_ALL: _build_level(
        CATCH_ALL,
        v1.PriorityLevelConfigurationSpec(
            type="Limited",
            limited=v1.LimitedPriorityLevelConfiguration(
                nominal_concurrency_shares=5, lendable_percent=0, limit_response=v1.LimitResponse(type="Reject")
            ),
        ),
    ),
}
MANDATORY_SCHEMAS = {
    EXEMPT: _build_schema(EXEMPT, EXEMPT, 1, _build_group_subjects("system:masters"), method=""),
    CATCH_ALL: _build_schema(CATCH_ALL, CATCH_ALL, 10_000, _ALL_USERS),
}
SUGGESTED_LEVELS = (
    _build_queued_level("system", 30, 33, 64, 6),
    _build_queued_level("node-high", 40, 25, 64, 6),
    _build_queued_level("leader-election", 10, 0, 16, 4),
    _build_queued_level("workload-high", 40, 50, 128, 6),
    _build_queued_level("workload-low", 100, 90, 128, 6),
    _build_queued_level("global-default", 20, 50, 128, 6),
)
SUGGESTED_SCHEMAS = (
    _build_schema("probes", EXEMPT, 2, _ALL_USERS, v1.PolicyRulesWithSubjects(non_resource_rules=[_PROBES]), method=""),
    _build_schema(
        "system-leader-election",
        "leader-election",
        100,
        [*_MANAGER, *_SCHEDULER, *_SYSTEM_ACCOUNTS],
        v1.PolicyRulesWithSubjects(resource_rules=[_build_lease_rule("get", "create", "update")]),
    ),
    _build_schema(
        "system-node-high",
        "node-high",
        400,
        _NODES,
        v1.PolicyRulesWithSubjects(resource_rules=[_OWN_NODE, _build_lease_rule(ALL)]),
    ),
    _build_schema("system-nodes", "system", 500, _NODES),
    _build_schema("kube-controller-manager", "workload-high", 800, _MANAGER, method="ByNamespace"),
    _build_schema("kube-scheduler", "workload-high", 800, _SCHEDULER, method="ByNamespace"),
    _build_schema("kube-system-service-accounts", "workload-high", 900, _SYSTEM_ACCOUNTS, method="ByNamespace"),
    _build_schema("service-accounts", "workload-low", 9000, _build_group_subjects("system:serviceaccounts")),
    _build_schema("global-default", "global-default", 9900, _ALL_USERS),
)


_METHODS = ("ByNamespace", "ByUser")
_SUBJECTS = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_MOST_QUEUES = 10_000_000
_MOST_BITS = 60
_SPEC = Path("spec")


class FlowSchemaStrategy(Strategy[v1.FlowSchema]):
    def default(self, obj: v1.FlowSchema) -> None:
        set_empty(obj.spec, matching_precedence=1000)

    def validate(self, obj: v1.FlowSchema, old: v1.FlowSchema | None, request: Request) -> Errors:
        errors = _validate_flow_schema(obj)
        fixed = MANDATORY_SCHEMAS.get(obj.metadata.name)
        detail = f"spec of '{obj.metadata.name}' must equal the fixed value"
        errors += checks.invalid_if(fixed is not None and obj.spec != fixed.spec, _SPEC, obj.spec, detail)
        return errors + _validate_condition_types(obj.status.conditions)

    def validate_status(self, new: v1.FlowSchema, old: v1.FlowSchema, request: Request) -> Errors:
        return _validate_condition_types(new.status.conditions)


def _validate_flow_schema(obj: v1.FlowSchema) -> Errors:
    spec, here, precedence = obj.spec, _SPEC.child("matchingPrecedence"), obj.spec.matching_precedence
    errors = checks.positive(precedence, here, "must be a positive value")
    errors += checks.limit_number(precedence, 10_000, here, "must not be greater than 10000")
    detail = "only the schema named 'exempt' may have matchingPrecedence 1"
    errors += checks.invalid_if(precedence == 1 and obj.metadata.name != EXEMPT, here, precedence, detail)
    method = spec.distinguisher_method
    if method is not None and method.type not in _METHODS:
        errors.append(field_errors.not_supported(_SPEC.child("distinguisherMethod", "type"), method, _METHODS))
    level, at = spec.priority_level_configuration.name, _SPEC.child("priorityLevelConfiguration", "name")
    errors += checks.require_name(level, at, names.dns1123_subdomain, "must reference a priority level")
    return errors + checks.validate_items(spec.rules, _SPEC.child("rules"), _validate_policy_rule)


def _validate_policy_rule(rule: v1.PolicyRulesWithSubjects, path: Path) -> Errors:
    resources, others = rule.resource_rules, rule.non_resource_rules
    errors = checks.validate_items(rule.subjects, path.child("subjects"), _validate_flow_subject)
    errors += checks.require(rule.subjects, path.child("subjects"), "subjects must contain at least one value")
    detail = "at least one of resourceRules and nonResourceRules has to be non-empty"
    errors += checks.require(resources or others, path, detail)
    errors += checks.validate_items(resources, path.child("resourceRules"), _validate_resource_rule)
    return errors + checks.validate_items(others, path.child("nonResourceRules"), _validate_non_resource_rule)


def _validate_flow_subject(subject: v1.Subject, path: Path) -> Errors:
    wanted = _SUBJECTS.get(subject.kind)
    if wanted is None:
        return [field_errors.not_supported(path.child("kind"), subject.kind, sorted(_SUBJECTS))]
    given = dict(checks.select_fields(subject, *_SUBJECTS.values()))
    own, here = given[wanted], path.child(wanted)
    if own is None:
        errors = [field_errors.required(here, f"{wanted} is required when subject kind is '{subject.kind}'")]
    elif own.name == ALL and subject.kind == "ServiceAccount":
        errors = []
    elif subject.kind == "ServiceAccount":
        errors = checks.require_name(own.name, here.child("name"), names.dns1123_subdomain)
    else:
        errors = checks.require(own.name, here.child("name"))
    if own is not None and subject.kind == "ServiceAccount":
        detail = "must specify namespace for service account"
        errors += checks.require_name(own.namespace, here.child("namespace"), names.dns1123_label, detail)
    for kind, name in _SUBJECTS.items():
        detail = f"{name} is forbidden when subject kind is not '{kind}'"
        errors += checks.forbidden_if(name != wanted and given[name] is not None, path.child(name), detail)
    return errors


def _validate_verbs(verbs: list[str], path: Path) -> Errors:
    if not verbs:
        return [field_errors.required(path, "verbs must contain at least one value")]
    if ALL in verbs:
        return _validate_wildcard(verbs, path, "verbs")
    return [] if set(verbs) <= set(_VERBS) else [field_errors.not_supported(path, verbs, _VERBS)]


def _validate_wildcard(values: list[str], path: Path, what: str) -> Errors:
    if ALL not in values or len(values) == 1:
        return []
    return [field_errors.invalid(path, values, f"if '*' is present, must not specify other {what}")]


def _validate_resource_rule(rule: v1.ResourcePolicyRule, path: Path) -> Errors:
    errors = _validate_verbs(rule.verbs, path.child("verbs"))
    for child, values, one, many in (
        ("apiGroups", rule.api_groups, "api group", "api groups"),
        ("resources", rule.resources, "resource", "resources"),
    ):
        errors += checks.require(values, path.child(child), f"resource rules must supply at least one {one}")
        errors += _validate_wildcard(values, path.child(child), many)
    here = path.child("namespaces")
    if not rule.namespaces and not rule.cluster_scope:
        detail = "resource rules that are not cluster scoped must supply at least one namespace"
        errors.append(field_errors.required(here, detail))
    elif ALL in rule.namespaces:
        errors += _validate_wildcard(rule.namespaces, here, "namespaces")
    else:
        intro = "each member of this list must be '*' or a DNS-1123 label; "
        for index, namespace in enumerate(rule.namespaces):
            wrong = tuple(intro + message for message in names.dns1123_label(namespace))
            errors += names.validate(here.index(index), namespace, wrong)
    return errors


def _validate_non_resource_rule(rule: v1.NonResourcePolicyRule, path: Path) -> Errors:
    errors = _validate_verbs(rule.verbs, path.child("verbs"))
    here, urls = path.child("nonResourceURLs"), rule.non_resource_urls
    if not urls:
        errors.append(field_errors.required(here, "nonResourceURLs must contain at least one value"))
    elif ALL in urls:
        errors += _validate_wildcard(urls, here, "non-resource URLs")
    else:
        for index, url in enumerate(urls):
            if wrong := _find_url_problem(url):
                errors.append(field_errors.invalid(here.index(index), url, wrong))
    return errors


def _find_url_problem(url: str) -> str:
    if not url:
        return "must not be empty"
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    stars = url.count(ALL)
    return "wildcard can only do suffix matching" if stars > 1 or (stars and not url.endswith("/*")) else ""


def _validate_condition_types(conditions: list[v1.FlowSchemaCondition]) -> Errors:
    errors: Errors = []
    seen = checks.UniqueKeys()
    for index, condition in enumerate(conditions):
        here = Path("status.conditions").index(index).child("type")
        errors += seen.add(condition.type, here)
        errors += checks.require(condition.type, here)
    return errors


class PriorityLevelStrategy(Strategy[PriorityLevel]):
    def default(self, obj: PriorityLevel) -> None:
        exempt, limited = obj.spec.exempt, obj.spec.limited
        if exempt is not None:
            set_missing(exempt, nominal_concurrency_shares=0, lendable_percent=0)
        if limited is not None:
            set_missing(limited, nominal_concurrency_shares=30, lendable_percent=0)
            if limited.limit_response.queuing is not None:
                set_empty(limited.limit_response.queuing, queues=64, hand_size=8, queue_length_limit=50)

    def validate(self, obj: PriorityLevel, old: PriorityLevel | None, request: Request) -> Errors:
        return (
            _validate_level_spec(obj.spec, obj.metadata.name)
            + _validate_mandatory_level(obj)
            + _validate_condition_types([*obj.status.conditions])
        )

    def validate_status(self, new: PriorityLevel, old: PriorityLevel, request: Request) -> Errors:
        return _validate_condition_types([*new.status.conditions])


def _validate_mandatory_level(obj: PriorityLevel) -> Errors:
    name, spec = obj.metadata.name, obj.spec
    fixed = MANDATORY_LEVELS.get(name)
    if fixed is None:
        return []
    if name == EXEMPT:
        detail = f"spec of '{name}' except the 'spec.exempt' field must equal the fixed value"
        is_changed = (spec.type, spec.limited) != (fixed.spec.type, fixed.spec.limited)
        return checks.invalid_if(is_changed, _SPEC, spec, detail)
    return checks.invalid_if(spec != fixed.spec, _SPEC, spec, f"spec of '{name}' must equal the fixed value")


def _validate_level_spec(spec: v1.PriorityLevelConfigurationSpec, name: str) -> Errors:
    errors: Errors = []
    here = _SPEC.child("type")
    if (name == EXEMPT) != (spec.type == "Exempt"):
        errors.append(field_errors.invalid(here, spec.type, "must be 'Exempt' if and only if `name` is 'exempt'"))
    for kind, field, given in (("Exempt", "exempt", spec.exempt), ("Limited", "limited", spec.limited)):
        errors += checks.forbidden_if(given is not None and spec.type != kind, _SPEC.child(field), "")
    match spec.type:
        case "Exempt":
            errors += checks.optional(spec.exempt, _SPEC.child("exempt"), _validate_exempt_level)
        case "Limited":
            errors += checks.require(spec.limited is not None, _SPEC.child("limited"))
            errors += checks.optional(spec.limited, _SPEC.child("limited"), _validate_limited_level)
        case _:
            errors += checks.require_one_of(spec.type, ("Exempt", "Limited"), here)
    if spec.limited is not None:  # whichever the type is
        response, here = spec.limited.limit_response, _SPEC.child("limited", "limitResponse")
        errors += checks.require(response.type, here.child("type"))
        errors += checks.require(response.type != "Queue" or response.queuing, here.child("queuing"))
        errors += checks.forbidden_if(response.type != "Queue" and response.queuing, here.child("queuing"), "")
    return errors


def _validate_exempt_level(exempt: v1.ExemptPriorityLevelConfiguration, path: Path) -> Errors:
    errors = _validate_non_negative(exempt.nominal_concurrency_shares, path.child("nominalConcurrencyShares"))
    return errors + _validate_percentage(exempt.lendable_percent, path.child("lendablePercent"))


def _validate_non_negative(value: int | None, path: Path, intro: str = "") -> Errors:
    return checks.invalid_if((value or 0) < 0, path, value, f"{intro}must be a non-negative integer")


def _validate_percentage(value: int | None, path: Path) -> Errors:
    return checks.invalid_if(not 0 <= (value or 0) <= 100, path, value, "must be between 0 and 100, inclusive")


def _validate_limited_level(limited: v1.LimitedPriorityLevelConfiguration, path: Path) -> Errors:
    errors = _validate_non_negative(limited.nominal_concurrency_shares, path.child("nominalConcurrencyShares"))
    response, here = limited.limit_response, path.child("limitResponse")
    errors += checks.optional_one_of(response.type or None, ("Queue", "Reject"), here.child("type"))
    if response.type == "Queue":
        errors += checks.optional(response.queuing, here.child("queuing"), _validate_queuing)
    errors += _validate_percentage(limited.lendable_percent, path.child("lendablePercent"))
    return errors + _validate_non_negative(
        limited.borrowing_limit_percent, path.child("borrowingLimitPercent"), "if specified, "
    )


def _validate_queuing(queuing: v1.QueuingConfiguration, path: Path) -> Errors:
    queues, hand, here, at = queuing.queues, queuing.hand_size, path.child("queues"), path.child("handSize")
    errors = checks.positive(queuing.queue_length_limit, path.child("queueLengthLimit"), "must be positive")
    errors += checks.positive(queues, here, "must be positive")
    errors += checks.limit_number(queues, _MOST_QUEUES, here, f"must not be greater than {_MOST_QUEUES}")
    if hand <= 0:
        errors.append(field_errors.invalid(at, hand, "must be positive"))
    elif hand > queues:
        errors.append(field_errors.invalid(at, hand, f"should not be greater than queues ({queues})"))
    elif math.ceil(math.log2(queues) * hand) > _MOST_BITS:
        sizes = f"deckSize {queues} and handSize {hand}"
        detail = f"required entropy bits of {sizes} should not be greater than {_MOST_BITS}"
        errors.append(field_errors.invalid(at, hand, detail))
    return errors
