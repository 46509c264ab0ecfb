import numpy as np
import pytest
from privbandit_agents.base.rows import Products, blocks


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


@pytest.mark.parametrize("groups", [1, 2, 5])
def test_the_products_of_a_group_are_those_of_its_rows_alone(groups: int) -> None:
    rng = np.random.default_rng(0)
    rows, group = rng.standard_normal((700, 3)), rng.integers(groups, size=700)
    products = Products(3, groups)
    products.add(rows[:300], group[:300])
    products.add(rows[300:], group[300:])
    found = products.take()
    for number in range(groups):
        own = rows[group == number]
        assert np.allclose(found[number], own.T @ own, rtol=1e-12)
    assert not products.take().any()
