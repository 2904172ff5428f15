"""The scheduling framework: what a plugin is and what it may say. Knows no plugin.

    status      outcomes as values
    verdicts    outcomes for all nodes at once
    plugins     the extension points, one Protocol each: the plugin API
    events      what wakes a refused pod
    options     gated behaviour, read once
    registry    plugins by name, and what they are given when they are made

Read next: ``plugins.py``.
"""

from mooring.constraints.columns.revisions import Derived
from mooring.scheduler.columns.shapes import Part
from mooring.scheduler.framework.events import Action, ClusterEvent, EventWithHint, Kind, QueueingHint
from mooring.scheduler.framework.options import SchedulerFeatures
from mooring.scheduler.framework.plugins import (
    BindPlugin,
    ChoosePlugin,
    CycleState,
    EnqueueExtensions,
    FilterPlugin,
    GateKeeper,
    GroupBindPlugin,
    GroupedScore,
    LikeRows,
    NodeFilterPlugin,
    NodePreFilterPlugin,
    NodeScoreNormalizer,
    NodeScorePlugin,
    Normalizer,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterResult,
    QueueSortPlugin,
    QuietFilter,
    Reads,
    RefersToObjects,
    RefreshedFilter,
    RefreshedScore,
    ReservePlugin,
    ResourceFilter,
    Scope,
    ScorePlugin,
    SignPlugin,
    TellsWrites,
)
from mooring.scheduler.framework.registry import Factory, Handle, PluginArguments, Registry
from mooring.scheduler.framework.status import SKIP, SUCCESS, Code, Status, error, pending, unresolvable, unschedulable
from mooring.scheduler.framework.verdicts import (
    ALL_ROWS,
    MAX_NODE_SCORE,
    Codes,
    Mask,
    ReasonSets,
    Rows,
    Scores,
    Verdicts,
)

__all__ = [
    "ALL_ROWS",
    "MAX_NODE_SCORE",
    "SKIP",
    "SUCCESS",
    "Action",
    "BindPlugin",
    "ChoosePlugin",
    "ClusterEvent",
    "Code",
    "Codes",
    "CycleState",
    "Derived",
    "EnqueueExtensions",
    "EventWithHint",
    "Factory",
    "FilterPlugin",
    "GateKeeper",
    "GroupBindPlugin",
    "GroupedScore",
    "Handle",
    "Kind",
    "LikeRows",
    "Mask",
    "NodeFilterPlugin",
    "NodePreFilterPlugin",
    "NodeScoreNormalizer",
    "NodeScorePlugin",
    "Normalizer",
    "Part",
    "PermitPlugin",
    "Plugin",
    "PluginArguments",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PostFilterResult",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterResult",
    "QueueSortPlugin",
    "QueueingHint",
    "QuietFilter",
    "Reads",
    "ReasonSets",
    "RefersToObjects",
    "RefreshedFilter",
    "RefreshedScore",
    "Registry",
    "ReservePlugin",
    "ResourceFilter",
    "Rows",
    "SchedulerFeatures",
    "Scope",
    "ScorePlugin",
    "Scores",
    "SignPlugin",
    "Status",
    "TellsWrites",
    "Verdicts",
    "error",
    "pending",
    "unresolvable",
    "unschedulable",
]
