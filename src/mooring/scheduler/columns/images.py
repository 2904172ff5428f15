"""The container images of each node, with their sizes."""

from collections.abc import Sequence

from mooring.api.core_v1 import ContainerImage
from mooring.constraints.columns.revisions import next_revision


class ImageColumns:
    def __init__(self) -> None:
        self.changed_at = 0
        """The revision at which a node last gained or lost an image."""
        self._sizes: dict[str, dict[int, int]] = {}
        self._on: dict[int, dict[str, int]] = {}

    def put(self, row: int, images: Sequence[ContainerImage]) -> None:
        before = self._on.get(row, {})
        after = {name: image.size_bytes for image in images for name in image.names}
        if before == after:
            return
        self.changed_at = next_revision()
        for name in before:
            sizes = self._sizes[name]
            del sizes[row]
            if not sizes:
                del self._sizes[name]
        for name, size in after.items():
            self._sizes.setdefault(name, {})[row] = size
        self._on[row] = after

    def remove(self, row: int) -> None:
        self.put(row, ())
        self._on.pop(row, None)

    def sizes(self, image: str) -> dict[int, int]:
        """Return the size of an image, by row of the nodes that have it."""
        return self._sizes.get(image, {})
