"""Calls to webhooks: programs outside of the server that have a say in what it stores.

- `step`: admission webhooks in the chain of admission; `admission` asks them, `asking` one of them, `reviewing` has the
  questions and answers.
- `caller`: one request to a webhook, by URL or by Service, over TLS, within limits. Everything here uses it.
- `services`: where a Service's webhook listens.
- `conversion`: objects of custom kinds from one version to another.
"""
