"""Network I/O: sockets, TLS, HTTP, streamed responses, and limits, independent of the meaning of requests.

``http_server.py`` is the entry: it passes requests to the `Application` that ``requests/app.py`` implements.
"""
