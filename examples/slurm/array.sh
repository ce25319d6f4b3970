#!/bin/bash
#SBATCH --array=0-3
#SBATCH --ntasks=1
#SBATCH --gpus=1
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@120
#
#   sbatch array.sh --dataset cifar10 --seeds 10 --device cuda
#
# One job for each method, without Ray. After all: favano report results/* --out page.html

methods=(favano fedavg quafl fedbuff)
method=${methods[$SLURM_ARRAY_TASK_ID]}

favano run --algorithm "$method" --out "results/$method" "$@" &
favano=$!
trap 'ended=yes; kill -TERM "$favano"' TERM
wait "$favano"
code=$?
if [ -n "$ended" ]; then
    wait "$favano"
    code=$?
    [ "$code" -ne 0 ] && scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
fi
exit "$code"
