"""Rows of FlowSchemas and PriorityLevelConfigurations."""

from typing import Any

from mooring.api.flowcontrol_v1 import FlowSchema, PriorityLevelConfiguration
from mooring.apiserver.output.tables.printer import NONE, Printer, age, text


def _flow_schema(each: FlowSchema) -> list[Any]:
    spec = each.spec
    dangling = next((condition.status for condition in each.status.conditions if condition.type == "Dangling"), "?")
    return [
        each.metadata.name,
        spec.priority_level_configuration.name,
        spec.matching_precedence,
        spec.distinguisher_method.type if spec.distinguisher_method else NONE,
        age(each.metadata.creation_timestamp),
        dangling,
    ]


def _priority_level(each: PriorityLevelConfiguration) -> list[Any]:
    limited = each.spec.limited
    queuing = limited.limit_response.queuing if limited else None
    queues = (queuing.queues, queuing.hand_size, queuing.queue_length_limit) if queuing else (NONE, NONE, NONE)
    shares = limited.nominal_concurrency_shares if limited else NONE
    return [each.metadata.name, each.spec.type, shares, *queues, age(each.metadata.creation_timestamp)]


FLOW_SCHEMAS = Printer(
    tuple(map(text, ("Name", "PriorityLevel", "MatchingPrecedence", "DistinguisherMethod", "Age", "MissingPL"))),
    _flow_schema,
)
PRIORITY_LEVELS = Printer(
    tuple(map(text, ("Name", "Type", "NominalConcurrencyShares", "Queues", "HandSize", "QueueLengthLimit", "Age"))),
    _priority_level,
)
