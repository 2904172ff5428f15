"""Admission of CustomResourceDefinitions: their names, versions and schemas.

- `strategy`: the kind's strategy, which imports the rest when the first definition arrives. Start there.
- `spec`: group, names, versions, subresources, columns, conversion.
- `schemas`: which schemas are allowed; `structural` is the part that makes them structural.
- `expressions`: CEL rules: their types and costs.
"""
