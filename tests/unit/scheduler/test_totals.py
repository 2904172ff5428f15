"""The cached best rows of changing sets of feasible nodes equal recomputed ones."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.scheduler.deciding.score_vectors import Totals

pytestmark = pytest.mark.req("S.3")
_ROWS = 1024


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_the_best_rows_are_the_same_as_if_nothing_were_kept(seed: int) -> None:
    lot = random.Random(seed)
    random_rows = np.random.default_rng(seed)
    sums = random_rows.integers(0, 5, _ROWS)
    zones = np.arange(_ROWS) % 3
    sets = [np.ones(_ROWS, np.bool_), *(zones != zone for zone in range(3)), zones == 0]
    totals = Totals(_ROWS)
    for _ in range(40):
        changed = random_rows.integers(0, _ROWS, lot.choice([0, 1, 1, 1, 2, 5]))
        sums[changed] = random_rows.integers(0, 6, len(changed))
        place = lot.randrange(len(sets))
        if lot.random() < 0.3:  # one node is feasible now, or no longer
            sets[place] = sets[place].copy()
            sets[place][lot.randrange(_ROWS)] ^= True
        best = totals.best(sums, sets[place], None if lot.random() < 0.02 else changed)
        feasible = np.flatnonzero(sets[place])
        expected = feasible[sums[feasible] == sums[feasible].max()]
        assert best.pick(lot) in expected
        assert best.rows().tolist() == expected.tolist()
