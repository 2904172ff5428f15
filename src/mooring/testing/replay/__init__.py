"""Replays recorded behaviour: ``python -m mooring.testing.replay KIND FILE…``.

Each kind of file has its module here, named in `mooring.testing.replay.__main__`, with two functions: ``add_arguments``
gives the kind its options, ``run`` replays the files and returns a `Result`. Conformance tests call ``run`` too.
"""
