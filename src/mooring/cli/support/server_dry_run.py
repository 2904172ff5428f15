"""Ask a live API server what it would store: a server-side apply of each object as a dry run."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from mooring.cli.support.cluster_source import ClusterSource

if TYPE_CHECKING:
    from mooring.advisor.plan import ServerAnswer
    from mooring.api.meta_v1 import Resource
    from mooring.client import Client

_MANAGER = "mooring-plan"
_AT_ONCE = 16


def dry_runs(source: ClusterSource, objects: "Sequence[Resource]") -> "dict[int, ServerAnswer]":
    """Return the server's answers by the identity of the objects; without those that it could not be asked about."""
    from mooring.client import ClientError

    try:
        return asyncio.run(_ask(source, objects))
    except ClientError as problem:
        click.echo(f"Note: the server could not be asked for a dry run: {problem}", err=True)
        return {}


async def _ask(source: ClusterSource, objects: "Sequence[Resource]") -> "dict[int, ServerAnswer]":
    remaining, answers = iter(objects), dict[int, Any]()
    async with source.client() as client:

        async def work() -> None:
            for obj in remaining:
                if (answer := await _answer(client, obj)) is not None:
                    answers[id(obj)] = answer

        await asyncio.gather(*(work() for _ in range(_AT_ONCE)))
    return answers


async def _answer(client: "Client", obj: "Resource") -> "ServerAnswer | None":
    from mooring.advisor.plan import ServerAnswer
    from mooring.api import codec
    from mooring.api.errors import Forbidden, NotFound, StatusError

    if not obj.metadata.name:  # a generated name: there is nothing to compare with
        return None
    try:
        before = codec.to_tree(await client.get(type(obj), obj.metadata.name, obj.metadata.namespace))
    except NotFound:
        before = None
    except StatusError:
        return None
    try:
        after = await client.apply(obj, field_manager=_MANAGER, force=True, dry_run=True)
    except Forbidden as refusal:
        if "cannot patch resource" in str(refusal):
            return None
        return ServerAnswer(before, None, str(refusal))
    except StatusError as refusal:
        return ServerAnswer(before, None, str(refusal))
    return ServerAnswer(before, codec.to_tree(after))
