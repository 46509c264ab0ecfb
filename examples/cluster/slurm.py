"""Runs a sweep on SLURM through Dask: python slurm.py linear.yaml runs/linear 100."""

import subprocess
import sys

import dask
from dask_jobqueue import SLURMCluster

sweep, out, workers = sys.argv[1], sys.argv[2], int(sys.argv[3])
prologue = [f"export {name}_NUM_THREADS=1" for name in ("OMP", "OPENBLAS", "MKL")]
with dask.config.set({"distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None}):
    cluster = SLURMCluster(
        cores=1,
        processes=1,
        memory="2GB",
        walltime="04:00:00",
        job_script_prologue=prologue,
        job_extra_directives=["--requeue"],
        worker_extra_args=["--lifetime", "235m", "--lifetime-stagger", "4m"],  # they end before SLURM ends them
    )
with cluster:
    cluster.adapt(minimum=1, maximum=workers)
    command = ["privbandit", "sweep", sweep, "--out", out, "--engine", "dask", "--address", cluster.scheduler_address]
    sys.exit(subprocess.run(command).returncode)
