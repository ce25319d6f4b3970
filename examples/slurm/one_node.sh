#!/bin/bash
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@120
#
#   sbatch one_node.sh compare --dataset cifar10 --seeds 10 --device cuda --out results
#
# Spreads the runs of a command over the GPUs of one node. Two minutes before the time is over, and
# if the job is preempted, favano gets SIGTERM and ends; the job then goes on from checkpoints.

favano "$@" --cluster auto &
favano=$!
trap 'ended=yes; kill -TERM "$favano"' TERM
wait "$favano"
code=$?
if [ -n "$ended" ]; then
    wait "$favano"
    code=$?
    [ "$code" -ne 0 ] && scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
