"""Objects as tables for people: the columns that kubectl prints, per kind.

`Tables` is handed to the resources, which take the `Table` of a kind when a client asks for one. Kinds without columns
of their own show name and age. A printer serves all versions of its kind, for their fields have the same names.
"""

import msgspec

from mooring.api import codec
from mooring.api.kinds import Kind
from mooring.api.meta_v1 import TableColumnDefinition
from mooring.apiserver.output.tables import (
    cluster,
    custom,
    flow_control,
    networking,
    pods,
    policies,
    storage,
    workloads,
)
from mooring.apiserver.output.tables.printer import Printer, Times
from mooring.apiserver.output.tables.row import Row, written
from mooring.base.bounded_cache import BoundedCache

_ADMISSION = "admissionregistration.k8s.io"
_CORE = ""
_FLOW_CONTROL = "flowcontrol.apiserver.k8s.io"
_NETWORKING = "networking.k8s.io"
_RBAC = "rbac.authorization.k8s.io"
_STORAGE = "storage.k8s.io"
_RESOURCE = "resource.k8s.io"

_KNOWN = 65_536
"""How many rows are kept once they were asked for; each takes 370 bytes."""

_PRINTERS: dict[tuple[str, str], Printer] = {
    (_CORE, "ConfigMap"): cluster.CONFIG_MAPS,
    (_CORE, "Endpoints"): cluster.ENDPOINTS,
    (_CORE, "Event"): cluster.CORE_EVENTS,
    (_CORE, "LimitRange"): cluster.CREATED,
    (_CORE, "Namespace"): cluster.NAMESPACES,
    (_CORE, "Node"): cluster.NODES,
    (_CORE, "PersistentVolume"): storage.PERSISTENT_VOLUMES,
    (_CORE, "PersistentVolumeClaim"): storage.PERSISTENT_VOLUME_CLAIMS,
    (_CORE, "Pod"): pods.PODS,
    (_CORE, "PodTemplate"): pods.POD_TEMPLATES,
    (_CORE, "ReplicationController"): workloads.REPLICATION_CONTROLLERS,
    (_CORE, "ResourceQuota"): cluster.RESOURCE_QUOTAS,
    (_CORE, "Secret"): cluster.SECRETS,
    (_CORE, "Service"): cluster.SERVICES,
    (_CORE, "ServiceAccount"): cluster.SERVICE_ACCOUNTS,
    (_ADMISSION, "MutatingAdmissionPolicy"): policies.MUTATING,
    (_ADMISSION, "MutatingAdmissionPolicyBinding"): policies.BINDINGS,
    (_ADMISSION, "ValidatingAdmissionPolicy"): policies.VALIDATING,
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): policies.BINDINGS,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): cluster.CREATED,
    ("apps", "ControllerRevision"): workloads.CONTROLLER_REVISIONS,
    ("apps", "DaemonSet"): workloads.DAEMON_SETS,
    ("apps", "Deployment"): workloads.DEPLOYMENTS,
    ("apps", "ReplicaSet"): workloads.REPLICA_SETS,
    ("apps", "StatefulSet"): workloads.STATEFUL_SETS,
    ("autoscaling", "HorizontalPodAutoscaler"): networking.AUTOSCALERS,
    ("batch", "CronJob"): workloads.CRON_JOBS,
    ("batch", "Job"): workloads.JOBS,
    ("apiregistration.k8s.io", "APIService"): networking.API_SERVICES,
    ("certificates.k8s.io", "ClusterTrustBundle"): networking.TRUST_BUNDLES,
    ("certificates.k8s.io", "PodCertificateRequest"): networking.CERTIFICATE_REQUESTS,
    ("certificates.k8s.io", "CertificateSigningRequest"): cluster.CERTIFICATE_REQUESTS,
    ("coordination.k8s.io", "Lease"): cluster.LEASES,
    ("discovery.k8s.io", "EndpointSlice"): cluster.ENDPOINT_SLICES,
    ("events.k8s.io", "Event"): cluster.EVENTS,
    (_FLOW_CONTROL, "FlowSchema"): flow_control.FLOW_SCHEMAS,
    (_FLOW_CONTROL, "PriorityLevelConfiguration"): flow_control.PRIORITY_LEVELS,
    (_NETWORKING, "IPAddress"): networking.IP_ADDRESSES,
    (_NETWORKING, "Ingress"): networking.INGRESSES,
    (_NETWORKING, "IngressClass"): networking.INGRESS_CLASSES,
    (_NETWORKING, "NetworkPolicy"): networking.NETWORK_POLICIES,
    (_NETWORKING, "ServiceCIDR"): networking.SERVICE_CIDRS,
    ("node.k8s.io", "RuntimeClass"): networking.RUNTIME_CLASSES,
    ("policy", "PodDisruptionBudget"): workloads.POD_DISRUPTION_BUDGETS,
    (_RBAC, "ClusterRole"): cluster.CREATED,
    (_RBAC, "ClusterRoleBinding"): cluster.ROLE_BINDINGS,
    (_RBAC, "Role"): cluster.CREATED,
    (_RBAC, "RoleBinding"): cluster.ROLE_BINDINGS,
    (_RESOURCE, "ResourceClaim"): storage.RESOURCE_CLAIMS,
    (_RESOURCE, "ResourceSlice"): storage.RESOURCE_SLICES,
    ("storagemigration.k8s.io", "StorageVersionMigration"): networking.MIGRATIONS,
    ("scheduling.k8s.io", "PriorityClass"): workloads.PRIORITY_CLASSES,
    (_STORAGE, "CSIDriver"): storage.CSI_DRIVERS,
    (_STORAGE, "CSINode"): storage.CSI_NODES,
    (_STORAGE, "CSIStorageCapacity"): storage.CSI_STORAGE_CAPACITIES,
    (_STORAGE, "StorageClass"): storage.STORAGE_CLASSES,
    (_STORAGE, "VolumeAttachment"): storage.VOLUME_ATTACHMENTS,
    (_STORAGE, "VolumeAttributesClass"): storage.VOLUME_ATTRIBUTES_CLASSES,
}


