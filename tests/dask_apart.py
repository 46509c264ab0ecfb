"""Runs a sweep on Dask workers that have nothing in common but a wire, and kills them at random; prints what happened.

    unshare --user --map-root-user --net --mount python dask_apart.py OUT SEED apart
    python dask_apart.py OUT SEED together

``apart``: each worker has a network namespace of its own, joined to the scheduler's by a pair of devices, and an empty
disk over the folder of results. ``together``: each has a working folder of its own.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
from privbandit_agents.experiments import Trial
from privbandit_agents.experiments.running.engine import Engine, run_jobs

TRIALS = [Trial("privbandit/Linear-v0", "jdp-linucb", 3000, seed, {"n_arms": 4, "dim": 3}) for seed in range(6)]
KILLS = 3
DASK = (sys.executable, "-m", "dask")


class Worker:
    """A worker that comes up in a place of its own."""

    def __init__(self, place: int, out: Path, apart: bool) -> None:
        folder = out.parent / f"worker-{place}"
        folder.mkdir(exist_ok=True)
        address = f"10.77.{place}.1" if apart else "127.0.0.1"
        options = "--nthreads 1 --nworkers 1 --no-dashboard --local-directory".split()
        dask = [*DASK, "worker", f"tcp://{address}:8786", *options, str(folder)]
        hidden = ["unshare", "--net", "--mount", "sh", "-c", 'read go; mount -t tmpfs none "$0"; exec "$@"', str(out)]
        self.process = subprocess.Popen(
            [*hidden, *dask] if apart else dask,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=(folder / "log").open("ab"),
            start_new_session=True,
        )
        if apart:
            self.join(place)

    def join(self, place: int) -> None:
        """Lay a wire into the worker's network, and let it start."""
        own = f"/proc/{self.process.pid}/ns/net"
        while os.readlink(own) == os.readlink("/proc/self/ns/net"):
            time.sleep(0.01)
        inside = ["nsenter", f"--net={own}"]
        run("ip", "link", "add", f"v{place}", "type", "veth", "peer", "name", "eth0", "netns", str(self.process.pid))
        run("ip", "addr", "add", f"10.77.{place}.1/24", "dev", f"v{place}")
        run("ip", "link", "set", f"v{place}", "up")
        run(*inside, "ip", "addr", "add", f"10.77.{place}.2/24", "dev", "eth0")
        run(*inside, "ip", "link", "set", "eth0", "up")
        run(*inside, "ip", "link", "set", "lo", "up")
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """End the worker and the nanny that would start it again, without a word."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def main(out: Path, seed: int, apart: bool) -> None:
    if apart:
        run("ip", "link", "set", "lo", "up")
    environment = {**os.environ, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "100"}
    options = "--no-dashboard --port 8786".split()
    log = (out.parent / "scheduler.log").open("ab")
    scheduler = subprocess.Popen([*DASK, "scheduler", *options], cwd=out.parent, env=environment, stderr=log)
    out.mkdir()
    workers = [Worker(place, out, apart) for place in (1, 2)]
    over, rng = threading.Event(), np.random.default_rng(seed)
    killed: list[int] = []

    def disturb() -> None:
        while len(killed) < KILLS and not over.wait(0.05):
            if len(list(out.glob("trials/*.json"))) <= len(killed):
                continue  # a trial more is finished before each kill, so that the sweep gets on
            time.sleep(rng.uniform(0, 0.5))
            victim = int(rng.integers(2))
            workers[victim].kill()
            killed.append(victim + 1)
            workers[victim] = Worker(2 + 2 * len(killed) + victim, out, apart)

    disturber = threading.Thread(target=disturb)
    disturber.start()
    try:
        results, failures = run_jobs(TRIALS, out, Engine("dask", address="tcp://127.0.0.1:8786"))
    finally:
        over.set()
        disturber.join()
        for worker in workers:
            worker.kill()
        scheduler.kill()
    print(json.dumps({"results": len(results), "failures": len(failures), "killed": killed}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "apart")
