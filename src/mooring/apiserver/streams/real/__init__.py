"""Real kubelets: ``kubelets.py`` has their addresses and paths, ``http_call.py`` sends requests, ``tls.py`` does TLS.

After a kubelet has responded 101, bytes of WebSocket or SPDY are relayed without decoding them; for the reasons see
docs/decisions/streams.md.
"""
