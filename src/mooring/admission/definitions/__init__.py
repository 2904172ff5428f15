"""CustomResourceDefinitions in admission: which names, versions and schemas a cluster takes.

- `strategy`: the kind's strategy, which loads the rest when the first definition comes. Start there.
- `spec`: group, names, versions, subresources, columns, conversion.
- `schemas`: which schemas are allowed; `structural` is the part that makes them structural.
- `expressions`: the rules in CEL: their types, and what they may cost.
"""
