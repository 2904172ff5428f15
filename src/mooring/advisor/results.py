"""The base of the typed results of advice, which are the same in Python, as JSON and over HTTP."""

from typing import Any

import msgspec

API_VERSION = "advisor.mooring.dev/v1"


class Result(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A part of a result: frozen, with camelCase field names; JSON has no fields with default values."""

    def tree(self) -> dict[str, Any]:
        """Return a whole result as in JSON: plain dicts and lists, beginning with its apiVersion and kind."""
        return {"apiVersion": API_VERSION, "kind": getattr(self, "kind", ""), **msgspec.to_builtins(self)}
