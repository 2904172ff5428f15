"""Extension libraries of CEL, for any environment; none of them is on by default.

| Module | Library | Functions |
|---|---|---|
| `strings` | `strings(version)` | charAt, indexOf, join, lowerAscii, replace, split, substring, trim, format … |
| `lists` | `lists(version)` | slice, flatten, sort, sortBy, range, reverse, distinct |
| `sets` | `SETS` | sets.contains, sets.equivalent, sets.intersects |
| `optionals` | `OPTIONALS` | optional.of, optMap, or, orValue, first, last … (the syntax `a.?b` is the engine's) |
| `comprehensions` | `TWO_VARIABLES` | all, exists, existsOne, transformList, transformMap … over key and value |
| `bindings` | `BINDINGS` | cel.bind |
| `math` | `MATH` | math.greatest, math.abs, math.bitAnd … |
| `encoders` | `ENCODERS` | base64.encode, base64.decode |
| `network` | `NETWORK` | ip, cidr and their methods |

Costs are those of cel-go where it has some, and Kubernetes' for the rest.
"""
