"""Calls of webhooks: external programs that take part in admission, or convert objects.

step       admission webhooks as a step of admission; `reviewing` has their requests and responses
caller     one request to a webhook, by URL or by Service, over TLS, within limits; all calls use it
"""
