"""What commands do to the garbage collector of their process."""

import gc

import pytest

from mooring.cli.support.process_settings import defer_collection

pytestmark = pytest.mark.req("S.5")


def test_loading_does_not_thaw_what_the_process_has_frozen() -> None:
    gc.freeze()
    with defer_collection():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


def test_what_was_loaded_is_collected_again_where_nothing_was_frozen() -> None:
    gc.unfreeze()
    try:
        with defer_collection():
            pass
        assert gc.get_freeze_count() == 0
    finally:
        gc.freeze()  # the tests of this process