class Tables:
    """The tables of all kinds."""

    def __init__(self) -> None:
        self._rows: BoundedCache[str, Row] = BoundedCache(_KNOWN)

    def of(self, kind: Kind) -> "Table":
        return Table(kind, self._rows)


class Table:
    """The columns and rows of one kind."""

    def __init__(self, kind: Kind, rows: BoundedCache[str, Row]) -> None:
        self.kind = kind
        self._printer = printer = _printer(kind)
        self.columns: list[TableColumnDefinition] = [*printer.columns]
        self.known = rows.get
        """Rows of stored objects by their keys; whoever looks one up compares its kind and revision."""
        self._keep = rows.put
        self._write = printer.write or self._written

    def row(self, key: str, revision: int, text: bytes, begin: int) -> Row:
        """The row of an object, as it is known or as it is made."""
        row = self.known(key) if key else None
        if row is None or row.revision != revision or row.kind is not self.kind:
            row = self.made(key, revision, text, begin)
        return row

    def made(self, key: str, revision: int, text: bytes, begin: int) -> Row:
        """The row of an object, of which the JSON is given in the version that was asked for.

        `begin` is where its metadata goes on behind the resourceVersion, which stored objects lack. Those of stored
        objects, which have a key, are kept.
        """
        written, times, end = self._write(text)
        row = Row(self.kind, revision, end - begin, written, times)
        if key:
            self._keep(key, row)
        return row

    def _written(self, text: bytes) -> tuple[bytes, Times, int]:
        """A row of an object, and where the metadata ends in the text of that."""
        printer = self._printer
        begin = text.index(b"{", 1)
        end = begin + len(bytes(_CUT.decode(text).metadata))
        managed = text.find(codec.MANAGED_FIELDS, begin, end)
        shown = text if managed < 0 or printer.read else text[:managed] + text[end - 1 :]
        obj = printer.read(shown) if printer.read else codec.decode_own(shown, self.kind.type)
        conditions = printer.conditions(obj) if printer.conditions else []
        return *written(printer.cells(obj), conditions), end


class _Cut(msgspec.Struct):
    metadata: msgspec.Raw


_CUT = msgspec.json.Decoder(_Cut)


def _printer(kind: Kind) -> Printer:
    if kind.custom:
        return custom.printer_of(kind.custom.version)
    return _PRINTERS.get((kind.group, kind.kind), cluster.NAME_AND_AGE)
