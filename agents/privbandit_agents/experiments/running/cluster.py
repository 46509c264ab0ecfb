"""Workers of a Dask cluster, here or elsewhere."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from joblib import cpu_count, parallel_config

from privbandit_agents.experiments.usage import UsageError, missing_module

KEEP_MEMORY = {"distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None}
"""Workers of Dask give freed memory back at once unless this is set; numpy is two to three times slower then."""
NOISY = tuple(f"distributed.{part}" for part in ("client", "core", "comm", "nanny", "scheduler", "worker"))
"""Loggers that print lines when a scheduler or a worker is gone; the caller gets an exception."""


@contextmanager
def dask_cluster(address: str | None, jobs: int | None) -> Iterator[int]:
    """Connect to a Dask cluster, or start one on this machine; joblib uses it meanwhile.

    Yields:
        How many jobs to hand out ahead: more than there are workers, since a cluster may grow.

    Raises:
        UsageError: Dask is not installed, nobody answers, or the workers are not fit for jobs.
    """
    try:
        import dask
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise UsageError(f"--engine dask: {missing_module(error)}") from error
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    if address is None:
        n = jobs or cpu_count()
        with (
            dask.config.set(KEEP_MEMORY),
            LocalCluster(n_workers=n, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
            parallel_config(reporting(client)),
        ):
            yield 2 * n
    else:
        try:
            client = Client(address, timeout="20s")
        except (OSError, TypeError, ValueError) as error:
            raise UsageError(f"--address: no Dask scheduler answers at {address}: {error}") from error
        with client:
            check_workers(client, address)
            with parallel_config(reporting(client)):
                yield 500  # tasks that a cluster elsewhere holds at a time


def reporting(client: Any) -> Any:
    """Return joblib's backend for Dask, with the death of a worker reported instead of waited for without end."""
    from joblib._dask import DaskDistributedBackend

    class Reporting(DaskDistributedBackend):  # type: ignore[misc]
        def effective_n_jobs(self, n_jobs: int) -> int:
            """Count at least two workers: for one, joblib would run the jobs in this very process."""
            return max(2, int(super().effective_n_jobs(n_jobs)))

        async def _collect(self) -> None:
            while self._continue:
                async for future, result in self.waiting_futures:
                    outcome, callback = self._results.pop(future), self._callbacks.pop(future)
                    if future.status == "error":
                        result = result[1]
                        outcome.set_exception(result)
                    else:
                        outcome.set_result(result)
                    callback(result)
                await asyncio.sleep(0.01)

    return Reporting(client=client)


def check_workers(client: Any, address: str) -> None:
    """Wait for the first worker of a cluster.

    Raises:
        UsageError: none comes, or there are workers that would run several jobs in one process.
    """
    seconds = 60  # for the first worker
    try:
        client.wait_for_workers(1, timeout=seconds)
    except TimeoutError:
        why = f"the cluster at {address} has had no workers for {seconds} seconds; start some: dask worker {address}."
        raise UsageError(f"--address: {why}") from None
    workers = client.scheduler_info(n_workers=-1)["workers"]
    threads = max(worker["nthreads"] for worker in workers.values())
    if threads > 1:
        why = f"a worker at {address} has {threads} threads; trials need processes of their own"
        raise UsageError(f"--address: {why}, so start workers with --nthreads 1 --nworkers N.")
