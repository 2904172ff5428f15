"""Differences between Kubernetes and Mooring that are explained, and the report of a run.

docs/differences.md lists the same, in words for users.
"""

import re
from collections import Counter
from typing import NamedTuple

Key = tuple[str, str]
"""Where a difference was found (kind and verb), and its shape."""


class Explained(NamedTuple):
    """Patterns for where a difference occurs and what it looks like, and the explanation."""

    where: str
    what: str
    reason: str


EXPLAINED: tuple[Explained, ...] = (
    Explained(
        " apply$",
        r"^code N \(failed to (create (typed|manager)|convert)",
        "choice: an applied configuration that does not decode is the client's error, 400 instead of 500",
    ),
    Explained(
        "", r": null, ours \[\]", "choice: an empty list in a required field stays a list; Kubernetes returns null"
    ),
    Explained(
        "",
        r"may not be set while the minimum compatibility version is older than the field",
        "choice (4330.7): a field that the minimum compatibility version does not know is refused",
    ),
    Explained(
        " apply$",
        r"^at metadata\.managedFields\.N\.time: null",
        "upstream defect: an apply that changes nothing but the managers is answered with an entry without a time",
    ),
    Explained(
        "validation",
        r"^worded cause ",
        "the same reason and field in other words, mostly where Kubernetes has moved to declarative validation",
    ),
    Explained(
        "validation",
        r"scheduling\.tolerations\[N\]\.operator Unsupported value",
        "upstream defect: a RuntimeClass with Lt or Gt is refused with a message that lists them as supported",
    ),
    Explained(
        "^Node ",
        r"^at spec\.taints.*timeAdded",
        "choice (settled question 22): the server sets timeAdded when a NoExecute taint changes",
    ),
    Explained(
        "ControllerRevision|ResourceClaim",
        r"data: Invalid value: .*: field is immutable\), ours|spec: Invalid value: (null: field|\{(?!.*ours N \(R))",
        "upstream defect: where raw JSON (`data` of a ControllerRevision, `parameters` of devices) was sent with white "
        "space, a patch finds an immutable field changed, even an empty patch",
    ),
    Explained(
        "^Pod create",
        r"ours N \(pods .* is forbidden: pod rejected: ",
        "choice: RuntimeClass and overhead are checked before validation",
    ),
    Explained(
        "(Job|CronJob)",
        r"^code N \(no answer",
        "upstream defect: an Indexed Job with a successPolicy and without completions makes kube-apiserver panic",
    ),
    Explained(
        "CertificateSigningRequest",
        r"^at spec\.(uid|username): ",
        "the users of this comparison have other names and uids on the two servers",
    ),
    Explained(
        "^FlowSchema ",
        r"^(at metadata\.managedFields|managers )",
        "choice: the server updates the condition Dangling when it sees a FlowSchema; Kubernetes applies it, at "
        "another moment",
    ),
    Explained(
        "validation",
        r"clusterIPs Invalid value: the provided (network|IP)"
        r"|nodePort (Invalid value: -?N: provided port|Duplicate value)",
        "choice: addresses and ports of a Service are allocated after validation; Kubernetes allocates first, and "
        "reports only what it could not allocate",
    ),
    Explained(
        "validation",
        r"healthCheckNodePort Invalid value: N: must be between",
        "upstream defect: in a dry run, a nodePort beyond the range makes the port of the health check invalid",
    ),
    Explained(
        "validation",
        r"FieldManagerConflict (\.endpoints|\.involvedObject|\.spec\.(selector|ports.*\.nodePort|.*\.service\.port"
        r"|egress|ingress)) ",
        "choice: a field that is sent empty equals an absent one; Kubernetes finds a conflict in an atomic field "
        "whose parts it writes back empty",
    ),
    Explained(
        " apply$",
        r"^code N \(Apply failed with N conflict: .*: "
        r"(\.endpoints|\.spec\.(selector|devices|egress|ingress|ports\S*\.nodePort))\), ours N \(\)",
        "choice: a field that is sent empty equals an absent one; Kubernetes finds a conflict in an atomic field "
        "whose parts it writes back empty",
    ),
    Explained(
        "validation",
        r"missing cause FieldManagerConflict \.globalDefault ",
        "choice: a field that is sent empty equals an absent one, so two managers that apply `false` do not disagree",
    ),
    Explained(
        "StatefulSet|validation",
        r"spec\.volumes\[N\]\.(name|persistentVolumeClaim\.claimName) Required value",
        "upstream defect: the volumes of a StatefulSet's claim templates are validated in random order, so the index "
        "in an error is random",
    ),
    Explained(
        "validation",
        r"added cause FieldValueInvalid status\.allocatable\.\S+ Invalid value: must be an integer",
        "choice: null and an empty map are the same value: `allocatable: {}` gets the node's capacity as default",
    ),
    Explained(
        "validation",
        r"missing cause InternalError spec\.clusterIPs Internal error: failed to check for dual stack",
        "upstream defect: addresses of a Service with `None` among them are answered with an internal error as well",
    ),
    Explained(
        "",
        r"^(code N |added cause FieldValueInvalid patch ).*\.parameters: expected an object, got",
        "choice: `parameters` of devices are decoded as an object, and refused before validation where they are none",
    ),
    Explained(
        "validation",
        r"updateStrategy\.type Unsupported value",
        "choice (4330.7): a value that the minimum compatibility version does not know is refused by name",
    ),
    Explained(
        "validation",
        r"(clusterTrustBundle|configMap\.items\[N\]|secret\.items\[N\]|downwardAPI\.items\[N\])\.user Invalid value",
        "choice (4330.7): a field that the minimum compatibility version does not know is refused, whatever its value",
    ),
    Explained(
        "validation",
        r"(metadata\.ownerReferences Forbidden: cannot be set|binaryData Forbidden: field is immutable"
        r"|resources\.claims Forbidden: claims may not be set|spec Invalid value: only one of)",
        "choice: null and an empty list are the same value; Kubernetes tells them apart",
    ),
    Explained(
        "validation",
        r"missing cause FieldValueInvalid data Invalid value: field is immutable",
        "upstream defect: where raw JSON (`data` of a ControllerRevision, `parameters` of devices) was sent with white "
        "space, a patch finds an immutable field changed, even an empty patch",
    ),
    Explained(
        "validation",
        r"missing cause FieldValueInvalid status\.(failed|succeeded|active|ready|complet|uncounted)",
        "choice: of a Job's status only ranges are validated; Kubernetes has rules for Job controllers outside of it",
    ),
    Explained(
        "validation",
        r"spec\.ceph(FS|fs) Forbidden",
        "the same reason and field in other words, mostly where Kubernetes has moved to declarative validation",
    ),
    Explained(
        "^(ResourceSlice|PersistentVolumeClaim status$)",
        r"^(at metadata\.managedFields|managers )",
        "choice: fields whose gate is off in 1.37 are validated and kept; Kubernetes drops them silently",
    ),
    Explained(
        "",
        r"managedFields.*f:(schedulingGroup|healthStatus|nodeAllocatableResourceClaimStatuses|dataSourceRef)",
        "choice: fields whose gate is off in 1.37 are validated and kept; Kubernetes drops them silently",
    ),
    Explained(
        "validation",
        r"ephemeralContainers\[N\]\.(lifecycle|ports|resizePolicy) Forbidden",
        "choice: fields whose gate is off in 1.37 are validated and kept; Kubernetes drops them silently",
    ),
    Explained(
        "^CertificateSigningRequest create$",
        r"^managers ",
        "choice: managed fields describe what is stored; Kubernetes records what a client sent, also where the server "
        "drops or restores it: spec.finalizers of a Namespace, spec.configSource of a Node, clusterIP of a Service",
    ),
    Explained(
        "validation",
        r"\.tolerations\[N\]\.operator Unsupported value",
        "choice (5471.8): tolerations of devices support Lt and Gt while the gate is on",
    ),
    Explained(
        "ConfigMap|ResourceSlice",
        r"binaryData: Forbidden: field is immutable|spec: Invalid value: \"…\": only one of",
        "choice: null and an empty list are the same value; Kubernetes tells them apart",
    ),
    Explained(
        "^ControllerRevision |validation",
        r"data Invalid value: \w+: field is immutable",
        "choice: texts of decoding errors; `data` of a ControllerRevision is an object",
    ),
    Explained(
        "^ResourceQuota ",
        r"^code N \(ResourceQuota(?!.*ours N \(\))",
        "choice: the API server recounts quotas itself; Kubernetes leaves it to a controller, which does not run here",
    ),
    Explained(
        "^VolumeAttributesClass delete$",
        r"^at metadata\.finalizers: ",
        "choice: a deletion adds a finalizer once; Kubernetes adds it again where it is there",
    ),
    Explained(
        "^Service ",
        r"ours N \(Service .* provided port is not in the valid range|^code N \(duplicate nodePort",
        "upstream defect: a dry run accepts a nodePort beyond the range",
    ),
    Explained(
        "^(ConfigMap|Secret|PodCertificateRequest|CertificateSigningRequest) ",
        r"expected a string in baseN, got an array",
        "choice: bytes are a string in base64; Go also accepts an array of numbers",
    ),
    Explained(
        " (update|.*-patch|apply)$",
        r"^(at metadata\.managedFields\.N\.manager: |managers |at metadata\.managedFields.*: null, ours \{)",
        "choice: null and an empty list are the same value; Kubernetes records a new manager for an explicit one",
    ),
    Explained(
        "validation",
        r"added cause \w+ spec\.(exempt|limited)|(deviceClassName|extendedResourceName|distinctAttribute|matchAttribute"
        r"|firstAvailable\[N\]|requestPolicy|exactly\.allocationMode) ",
        "choice (emulation): rules that Kubernetes states declaratively since 1.36 hold at every emulated release",
    ),
    Explained(
        "(DeviceClass|ResourceClaim|ResourceClaimTemplate|ResourceSlice) (create|update|.*-patch)$",
        r"^code N .*(extendedResourceName|distinctAttribute|bindingConditions|config\[N\]\.requests\[N\])",
        "choice (emulation): rules that Kubernetes states declaratively since 1.36 hold at every emulated release",
    ),
    Explained(
        "validation|(Deployment|ReplicaSet|StatefulSet|DaemonSet|ReplicationController|PodTemplate|Pod|Job|CronJob) ",
        r"ontainers\[N\]\.restartPolicy(: Forbidden: may| Forbidden may| Forbidden: may| Unsupported value)",
        "choice (emulation): a restart policy of a container is refused where its gate is off; Kubernetes drops it",
    ),
    Explained(
        "CSIDriver|validation",
        r"serviceAccountTokenInSecrets",
        "choice (emulation): the field for tokens in secrets is validated at every emulated release",
    ),
    Explained(
        "",
        r"^warnings \[.*(non-standard IP address|is ambiguous in this context)",
        "choice (emulation): at releases before 1.36, Mooring accepts ambiguous addresses without a warning",
    ),
    Explained(
        "validation",
        r"added cause FieldValueInvalid nodeAffinity Invalid value: field is immutable",
        "upstream defect: an update of a PersistentVolume may replace any key of its node affinity by an empty one",
    ),
    Explained(
        "",
        r"^at status\.(terminatingReplicas|(attach|detach)Error\.errorCode): null, ours",
        "choice: fields whose gate is off in 1.37 are validated and kept; Kubernetes drops them silently",
    ),
    Explained(
        "",
        r"added cause \w+ .*(hostnameOverride|terminatingReplicas|shareID|binding\w*Conditions(\[N\])?"
        r"|projected\.sources\[N\](\.podCertificate\S*)?) "
        r"|ours N \(.*(hostnameOverride|errorCode)|f:(volumeHealth|errorCode): null, ours",
        "choice: fields whose gate is off in 1.37 are validated and kept; Kubernetes drops them silently",
    ),
    Explained(
        "^(Secret|validation)",
        r"\bdata:? Forbidden: field is immutable",
        "choice: null and an empty list are the same value; Kubernetes tells them apart",
    ),
    Explained(
        "",
        r"(added cause FieldManagerConflict|ours N \(Apply failed with .*) ?"
        r"\.spec\.(preventPod|updateStrategy\.rollingUpdate)",
        "choice (emulation): defaults are set before fields of newer releases are dropped, so managed fields name them",
    ),
    Explained(
        "^StatefulSet (update|status|.*-patch|apply)$",
        r"^warnings \[.*volumeClaimTemplates\[N\]\.Spec\.",
        "upstream defect: warnings about claim templates name the field `Spec` on updates",
    ),
    Explained(
        "PersistentVolumeClaim",
        r"may not be specified when dataSourceRef\.namespace",
        "choice: fields whose gate is off in 1.37 are validated and kept; Kubernetes drops them silently",
    ),
    Explained(
        "validation",
        r"spec Invalid value: (may not be specified when dataSourceRef\.namespace|must match dataSourceRef)",
        "choice: fields whose gate is off in 1.37 are validated and kept; Kubernetes drops them silently",
    ),
    Explained(
        " strategic-patch$",
        r"^code N \((no answer|list element types are not identical)",
        "upstream defect: kube-apiserver panics or fails where the merge key or an item of a patch has another type",
    ),
    Explained(
        "",
        r"spec\.(strategy|preferredHolder|schedulingGroup|dataSourceRef|dataSource)|lifecycle\.stopSignal|status\.(healthStatus|config|volumeHealth|nodeAlloc)",
        "choice: fields whose gate is off in 1.37 are validated and kept; Kubernetes drops them silently",
    ),
    Explained(
        "^HorizontalPodAutoscaler create",
        r"^at metadata\.generation: null, ours N$",
        "choice: a HorizontalPodAutoscaler has a generation at every emulated release; Kubernetes since 1.37",
    ),
    Explained(
        "",
        r"managedFields.*f:(preventPodSchedulingIfMissing|maxUnavailable|strategy|preferredHolder|dataSourceRef): ",
        "choice (emulation): defaults are set before fields of newer releases are dropped, so managed fields name them",
    ),
    Explained(
        "",
        r"^at metadata\.generation: N, ours N$",
        "choice: null and an empty list are the same value; Kubernetes counts a new generation for some kinds",
    ),
    Explained(
        " (apply|strategic-patch)$",
        r"^code N \(Apply failed with(?!.*ours N \(\))",
        "choice: an applied object that does not decode or is invalid is rejected before conflicts are looked for",
    ),
    Explained(
        "ResourceQuota",
        r"^at status\.(hard|used)|ours 409|ours N \(Operation cannot be fulfilled",
        "choice: the API server recounts quotas itself; Kubernetes leaves it to a controller, which does not run here",
    ),
    Explained(
        " strategic-patch$",
        r"^code N \(map: |cannot restore struct from: ",
        "choice: a patch without a merge key is the client's error, 400 instead of 500",
    ),
    Explained(
        "^Job status$",
        r"^code N \(Job\.batch .* ours N \(\)$",
        "choice: of a Job's status only ranges are validated; Kubernetes has rules for Job controllers outside of it",
    ),
    Explained(
        "^DaemonSet update$",
        r"^code N \(.*strconv\.ParseInt",
        "choice: the deprecated annotation for the generation of a DaemonSet's template has no meaning",
    ),
    Explained("^CSINode ", r"^at status: \{\}, ours null$", "choice: an empty status is not written"),
    Explained(
        "DeviceTaintRule|ResourceSlice",
        r"managedFields.*f:timeAdded: \{\}, ours null$",
        "choice: a time that the server sets has no manager, as for taints of nodes",
    ),
    Explained(
        "^(Namespace|Node|ServiceAccount|PersistentVolume|Service) (update|status|.*-patch|apply)$",
        r"^(at metadata\.managedFields|managers )",
        "choice: managed fields describe what is stored; Kubernetes records what a client sent, also where the server "
        "drops or restores it: spec.finalizers of a Namespace, spec.configSource of a Node, clusterIP of a Service",
    ),
    Explained(
        "^FlowSchema ",
        r"status\.(f:)?conditions|ours N \(Operation cannot be fulfilled",
        "choice: the server updates the condition Dangling when it sees a FlowSchema; Kubernetes applies it, at "
        "another moment",
    ),
    Explained(
        "^ValidatingAdmissionPolicyBinding ",
        r"managedFields.*f:validationActions\.\.: \{\}, ours null$",
        "choice: an empty list in a required field stays a list, so that its first item does not create it",
    ),
    Explained(
        "scheduling",
        r"^Node Action\.UPDATE_NODE_LABEL does not retry a pod that \[.*InterPodAffinity.*and now fits",
        "upstream defect: a pod that the anti-affinity of an existing pod rejected is not retried when a node loses "
        "the label of the topology",
    ),
    Explained(
        "scheduling",
        r" retr(ies|y) a pod that \[.*\] rejected, and still fits nowhere",
        "choice: queueing hints are as exact as a plugin can be; a retry that cannot succeed may be made or not",
    ),
    Explained(
        "scheduling",
        r"^scores on X \(real, ours\) \{'ImageLocality': \(N, N\)\}$",
        "upstream defect: a node keeps the number of nodes that had its images, and their sizes, from before its own "
        "last change",
    ),
    Explained(
        "scheduling",
        r"^message '[^']*is in the process of being allocated",
        "kube-scheduler tried a pod while it was still writing the claim that another one uses; ours sees it written",
    ),
    Explained(
        "scheduling",
        r"^message '[^']*(persistentvolumeclaim|PersistentVolumeClaims)[^']*\. not found'",
        "upstream defect: where PreFilter ends before DynamicResources, its PostFilter fails with `not found`, and the "
        "message of preemption is lost",
    ),
)


