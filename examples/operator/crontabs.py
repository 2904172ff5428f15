"""An operator for CronTabs, with kopf: it reports in the status what it made of the spec, and cleans up when it
ends."""

from typing import Any

import kopf

KIND = ("stable.example.com", "v1", "crontabs")


@kopf.on.login()
def login(**given: Any) -> Any:
    """By KUBECONFIG as it is now; other ways read it when they are imported."""
    return kopf.login_with_kubeconfig(**given)


@kopf.on.create(*KIND)
@kopf.on.update(*KIND, field="spec")
def tell(spec: Any, patch: Any, **_: Any) -> None:
    patch.status["replicas"] = spec["replicas"]
    patch.status["labelSelector"] = f"image={spec['image']}"


@kopf.on.delete(*KIND)
def clean_up(name: str, logger: Any, **_: Any) -> None:
    logger.info("%s is gone", name)
