import numpy as np
import pytest
from privbandit_agents.base.rows import blocks


@pytest.mark.parametrize("most", [100, 3])
def test_no_block_goes_beyond_a_change(most: int) -> None:
    users, ends = 0, [1, 2, 4, 8, 16, 32]
    seen: list[int] = []

    def room() -> int:
        return min(end for end in ends if end > users) - users

    for first, second in blocks(room, np.arange(20), np.arange(20, 40), most=most):
        assert 1 <= len(first) <= min(room(), most) and np.array_equal(second, first + 20)
        users += len(first)
        seen += first.tolist()
    assert seen == list(range(20))
    assert list(blocks(room, np.empty(0))) == []
