"""Kubelets of machines: ``kubelets.py`` knows their addresses and paths, ``http_call.py`` asks, ``tls.py`` says who.

Nothing is understood that passes through: after the kubelet has answered 101, bytes go both ways as they are, whether
WebSocket or SPDY. docs/decisions/streams.md has the reasons.
"""
