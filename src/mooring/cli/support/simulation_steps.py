"""The options of `mooring simulate` that change a cluster, in command-line order.

click passes the values of each option but not their order; `OrderedCommand` asks its parser for that. Read next:
``simulation_changes.py`` makes changes of their values.
"""

import click

CHANGES = (
    ("add", "FILE|-", "Create what a manifest has; workloads bring their pods."),
    ("replicas", "N", "So many of what the --add before it has."),
    ("remove", "[NS/]KIND/NAME|FILE", "Delete an object and its pods, or what a manifest has."),
    ("scale", "[NS/]KIND/NAME=N", "Give a workload so many replicas."),
    ("drain", "NODES", "Cordon nodes and evict their pods, as far as disruption budgets allow."),
    ("cordon", "NODES", "Let no more pods come to nodes."),
    ("uncordon", "NODES", "Let pods come again."),
    ("taint", "NODES=KEY[=VALUE]:EFFECT", "Taint nodes; NoExecute evicts when tolerations run out."),
    ("untaint", "NODES=KEY[:EFFECT]", "Take taints away."),
    ("label", "NODES=KEY=VALUE|NODES=KEY-", "Label nodes, or take a label away."),
    ("add-nodes", "N", "Add nodes, as --template has them."),
    ("like", "NODE", "The existing node that the --add-nodes before it copies."),
    ("remove-node", "NODES", "Take nodes away at once, with their pods."),
)
"""Name, metavar and help."""
_ORDER = "mooring.simulate.order"


class InOrder(click.Option):
    """An option whose position matters."""


class OrderedCommand(click.Command):
    """Record the order of the `InOrder` options."""

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
    """Return the names and values of the `InOrder` options of a command line."""
    return list(ctx.meta[_ORDER])
