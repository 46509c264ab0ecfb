import numpy as np
import pytest
from privbandit_agents.bounds.layered import input_perturbation_lower_bound, mse_lower_bound, regret_upper_bound


def test_the_bounds_have_their_theorems_powers() -> None:
    users = np.array([1e4, 1e8])
    for curve, power in ((mse_lower_bound(users, 1.0), -1 / 2), (input_perturbation_lower_bound(users), -1 / 3)):
        assert np.log(curve[1] / curve[0]) / np.log(1e4) == pytest.approx(power)
    assert mse_lower_bound(1e4, np.log(2)) == pytest.approx(0.01)
    one, two = regret_upper_bound(users, 2)
    assert two / one == pytest.approx(1e2 * 4)
