"""The strategies of all kinds, by struct type. A new kind adds its file here."""

from typing import Any

from mooring.admission.api_services import APIServiceStrategy
from mooring.admission.autoscaler import HorizontalPodAutoscalerStrategy
from mooring.admission.certificates import (
    CertificateStrategy,
    ClusterTrustBundleStrategy,
    PodCertificateRequestStrategy,
)
from mooring.admission.configuration import ConfigMapStrategy, SecretStrategy, ServiceAccountStrategy
from mooring.admission.cron_job import CronJobStrategy
from mooring.admission.daemon_set import DaemonSetStrategy
from mooring.admission.definitions.strategy import DefinitionStrategy
from mooring.admission.deployment import (
    DeploymentStrategy,
    PodTemplateStrategy,
    ReplicaSetStrategy,
    ReplicationControllerStrategy,
)
from mooring.admission.disruption import EvictionStrategy, PodDisruptionBudgetStrategy
from mooring.admission.dra.claim import DeviceClassStrategy, ResourceClaimStrategy, ResourceClaimTemplateStrategy
from mooring.admission.dra.slice import ResourceSliceStrategy
from mooring.admission.dra.taints import DeviceTaintRuleStrategy
from mooring.admission.endpoints import EndpointSliceStrategy, EndpointsStrategy
from mooring.admission.event import EventStrategy
from mooring.admission.flow_control import FlowSchemaStrategy, PriorityLevelStrategy
from mooring.admission.job import JobStrategy
from mooring.admission.lease import LeaseStrategy
from mooring.admission.namespace import NamespaceStrategy
from mooring.admission.networking import (
    IngressClassStrategy,
    IngressStrategy,
    IPAddressStrategy,
    NetworkPolicyStrategy,
    ServiceCIDRStrategy,
)
from mooring.admission.node import NodeStrategy
from mooring.admission.persistent_volume import PersistentVolumeStrategy
from mooring.admission.persistent_volume_claim import PersistentVolumeClaimStrategy
from mooring.admission.pod.strategy import PodStrategy
from mooring.admission.policy.strategy import (
    MutatingAdmissionPolicyBindingStrategy,
    MutatingAdmissionPolicyStrategy,
    ValidatingAdmissionPolicyBindingStrategy,
    ValidatingAdmissionPolicyStrategy,
)
from mooring.admission.priority_class import PriorityClassStrategy
from mooring.admission.quota import LimitRangeStrategy, ResourceQuotaStrategy
from mooring.admission.rbac import ClusterRoleBindingStrategy, ClusterRoleStrategy, RoleBindingStrategy, RoleStrategy
from mooring.admission.reviews import (
    LocalSubjectAccessReviewStrategy,
    ScaleStrategy,
    SelfSubjectAccessReviewStrategy,
    SelfSubjectReviewStrategy,
    SelfSubjectRulesReviewStrategy,
    SubjectAccessReviewStrategy,
    TokenRequestStrategy,
    TokenReviewStrategy,
)
from mooring.admission.runtime_class import RuntimeClassStrategy
from mooring.admission.service import ServiceStrategy
from mooring.admission.stateful_set import ControllerRevisionStrategy, StatefulSetStrategy
from mooring.admission.storage import (
    CSIDriverStrategy,
    CSINodeStrategy,
    CSIStorageCapacityStrategy,
    StorageClassStrategy,
    VolumeAttachmentStrategy,
    VolumeAttributesClassStrategy,
)
from mooring.admission.storage_migration import StorageVersionMigrationStrategy
from mooring.admission.strategy import Strategy
from mooring.admission.webhook_configurations import (
    MutatingWebhookConfigurationStrategy,
    ValidatingWebhookConfigurationStrategy,
)
from mooring.api import meta_v1

_BY_TYPE: dict[type[meta_v1.Resource], Strategy[Any]] = {}


def register(*strategies: Strategy[Any]) -> None:
    """Add strategies; existing ones are replaced."""
    _BY_TYPE.update({strategy.object_type: strategy for strategy in strategies})


def unregister(object_type: type[meta_v1.Resource]) -> None:
    """Remove the strategy of a custom kind."""
    _BY_TYPE.pop(object_type, None)


def strategy_of(object_type: type[meta_v1.Resource]) -> Strategy[Any]:
    """Return the strategy of a kind; raise KeyError if there is none."""
    return _BY_TYPE[object_type]


register(
    PodStrategy(),
    NamespaceStrategy(),
    NodeStrategy(),
    ConfigMapStrategy(),
    SecretStrategy(),
    ServiceAccountStrategy(),
    ServiceStrategy(),
    IPAddressStrategy(),
    ServiceCIDRStrategy(),
    EndpointsStrategy(),
    EndpointSliceStrategy(),
    IngressStrategy(),
    IngressClassStrategy(),
    NetworkPolicyStrategy(),
    RuntimeClassStrategy(),
    HorizontalPodAutoscalerStrategy(),
    CertificateStrategy(),
    PodCertificateRequestStrategy(),
    ClusterTrustBundleStrategy(),
    APIServiceStrategy(),
    StorageVersionMigrationStrategy(),
    EventStrategy(),
    FlowSchemaStrategy(),
    PriorityLevelStrategy(),
    ResourceQuotaStrategy(),
    LimitRangeStrategy(),
    PersistentVolumeStrategy(),
    PersistentVolumeClaimStrategy(),
    StorageClassStrategy(),
    VolumeAttributesClassStrategy(),
    CSIDriverStrategy(),
    CSINodeStrategy(),
    CSIStorageCapacityStrategy(),
    VolumeAttachmentStrategy(),
    DeploymentStrategy(),
    ReplicaSetStrategy(),
    ReplicationControllerStrategy(),
    PodTemplateStrategy(),
    StatefulSetStrategy(),
    ControllerRevisionStrategy(),
    DaemonSetStrategy(),
    JobStrategy(),
    CronJobStrategy(),
    PodDisruptionBudgetStrategy(),
    EvictionStrategy(),
    PriorityClassStrategy(),
    ResourceClaimStrategy(),
    ResourceClaimTemplateStrategy(),
    ResourceSliceStrategy(),
    DeviceClassStrategy(),
    DeviceTaintRuleStrategy(),
    LeaseStrategy(),
    RoleStrategy(),
    ClusterRoleStrategy(),
    RoleBindingStrategy(),
    ClusterRoleBindingStrategy(),
    SubjectAccessReviewStrategy(),
    LocalSubjectAccessReviewStrategy(),
    SelfSubjectAccessReviewStrategy(),
    SelfSubjectRulesReviewStrategy(),
    SelfSubjectReviewStrategy(),
    TokenReviewStrategy(),
    TokenRequestStrategy(),
    ScaleStrategy(),
    DefinitionStrategy(),
    ValidatingAdmissionPolicyStrategy(),
    ValidatingAdmissionPolicyBindingStrategy(),
    MutatingAdmissionPolicyStrategy(),
    MutatingAdmissionPolicyBindingStrategy(),
    ValidatingWebhookConfigurationStrategy(),
    MutatingWebhookConfigurationStrategy(),
)
