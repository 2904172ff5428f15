"""Container images, unpacked into folders that simulated nodes run programs of: for the conformance suite.

An image is a file as `docker save` writes it. The web servers that the suite wants are played by busybox' own.
"""

import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

_SERVED = "/usr/local/apache2/htdocs"
_WEB_SERVERS = ("httpd", "nginx")


def write_programs(images: Path, folder: Path) -> Path:
    """Unpack the images of agnhost and busybox, and write the file for `mooring up --programs`."""
    programs: list[dict[str, Any]] = []
    for name in ("agnhost", "busybox"):
        archive = next(iter(sorted(images.glob(f"{name}*.tar"))), None)
        if archive is None:
            raise SystemExit(f"there is no image {name}*.tar in {images}")
        programs += _unpacked(archive, folder / name)
    programs += _web_servers(folder / "busybox", folder / "web")
    file = folder / "programs.yaml"
    file.write_text(yaml.safe_dump({"network": "own", "programs": programs}, sort_keys=False))
    return file


def _unpacked(archive: Path, root: Path) -> Iterator[dict[str, Any]]:
    """Yield the programs that an image is."""
    with tarfile.open(archive) as image:
        found = json.loads(_member(image, "manifest.json"))[0]
        settings = json.loads(_member(image, found["Config"]))["config"]
        for layer in found["Layers"]:
            stream = image.extractfile(layer)
            with tarfile.open(fileobj=stream) as files:
                files.extractall(root, filter="tar")
    for tag in found["RepoTags"]:
        yield {
            "image": f"{tag.rpartition(':')[0]}:*",
            "root": str(root),
            "command": settings.get("Entrypoint") or [],
            "args": settings.get("Cmd") or [],
            "env": dict(each.split("=", 1) for each in settings.get("Env") or ()),
            "workingDir": settings.get("WorkingDir") or "/",
        }


def _web_servers(busybox: Path, root: Path) -> Iterator[dict[str, Any]]:
    shutil.copytree(busybox, root, symlinks=True)
    served = root / _SERVED.lstrip("/")
    served.mkdir(parents=True)
    (served / "index.html").write_text("<html><body><h1>It works!</h1></body></html>\n")
    for name in _WEB_SERVERS:
        yield {
            "image": f"registry.k8s.io/e2e-test-images/{name}:*",
            "root": str(root),
            "command": ["httpd", "-f", "-p", "80", "-h", _SERVED],
        }


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    found = archive.extractfile(name)
    if found is None:
        raise SystemExit(f"{name} is no file of the image")
    return found.read()
