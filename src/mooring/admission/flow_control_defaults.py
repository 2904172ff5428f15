"""The mandatory and suggested FlowSchemas and PriorityLevelConfigurations of Kubernetes.

Mandatory ones are immutable and recreated after deletion. Suggested ones are updated while their annotation allows it.
``flow_control.py`` checks the former; ``apiserver/flow_control/`` creates all of them.
"""

from mooring.api.flowcontrol_v1 import (
    ExemptPriorityLevelConfiguration,
    FlowDistinguisherMethod,
    FlowSchema,
    FlowSchemaSpec,
    GroupSubject,
    LimitedPriorityLevelConfiguration,
    LimitResponse,
    NonResourcePolicyRule,
    PolicyRulesWithSubjects,
    PriorityLevelConfiguration,
    PriorityLevelConfigurationReference,
    PriorityLevelConfigurationSpec,
    QueuingConfiguration,
    ResourcePolicyRule,
    ServiceAccountSubject,
    Subject,
    UserSubject,
)
from mooring.api.meta_v1 import ObjectMeta

AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"
EXEMPT, CATCH_ALL = "exempt", "catch-all"
_ALL = "*"
_API = "flowcontrol.apiserver.k8s.io/v1"


def _metadata(name: str) -> ObjectMeta:
    return ObjectMeta(name=name, annotations={AUTO_UPDATE: "true"})


def _level(name: str, spec: PriorityLevelConfigurationSpec) -> PriorityLevelConfiguration:
    kind = "PriorityLevelConfiguration"
    return PriorityLevelConfiguration(kind=kind, api_version=_API, metadata=_metadata(name), spec=spec)


def _queued(name: str, shares: int, lendable: int, queues: int, hand_size: int) -> PriorityLevelConfiguration:
    queuing = QueuingConfiguration(queues=queues, hand_size=hand_size, queue_length_limit=50)
    limited = LimitedPriorityLevelConfiguration(
        nominal_concurrency_shares=shares,
        lendable_percent=lendable,
        limit_response=LimitResponse(type="Queue", queuing=queuing),
    )
    return _level(name, PriorityLevelConfigurationSpec(type="Limited", limited=limited))


def _schema(name: str, level: str, precedence: int, method: str, rules: PolicyRulesWithSubjects) -> FlowSchema:
    spec = FlowSchemaSpec(
        priority_level_configuration=PriorityLevelConfigurationReference(name=level),
        matching_precedence=precedence,
        distinguisher_method=FlowDistinguisherMethod(type=method) if method else None,
        rules=[rules],
    )
    return FlowSchema(kind="FlowSchema", api_version=_API, metadata=_metadata(name), spec=spec)


def _groups(*names: str) -> list[Subject]:
    return [Subject(kind="Group", group=GroupSubject(name=name)) for name in names]


def _users(*names: str) -> list[Subject]:
    return [Subject(kind="User", user=UserSubject(name=name)) for name in names]


def _everything(subjects: list[Subject]) -> PolicyRulesWithSubjects:
    resources = ResourcePolicyRule(
        verbs=[_ALL], api_groups=[_ALL], resources=[_ALL], namespaces=[_ALL], cluster_scope=True
    )
    paths = NonResourcePolicyRule(verbs=[_ALL], non_resource_urls=[_ALL])
    return PolicyRulesWithSubjects(subjects=subjects, resource_rules=[resources], non_resource_rules=[paths])


def _leases(*verbs: str) -> ResourcePolicyRule:
    return ResourcePolicyRule(
        verbs=[*verbs], api_groups=["coordination.k8s.io"], resources=["leases"], namespaces=[_ALL]
    )


_ALL_USERS = _groups("system:unauthenticated", "system:authenticated")
_NODES = _groups("system:nodes")
_SYSTEM_ACCOUNTS = [
    Subject(kind="ServiceAccount", service_account=ServiceAccountSubject(namespace="kube-system", name=_ALL))
]
_MANAGER, _SCHEDULER = _users("system:kube-controller-manager"), _users("system:kube-scheduler")
_PROBES = NonResourcePolicyRule(verbs=["get"], non_resource_urls=["/healthz", "/readyz", "/livez"])
_OWN_NODE = ResourcePolicyRule(
    verbs=[_ALL], api_groups=[""], resources=["nodes", "nodes/status"], namespaces=[_ALL], cluster_scope=True
)

MANDATORY_LEVELS = {
    EXEMPT: _level(
        EXEMPT,
        PriorityLevelConfigurationSpec(
            type="Exempt", exempt=ExemptPriorityLevelConfiguration(nominal_concurrency_shares=0, lendable_percent=0)
        ),
    ),
    CATCH_ALL: _level(
        CATCH_ALL,
        PriorityLevelConfigurationSpec(
            type="Limited",
            limited=LimitedPriorityLevelConfiguration(
                nominal_concurrency_shares=5, lendable_percent=0, limit_response=LimitResponse(type="Reject")
            ),
        ),
    ),
}
MANDATORY_SCHEMAS = {
    EXEMPT: _schema(EXEMPT, EXEMPT, 1, "", _everything(_groups("system:masters"))),
    CATCH_ALL: _schema(CATCH_ALL, CATCH_ALL, 10_000, "ByUser", _everything(_ALL_USERS)),
}
SUGGESTED_LEVELS = (
    _queued("system", 30, 33, 64, 6),
    _queued("node-high", 40, 25, 64, 6),
    _queued("leader-election", 10, 0, 16, 4),
    _queued("workload-high", 40, 50, 128, 6),
    _queued("workload-low", 100, 90, 128, 6),
    _queued("global-default", 20, 50, 128, 6),
)
SUGGESTED_SCHEMAS = (
    _schema("probes", EXEMPT, 2, "", PolicyRulesWithSubjects(subjects=_ALL_USERS, non_resource_rules=[_PROBES])),
    _schema(
        "system-leader-election",
        "leader-election",
        100,
        "ByUser",
        PolicyRulesWithSubjects(
            subjects=[*_MANAGER, *_SCHEDULER, *_SYSTEM_ACCOUNTS], resource_rules=[_leases("get", "create", "update")]
        ),
    ),
    _schema(
        "system-node-high",
        "node-high",
        400,
        "ByUser",
        PolicyRulesWithSubjects(subjects=_NODES, resource_rules=[_OWN_NODE, _leases(_ALL)]),
    ),
    _schema("system-nodes", "system", 500, "ByUser", _everything(_NODES)),
    _schema("kube-controller-manager", "workload-high", 800, "ByNamespace", _everything(_MANAGER)),
    _schema("kube-scheduler", "workload-high", 800, "ByNamespace", _everything(_SCHEDULER)),
    _schema("kube-system-service-accounts", "workload-high", 900, "ByNamespace", _everything(_SYSTEM_ACCOUNTS)),
    _schema("service-accounts", "workload-low", 9000, "ByUser", _everything(_groups("system:serviceaccounts"))),
    _schema("global-default", "global-default", 9900, "ByUser", _everything(_ALL_USERS)),
)
