"""The mandatory and suggested FlowSchemas and PriorityLevelConfigurations of Kubernetes.

Mandatory ones are immutable and recreated after deletion. Suggested ones are updated while their annotation allows it.
``flow_control.py`` checks the former; ``apiserver/flow_control/`` creates all of them.
"""

from mooring.api import flowcontrol_v1 as v1
from mooring.api.meta_v1 import ObjectMeta

AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"
EXEMPT, CATCH_ALL = "exempt", "catch-all"
_ALL = "*"
_API = "flowcontrol.apiserver.k8s.io/v1"


def _metadata(name: str) -> ObjectMeta:
    return ObjectMeta(name=name, annotations={AUTO_UPDATE: "true"})


def _level(name: str, spec: v1.PriorityLevelConfigurationSpec) -> v1.PriorityLevelConfiguration:
    kind = "PriorityLevelConfiguration"
    return v1.PriorityLevelConfiguration(kind=kind, api_version=_API, metadata=_metadata(name), spec=spec)


def _queued_level(name: str, shares: int, lendable: int, queues: int, hand_size: int) -> v1.PriorityLevelConfiguration:
    queuing = v1.QueuingConfiguration(queues=queues, hand_size=hand_size, queue_length_limit=50)
    limited = v1.LimitedPriorityLevelConfiguration(
        nominal_concurrency_shares=shares,
        lendable_percent=lendable,
        limit_response=v1.LimitResponse(type="Queue", queuing=queuing),
    )
    return _level(name, v1.PriorityLevelConfigurationSpec(type="Limited", limited=limited))


def _schema(name: str, level: str, precedence: int, method: str, rules: v1.PolicyRulesWithSubjects) -> v1.FlowSchema:
    spec = v1.FlowSchemaSpec(
        priority_level_configuration=v1.PriorityLevelConfigurationReference(name=level),
        matching_precedence=precedence,
        distinguisher_method=v1.FlowDistinguisherMethod(type=method) if method else None,
        rules=[rules],
    )
    return v1.FlowSchema(kind="FlowSchema", api_version=_API, metadata=_metadata(name), spec=spec)


def _groups(*names: str) -> list[v1.Subject]:
    return [v1.Subject(kind="Group", group=v1.GroupSubject(name=name)) for name in names]


def _users(*names: str) -> list[v1.Subject]:
    return [v1.Subject(kind="User", user=v1.UserSubject(name=name)) for name in names]


def _everything(subjects: list[v1.Subject]) -> v1.PolicyRulesWithSubjects:
    resources = v1.ResourcePolicyRule(
        verbs=[_ALL], api_groups=[_ALL], resources=[_ALL], namespaces=[_ALL], cluster_scope=True
    )
    paths = v1.NonResourcePolicyRule(verbs=[_ALL], non_resource_urls=[_ALL])
    return v1.PolicyRulesWithSubjects(subjects=subjects, resource_rules=[resources], non_resource_rules=[paths])


def _leases(*verbs: str) -> v1.ResourcePolicyRule:
    return v1.ResourcePolicyRule(
        verbs=[*verbs], api_groups=["coordination.k8s.io"], resources=["leases"], namespaces=[_ALL]
    )


_ALL_USERS = _groups("system:unauthenticated", "system:authenticated")
_NODES = _groups("system:nodes")
_SYSTEM_ACCOUNTS = [
    v1.Subject(kind="ServiceAccount", service_account=v1.ServiceAccountSubject(namespace="kube-system", name=_ALL))
]
_MANAGER, _SCHEDULER = _users("system:kube-controller-manager"), _users("system:kube-scheduler")
_PROBES = v1.NonResourcePolicyRule(verbs=["get"], non_resource_urls=["/healthz", "/readyz", "/livez"])
_OWN_NODE = v1.ResourcePolicyRule(
    verbs=[_ALL], api_groups=[""], resources=["nodes", "nodes/status"], namespaces=[_ALL], cluster_scope=True
)

MANDATORY_LEVELS = {
    EXEMPT: _level(
        EXEMPT,
        v1.PriorityLevelConfigurationSpec(
            type="Exempt", exempt=v1.ExemptPriorityLevelConfiguration(nominal_concurrency_shares=0, lendable_percent=0)
        ),
    ),
    CATCH_ALL: _level(
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
    EXEMPT: _schema(EXEMPT, EXEMPT, 1, "", _everything(_groups("system:masters"))),
    CATCH_ALL: _schema(CATCH_ALL, CATCH_ALL, 10_000, "ByUser", _everything(_ALL_USERS)),
}
SUGGESTED_LEVELS = (
    _queued_level("system", 30, 33, 64, 6),
    _queued_level("node-high", 40, 25, 64, 6),
    _queued_level("leader-election", 10, 0, 16, 4),
    _queued_level("workload-high", 40, 50, 128, 6),
    _queued_level("workload-low", 100, 90, 128, 6),
    _queued_level("global-default", 20, 50, 128, 6),
)
SUGGESTED_SCHEMAS = (
    _schema("probes", EXEMPT, 2, "", v1.PolicyRulesWithSubjects(subjects=_ALL_USERS, non_resource_rules=[_PROBES])),
    _schema(
        "system-leader-election",
        "leader-election",
        100,
        "ByUser",
        v1.PolicyRulesWithSubjects(
            subjects=[*_MANAGER, *_SCHEDULER, *_SYSTEM_ACCOUNTS], resource_rules=[_leases("get", "create", "update")]
        ),
    ),
    _schema(
        "system-node-high",
        "node-high",
        400,
        "ByUser",
        v1.PolicyRulesWithSubjects(subjects=_NODES, resource_rules=[_OWN_NODE, _leases(_ALL)]),
    ),
    _schema("system-nodes", "system", 500, "ByUser", _everything(_NODES)),
    _schema("kube-controller-manager", "workload-high", 800, "ByNamespace", _everything(_MANAGER)),
    _schema("kube-scheduler", "workload-high", 800, "ByNamespace", _everything(_SCHEDULER)),
    _schema("kube-system-service-accounts", "workload-high", 900, "ByNamespace", _everything(_SYSTEM_ACCOUNTS)),
    _schema("service-accounts", "workload-low", 9000, "ByUser", _everything(_groups("system:serviceaccounts"))),
    _schema("global-default", "global-default", 9900, "ByUser", _everything(_ALL_USERS)),
)
