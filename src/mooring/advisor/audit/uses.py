"""What an object uses of all that gates and versions decide about: found by asking admission with each switched off.

Nearly all objects use nothing; that is known after two questions, one with everything on and one with everything off.
Objects that are made from one template are asked about once. Called by ``auditor.py``.
"""

import hashlib
import re
from datetime import datetime
from typing import Any, NamedTuple

from msgspec import structs

from mooring.advisor.audit import admission_checks
from mooring.advisor.audit.options import COMPATIBILITY, Options, Switch
from mooring.api import codec
from mooring.api.core_v1 import Pod
from mooring.api.meta_v1 import Resource

_STEP = re.compile(r"([^.\[\]]+)|\[([^\]]*)\]")
_LONGEST = 100


class Use(NamedTuple):
    """A field that depends on something."""

    switch: Switch
    field: str

    @property
    def feature(self) -> str:
        return self.switch.feature


class Uses:
    """Find uses, with a cache."""

    def __init__(self, options: Options, now: datetime) -> None:
        self._options = options
        self._now = now
        self._remembered: dict[tuple[type, bytes], tuple[Use, ...]] = {}

    def of(self, obj: Resource) -> tuple[Use, ...]:
        """Return the gated uses of an object, in order of switches and fields."""
        if not admission_checks.has_rules(obj):
            return ()
        key = (type(obj), hashlib.blake2b(content(obj), digest_size=16).digest())
        found = self._remembered.get(key)
        if found is None:
            found = self._remembered[key] = self._find(obj)
        return found

    def _find(self, obj: Resource) -> tuple[Use, ...]:
        options = self._options
        clean = admission_checks.create(obj, options.everything, self._now)
        if admission_checks.create(obj, options.nothing, self._now).beyond(clean).is_clean:
            return ()
        by_gate: dict[str, Use] = {}
        by_version: dict[str, Use] = {}
        for switch in options.switches:
            more = admission_checks.create(obj, switch.off, self._now).beyond(clean)
            known = by_version if switch.feature == COMPATIBILITY else by_gate
            for field in sorted({*more.refused, *more.dropped}):
                known.setdefault(field, Use(switch, field))
        # A use of a gate implies its versions; report only uses that need more than the gate.
        newer = (use for field, use in by_version.items() if field not in by_gate or _is_newer(use, by_gate[field]))
        return (*by_gate.values(), *newer)


def _is_newer(use: Use, gate: Use) -> bool:
    def number(text: str) -> int:
        return int(text.partition(".")[2] or 0)

    return number(use.switch.needs) > number(gate.switch.needs)


def content(obj: Resource) -> bytes:
    """All that admission looks at, as far as gates and versions matter."""
    if isinstance(obj, Pod):
        return codec.encode(structs.replace(obj.spec, node_name=""))
    return codec.encode(obj)


def value_at(tree: Any, path: str) -> str:
    """Format the value at a path: an operator together with its operands."""
    steps = [name or index for name, index in _STEP.findall(path)]
    value, around = tree, None
    for step in steps:
        around = value
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return ""
    if steps and steps[-1] == "operator" and isinstance(around, dict):
        compared = around.get("value") or ", ".join(map(str, around.get("values") or ()))
        value = f"{around.get('key', '')} {value} {compared}".strip()
    text = value if isinstance(value, str) else codec.encode(value).decode() if value is not None else ""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
