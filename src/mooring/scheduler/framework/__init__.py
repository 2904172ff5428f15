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
from mooring.scheduler.columns.inputs import Input
from mooring.scheduler.columns.signatures import Part
from mooring.scheduler.framework.events import Action, ClusterEvent, EventWithHint, Kind, QueueingHint
from mooring.scheduler.framework.options import SchedulerFeatures
from mooring.scheduler.framework.plugins import (
    BindPlugin,
    ChoosePlugin,
    CycleState,
    Declaration,
    EnqueueExtensions,
    FilterPlugin,
    GateKeeper,
    GroupBindPlugin,
    NodeFilterPlugin,
    NodeScorePlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterResult,
    PreviewsWrites,
    QueueSortPlugin,
    RefersToObjects,
    ReservePlugin,
    ScorePlugin,
    SignPlugin,
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
    "Declaration",
    "Derived",
    "EnqueueExtensions",
    "EventWithHint",
    "Factory",
    "FilterPlugin",
    "GateKeeper",
    "GroupBindPlugin",
    "Handle",
    "Input",
    "Kind",
    "Mask",
    "NodeFilterPlugin",
    "NodeScorePlugin",
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
    "PreviewsWrites",
    "QueueSortPlugin",
    "QueueingHint",
    "ReasonSets",
    "RefersToObjects",
    "Registry",
    "ReservePlugin",
    "Rows",
    "SchedulerFeatures",
    "ScorePlugin",
    "Scores",
    "SignPlugin",
    "Status",
    "Verdicts",
    "error",
    "pending",
    "unresolvable",
    "unschedulable",
]
