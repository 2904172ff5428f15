"""Replay recorded behaviour: ``python -m mooring.testing.replay KIND FILE…``.

Each kind of file has a module, listed in `mooring.testing.replay.__main__`, with two functions: ``add_arguments`` adds
its options, ``run`` replays files and returns a `Result`. Conformance tests call ``run`` as well.
"""
