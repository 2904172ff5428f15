"""The text of a Deployment, for tests about workloads whose pods differ in little."""

_TEXT = """
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
{more}      containers: [{{name: c, image: "{name}:1", resources: {{requests: {requests}}}}}]
"""


def deployment(name: str, replicas: int, requests: str = '{cpu: "1"}', *, more: str = "") -> str:
    """Return a manifest; `more` is a line of the pods' spec."""
    return _TEXT.format(name=name, replicas=replicas, requests=requests, more=f"      {more}\n" if more else "")
