#!/bin/bash
#SBATCH --job-name=privbandit
#SBATCH --array=1-50
#SBATCH --cpus-per-task=1
#SBATCH --mem=2G
#SBATCH --time=04:00:00
#SBATCH --requeue
# sbatch shards.sh linear.yaml /shared/linear
set -euo pipefail
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
source "$HOME/privbandit/.venv/bin/activate"
privbandit sweep "$1" --out "$2" --jobs 1 --shard "$SLURM_ARRAY_TASK_ID/50"
# afterwards, where you like: privbandit sweep linear.yaml --out /shared/linear   (finds all results and draws)
