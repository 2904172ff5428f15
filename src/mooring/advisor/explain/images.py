"""List the images that the nodes of a cluster have pulled, and find the one that a wrong image name probably means."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from mooring.advisor.node_facts import find_similar
from mooring.advisor.snapshot import Snapshot
from mooring.api.core_v1 import Container, Node, Pod, PodSpec
from mooring.base.natural_sort import natural_key

_DEFAULT_REGISTRY = ("docker.io/library/", "docker.io/")


class PulledImage(NamedTuple):
    """An image that was pulled, and where: `pod shop/web` or `node n1`."""

    name: str
    place: str
    is_misspelling: bool = False
    """Whether the image that was asked for differs from this one by a misspelling only."""


@dataclass(frozen=True)
class PulledImages:
    """The images that pods of a snapshot run or nodes have, and the pull secrets of the pods that run them."""

    places: dict[str, str]
    """By image, as `normalise_image` returns it, a place that has it: `pod shop/web` or `node n1`."""
    secrets: dict[str, dict[str, dict[str, Pod]]]
    """By registry, namespace and name of the Secret, a pod that pulled an image with it."""

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot) -> "PulledImages":
        places: dict[str, str] = {}
        secrets: dict[str, dict[str, dict[str, Pod]]] = {}
        for pod in snapshot.all(Pod):
            space = pod.metadata.namespace
            statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
            pulled = {each.name for each in statuses if each.image_id or each.state.running or each.state.terminated}
            for container in (each for each in containers_of(pod.spec) if each.name in pulled):
                places.setdefault(normalise_image(container.image), f"pod {space}/{pod.metadata.name}")
                for secret in pod.spec.image_pull_secrets:
                    of_space = secrets.setdefault(registry_of(container.image), {}).setdefault(space, {})
                    of_space.setdefault(secret.name, pod)
        for node in snapshot.all(Node):
            for name in (name for image in node.status.images for name in image.names if "@" not in name):
                places.setdefault(normalise_image(name), f"node {node.metadata.name}")
        return cls(places, secrets)

    def place_of(self, image: str) -> str:
        """Return a pod or node that has an image (`pod shop/web`, `node n1`); empty if none has it."""
        return self.places.get(normalise_image(image), "")

    def find_meant_image(self, image: str) -> PulledImage | None:
        """Return the pulled image that a name with another spelling or tag probably means; None if it was pulled."""
        wanted = normalise_image(image)
        if wanted in self.places:
            return None
        repository, tag = _split_tag(wanted)
        tags: dict[str, list[str]] = {}
        names: dict[str, str] = {}
        for known in self.places:
            there, its_tag = _split_tag(known)
            tags.setdefault(there, []).append(its_tag)
            names.setdefault(there.rpartition("/")[2], there)
        own = repository.rpartition("/")[2]
        found = repository if repository in tags else names.get(own) or names.get(find_similar(own, names), "")
        if not found:
            return None
        near = tag if tag in tags[found] else find_similar(tag, tags[found]) or max(tags[found], key=natural_key)
        name = f"{found}:{near}" if near else found
        return PulledImage(name, self.places[name], is_misspelling=found != repository and near == tag)


def containers_of(spec: PodSpec) -> Iterator[Container]:
    yield from spec.init_containers
    yield from spec.containers


def normalise_image(image: str) -> str:
    """Return an image name without the default registry, and with the tag `latest` if it has none.

    >>> normalised("docker.io/library/nginx"), normalised("example.com/app:2")
    ('nginx:latest', 'example.com/app:2')
    """
    for prefix in _DEFAULT_REGISTRY:
        image = image.removeprefix(prefix)
    return image if ":" in image.rpartition("/")[2] or "@" in image else f"{image}:latest"


def registry_of(image: str) -> str:
    """Return the registry of an image, `docker.io` by default."""
    first, slash, _ = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else "docker.io"


def _split_tag(image: str) -> tuple[str, str]:
    """Return repository and tag of a normalised image; the tag is empty if it has a digest."""
    repository, _, tag = image.rpartition(":")
    return (image, "") if "@" in image else (repository, tag)
