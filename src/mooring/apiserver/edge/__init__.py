"""Sockets, TLS, HTTP, responses that are streamed, and limits. Knows the requests, and not what they mean.

``http_server.py`` is the entry: it hands requests to the `Application` that ``requests/app.py`` implements.
"""
