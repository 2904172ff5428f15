"""The feature gates that Mooring implements, each with its history.

The first five are the proposals'; the others are Kubernetes' scheduling gates whose behaviour Mooring has, with the
versions in which Kubernetes changed them. Other gates of Kubernetes can be switched off, which drops their fields
(``component.py``); switching one on that is off by default is an error, not a promise. `docs/gates.md` is
checked against this table.
"""

from mooring.base.gates import Gate, Spec, Stage
from mooring.base.version import Version

COMPARISON_OPERATORS = "TaintTolerationComparisonOperators"
SEMVER_OPERATORS = "TolerationAffinitySemverOperators"
CEL = "TaintTolerationNodeAffinityCEL"
LABEL_KEYS_IN_POD_AFFINITY = "MatchLabelKeysInPodAffinity"
COMPATIBILITY_VERSIONS = "CompatibilityVersions"
LABEL_KEYS_IN_SPREAD = "MatchLabelKeysInPodTopologySpread"
LABEL_KEYS_IN_SPREAD_MERGE = "MatchLabelKeysInPodTopologySpreadSelectorMerge"
NODE_INCLUSION_POLICY = "NodeInclusionPolicyInPodTopologySpread"
POD_LEVEL_RESOURCES = "PodLevelResources"
STORAGE_CAPACITY_SCORING = "StorageCapacityScoring"
MUTABLE_PV_NODE_AFFINITY = "MutablePVNodeAffinity"
MUTABLE_SUSPENDED_JOB_DIRECTIVES = "MutableSchedulingDirectivesForSuspendedJobs"
ASYNC_PREEMPTION = "SchedulerAsyncPreemption"
POP_FROM_BACKOFF = "SchedulerPopFromBackoffQ"
NODE_DECLARED_FEATURES = "NodeDeclaredFeatures"
POD_TOPOLOGY_LABELS = "PodTopologyLabelsAdmission"

NOT_ON_IN_KUBERNETES = frozenset({COMPARISON_OPERATORS, SEMVER_OPERATORS, CEL, COMPATIBILITY_VERSIONS})
"""Gates that are on in Mooring, and on by default in no Kubernetes release up to Mooring's version."""


def _v(minor: int) -> Version:
    return Version(1, minor)


def _alpha(minor: int) -> Spec:
    return Spec(_v(minor), False, Stage.ALPHA)


def _beta(minor: int, min_compatibility: int | None = None) -> Spec:
    oldest = None if min_compatibility is None else _v(min_compatibility)
    return Spec(_v(minor), True, Stage.BETA, min_compatibility=oldest)


def _ga(minor: int) -> Spec:
    return Spec(_v(minor), True, Stage.GA, locked=True)


KNOWN: tuple[Gate, ...] = (
    Gate(COMPARISON_OPERATORS, "Lt and Gt in tolerations (KEP-5471)", (_alpha(35), _beta(37, min_compatibility=35))),
    Gate(
        SEMVER_OPERATORS,
        "SemverLt, SemverGt and SemverEq in tolerations and node affinity (KEP-5721)",
        (_alpha(36), _beta(37, min_compatibility=36)),
    ),
    Gate(CEL, "CEL in tolerations and node affinity (KEP-5500)", (_alpha(35), _beta(37, min_compatibility=35))),
    Gate(
        LABEL_KEYS_IN_POD_AFFINITY,
        "matchLabelKeys and mismatchLabelKeys in pod affinity (KEP-3633)",
        (_alpha(29), _beta(31), _ga(33)),
    ),
    Gate(COMPATIBILITY_VERSIONS, "--emulation-version and --min-compatibility-version (KEP-4330)", (_beta(37),)),
    Gate(LABEL_KEYS_IN_SPREAD, "matchLabelKeys in topology spread constraints", (_alpha(25), _beta(27))),
    Gate(
        LABEL_KEYS_IN_SPREAD_MERGE,
        "matchLabelKeys of spread constraints are merged into the selector on create",
        (_beta(34),),
        needs=(LABEL_KEYS_IN_SPREAD,),
    ),
    Gate(
        NODE_INCLUSION_POLICY,
        "nodeAffinityPolicy and nodeTaintsPolicy in topology spread constraints",
        (_alpha(25), _beta(26), _ga(33)),
    ),
    Gate(POD_LEVEL_RESOURCES, "resources of a pod as a whole", (_alpha(32), _beta(34, min_compatibility=32))),
    Gate(STORAGE_CAPACITY_SCORING, "nodes are scored by free storage capacity", (_alpha(33), _beta(37))),
    Gate(MUTABLE_PV_NODE_AFFINITY, "node affinity of a PersistentVolume may be changed", (_alpha(35),)),
    Gate(
        MUTABLE_SUSPENDED_JOB_DIRECTIVES,
        "scheduling directives of a suspended Job may be changed",
        (_alpha(35), _beta(36)),
    ),
    Gate(ASYNC_PREEMPTION, "victims are deleted beside the scheduling cycle", (_alpha(32), _beta(33))),
    Gate(POP_FROM_BACKOFF, "an idle scheduler takes pods out of backoff early", (_beta(33),)),
    Gate(
        NODE_DECLARED_FEATURES,
        "nodes declare features of their kubelets, and pods that need one go there",
        (_alpha(35), _beta(36), _ga(37)),
    ),
    Gate(POD_TOPOLOGY_LABELS, "pods get the zone and region of their node as labels", (_alpha(33), _beta(35))),
)
