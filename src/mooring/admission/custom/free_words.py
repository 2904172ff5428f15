"""Which words of a custom object its schema judges one by one. Called by ``strategy.py``."""

from functools import partial

from mooring.admission.custom.validation import Check, Findings, compile_schema
from mooring.admission.free_words import Place, WordCheck, anything, in_metadata
from mooring.api.apiextensions_v1 import JSONSchemaProps
from mooring.api.structural import Structural

_TYPE = frozenset({"apiVersion", "kind"})
_READ = {"string": str, "integer": int}
"""What a word is, by the type of its schema."""


def free_word(schema: Structural, place: Place) -> WordCheck | None:
    """The check of a word, provided that nothing above it looks at what it says: no rule, no choice, no key of a list.

    Rules of the whole object may look at its name, too.
    """
    if place[0] in _TYPE or not _looks_no_deeper(schema.props):
        return None
    if place[0] == "metadata":
        return in_metadata(place)
    found = schema
    for step in place:
        below = found.items if isinstance(step, int) else found.field(step)
        if below is None or below.embeds or not _looks_no_deeper(below.props):
            return None
        found = below
    props = found.props
    if props.type not in _READ or props.int_or_string:
        return None
    if props.type == "string" and _has_no_rule(props):
        return anything
    return partial(_passes, compile_schema(props), _READ[props.type])


def _looks_no_deeper(props: JSONSchemaProps) -> bool:
    """Whether a schema says nothing of its value as a whole that would depend on the words in it."""
    combined = props.all_of or props.any_of or props.one_of or props.not_ is not None
    return not (combined or props.validations or props.enum or props.list_type in {"set", "map"})


def _has_no_rule(props: JSONSchemaProps) -> bool:
    return not props.pattern and not props.format and props.max_length is None and props.min_length is None


def _passes(check: Check, read: type[str] | type[int], word: str) -> bool:
    if "\\" in word or not word.isprintable():
        return False  # it says something else than it looks like
    findings = Findings(None)
    check(read(word), None, findings)
    return not findings.errors
