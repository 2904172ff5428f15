"""The scheduling framework: the plugin API, independent of any plugin.

    status    results of plugins as values
    verdicts  results for all nodes at once
    plugins   the extension points, one Protocol each
    events    the cluster events that wake a rejected pod
    options   the feature gates on which plugins depend
    registry  plugin factories by name, and the `Handle` that plugins receive
    profiles  the plugins for one scheduler name, in order

Read next: ``plugins.py``.
"""

from mooring.constraints.columns.revisions import Derived
from mooring.scheduler.columns.inputs import Input
from mooring.scheduler.columns.signatures import Part
from mooring.scheduler.framework.events import Action, ClusterEvent, EventWithHint, Kind, QueueingHint, wake_on
from mooring.scheduler.framework.options import SchedulerFeatures
from mooring.scheduler.framework.plugins import (
    BindPlugin,
    ChoosePlugin,
    CycleState,
    Declaration,
    EnqueueExtensions,
    FilterPlugin,
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
    ALL_PASS,
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
    "ALL_PASS",
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
    "wake_on",
]
