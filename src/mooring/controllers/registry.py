"""Every controller by the name that `--controllers` and kube-controller-manager have for it. One line each."""

from mooring.controllers.controller import Factory

CONTROLLERS: dict[str, Factory] = {}