def explanation(key: Key) -> str | None:
    """Return why a difference is right, if it is explained."""
    for entry in EXPLAINED:
        if re.search(entry.where, key[0]) and re.search(entry.what, key[1]):
            return entry.reason
    return None


class Report:
    """The differences of a run, by shape."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self.units = 0
        self._counts: Counter[Key] = Counter()
        self._examples: dict[Key, str] = {}

    def is_new(self, key: Key) -> bool:
        """Return whether a difference is neither explained nor seen before."""
        return key not in self._counts and explanation(key) is None

    def add(self, seed: int, key: Key, example: str) -> None:
        if self.is_new(key):
            print(f"seed {seed}: {key[0]}: {example}", flush=True)
        self._counts[key] += 1
        self._examples.setdefault(key, example)

    def print(self, *, lists_explained: bool = False) -> int:
        """Print the totals, and the explained differences one by one if asked; return the exit code."""
        explained: Counter[str] = Counter()
        unexplained = 0
        for key, number in self._counts.items():
            reason = explanation(key)
            if reason is None:
                unexplained += 1
            else:
                explained[reason] += number
        for (where, what), number in self._counts.most_common():
            reason = explanation((where, what))
            if reason is None:
                print(f"unexplained {number} times: {where}: {what[:200]}")
            elif lists_explained:
                print(f"{reason.split(':')[0]} {number} times: {where}: {what[:200]}")
        for reason, number in explained.most_common():
            print(f"explained {number} times: {reason}")
        print(f"{self.units} {self._unit}, {unexplained} unexplained differences in {self._counts.total()} findings")
        return 1 if unexplained else 0
