"""The options of `mooring simulate` that change a cluster, in command-line order.

click passes the values of each option but not their order; `OrderedCommand` asks its parser for that. Read next:
``simulation_changes.py`` makes changes of their values.
"""

import click

CHANGES = (
    ("add", "FILE|-", "Create the objects of a manifest, and the pods of workloads."),
    ("replicas", "N", "The number of replicas of the preceding --add."),
    ("remove", "[NS/]KIND/NAME|FILE", "Delete an object and its pods, or the objects of a manifest."),
    ("scale", "[NS/]KIND/NAME=N", "Scale a workload to this many replicas."),
    ("drain", "NODES", "Cordon nodes and evict their pods, within disruption budgets."),
    ("cordon", "NODES", "Mark nodes as unschedulable."),
    ("uncordon", "NODES", "Mark nodes as schedulable."),
    ("taint", "NODES=KEY[=VALUE]:EFFECT", "Taint nodes; NoExecute evicts pods when their tolerations end."),
    ("untaint", "NODES=KEY[:EFFECT]", "Remove taints."),
    ("label", "NODES=KEY=VALUE|NODES=KEY-", "Label nodes, or remove a label."),
    ("add-nodes", "N", "Add nodes made from --template."),
    ("like", "NODE", "The existing node to copy for the preceding --add-nodes."),
    ("remove-node", "NODES", "Remove nodes at once, with their pods."),
)
"""Name, metavar and help."""
_ORDER = "mooring.simulate.order"


class InOrder(click.Option):
    """An option of `mooring simulate` whose position on the command line matters."""


class OrderedCommand(click.Command):
    """A command that records in which order its `InOrder` options were given."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            given, _, order = self.make_parser(ctx).parse_args(args=list(args))
        except click.UsageError:  # repeated by the real parsing
            given, order = {}, []
        values = {name: iter(found) for name, found in given.items() if isinstance(found, list | tuple)}
        ctx.meta[_ORDER] = [
            (param.name, next(values[param.name]))
            for param in order
            if isinstance(param, InOrder) and param.name in values
        ]
        return super().parse_args(ctx, args)


def options_in_order(ctx: click.Context) -> list[tuple[str, str]]:
    """Return the names and values of the `InOrder` options, in the order of the command line."""
    return list(ctx.meta[_ORDER])
