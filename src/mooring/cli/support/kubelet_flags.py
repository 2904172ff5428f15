"""The flags that say how the server reaches kubelets, of `mooring apiserver` and `mooring up`."""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from mooring.apiserver.streams.parameters import ADDRESS_TYPES, KubeletOptions


def kubelet_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags, and hand over what they mean as `kubelets`."""

    @click.option(
        "--kubelet-certificate-authority",
        type=click.Path(path_type=Path, dir_okay=False, exists=True),
        help="The authority that signed the kubelets' certificates; without it, any certificate is taken.",
    )
    @click.option(
        "--kubelet-preferred-address-types",
        default=",".join(ADDRESS_TYPES),
        show_default=True,
        metavar="TYPE,…",
        help="Which of a node's addresses leads to its kubelet.",
    )
    @wraps(command)
    def wrapped(
        *args: Any,
        kubelet_certificate_authority: Path | None,
        kubelet_preferred_address_types: str,
        **rest: Any,
    ) -> None:
        types = tuple(word.strip() for word in kubelet_preferred_address_types.split(",") if word.strip())
        unknown = [word for word in types if word not in ADDRESS_TYPES]
        if unknown or not types:
            known = ", ".join(ADDRESS_TYPES)
            raise click.UsageError(f"--kubelet-preferred-address-types: {', '.join(unknown)!r} is none of {known}")
        command(*args, kubelets=KubeletOptions(kubelet_certificate_authority, types), **rest)

    return wrapped
