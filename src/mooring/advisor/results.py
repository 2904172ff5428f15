"""The base of the typed results of advice, which are the same in Python, as JSON and over HTTP."""

from typing import Any

import msgspec

API_VERSION = "advisor.mooring.dev/v1"


class Result(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The base class of results and their parts: frozen, camelCase in JSON, default values left out."""

    def tree(self) -> dict[str, Any]:
        """Return the result as in JSON: plain dicts and lists, beginning with apiVersion and kind."""
        return {"apiVersion": API_VERSION, "kind": getattr(self, "kind", ""), **msgspec.to_builtins(self)}
