import numpy as np
import pytest
from privbandit_agents.base.rows import Products, blocks, remembered


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


def test_the_value_of_one_row_is_kept_until_another_row_or_owner_asks() -> None:
    asked: list[object] = []

    class Doubling:
        @remembered
        def of(self, x: np.ndarray) -> np.ndarray:
            asked.append(x)
            return 2.0 * x

    one, other, row = Doubling(), Doubling(), np.array([1.0, -0.0])
    assert one.of(row).tolist() == one.of(row[None])[0].tolist() == [2.0, 0.0] and len(asked) == 1
    row[0] = 3.0  # the caller's array may change
    assert one.of(row).tolist() == [6.0, 0.0] and other.of(row).tolist() == [6.0, 0.0] and len(asked) == 3
    assert one.of(row.astype(np.float32)).dtype == np.float32
    assert one.of(np.ones((3, 2))).shape == (3, 2) and one.of(np.empty((0, 2))).shape == (0, 2)
    with pytest.raises(ValueError, match="read-only"):
        one.of(row)[0] = 0.0
