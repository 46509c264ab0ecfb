"""What stable-baselines3 logs of regret."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stable_baselines3.common.callbacks import BaseCallback


def log_regret() -> "BaseCallback":
    """Return a callback of stable-baselines3 that logs the pseudo-regret in ``infos``, with the library's own values.

    Tags: ``regret/cumulative``, over all users so far, and ``regret/per_round``, per user since the last rollout. Its
    attribute ``total`` is the sum so far. It works with ``to_sb3`` and with the library's vector environments.
    """
    from stable_baselines3.common.callbacks import BaseCallback

    class LogRegret(BaseCallback):
        def __init__(self) -> None:
            super().__init__()
            self.total, self.users, self.before = 0.0, 0, (0.0, 0)

        def _on_step(self) -> bool:
            served = [info["regret"] for info in self.locals["infos"]]
            self.total += sum(served)
            self.users += len(served)
            return True

        def _on_rollout_end(self) -> None:
            total, users = self.before
            self.logger.record("regret/cumulative", self.total)
            self.logger.record("regret/per_round", (self.total - total) / max(self.users - users, 1))
            self.before = self.total, self.users

    return LogRegret()
