"""The flags of the running command, for `/flagz`."""

from typing import Any

import click


def shown_flags() -> dict[str, str]:
    """Return every option of the running command as kube-apiserver shows them: names without dashes, values as
    strings."""
    context = click.get_current_context(silent=True)
    if context is None:
        return {}
    options = (each for each in context.command.params if isinstance(each, click.Option) and each.name)
    return {max(each.opts, key=len).lstrip("-"): _text(context.params.get(str(each.name))) for each in options}


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{','.join(map(str, value))}]" if isinstance(value, tuple | list) else str(value)
