"""The dashboard: what the advisor knows about a cluster, seen in a browser.

It decides nothing itself: every number on a page comes from `mooring.advisor` or from the scheduler's engine, and is
what the command prints. `mooring dashboard` and `mooring up --dashboard` run it.

| Module | What is there |
|---|---|
| ``access.py`` | where a cluster is read from, and how it decides |
| ``options.py`` | its versions and gates |
| ``live_snapshot.py``, ``history.py`` | the current objects of the cluster; what happened lately |
| ``watching.py`` | follows a live cluster, and lets pages ask in a thread of its own |
| ``changing.py`` | the few changes that pages offer with `--allow-changes`, kept to what was shown |
| ``gate.py`` | who may ask: token, host, origin, and the headers that keep a browser from doing more |
| ``app.py``, ``server.py`` | requests and responses; listening on the loopback address |
| ``views/`` | a module for each view: a typed model, and the page that shows it |
| ``layout.py``, ``elements.py`` | what pages have in common |
| ``static/`` | style sheet and small scripts, as they are; there is nothing to build |

Read next: ``app.py``, then ``views/overview.py``. For users: docs/dashboard.md.
"""
