from typing import Any

import numpy as np
import pytest
from privbandit_agents.base.labels import ends_of


def test_ends_are_a_pair_for_every_feature() -> None:
    assert ends_of((0, 1)).tolist() == [0, 1]
    assert ends_of((-1, [1, 2])).tolist() == [[-1, -1], [1, 2]]
    assert ends_of((0, [1, 2, 3]), 3).shape == (2, 3)


@pytest.mark.parametrize("given", [(1, 0), (0, 0), (0, np.inf), (-1e308, 1e308), (0, [1, np.nan]), (0, 1, 2), 3, "ab"])
def test_ends_that_span_nothing_are_refused(given: Any) -> None:
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="feature_range must be"):
        ends_of(given)
