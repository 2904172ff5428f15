"""Flags of `mooring apiserver` and `mooring up` about kubelets: how to reach them, and certificate lifetimes."""

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any

import click

from mooring.apiserver.streams.parameters import ADDRESS_TYPES, KubeletOptions
from mooring.cli.support.duration import Duration

_SHORTEST_SECONDS = 60.0
_LONGEST_SECONDS = 3650 * 86_400.0


def kubelet_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags; the command gets them as `kubelets`."""

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
    @click.option(
        "--cluster-signing-duration",
        type=Duration(),
        default="8760h",
        show_default=True,
        help="How long certificates are good for that nodes ask for; kubelets renew them after most of it.",
    )
    @wraps(command)
    def wrapped(
        *args: Any,
        kubelet_certificate_authority: Path | None,
        kubelet_preferred_address_types: str,
        cluster_signing_duration: float,
        **rest: Any,
    ) -> None:
        types = tuple(word.strip() for word in kubelet_preferred_address_types.split(",") if word.strip())
        unknown = [word for word in types if word not in ADDRESS_TYPES]
        if unknown or not types:
            known = ", ".join(ADDRESS_TYPES)
            raise click.UsageError(f"--kubelet-preferred-address-types: {', '.join(unknown)!r} is none of {known}")
        if not _SHORTEST_SECONDS <= cluster_signing_duration <= _LONGEST_SECONDS:
            raise click.UsageError("--cluster-signing-duration: from a minute to ten years, such as 24h")
        signing_duration = timedelta(seconds=cluster_signing_duration)
        command(*args, kubelets=KubeletOptions(kubelet_certificate_authority, types, signing_duration), **rest)

    return wrapped
