#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=64
#SBATCH --time=24:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=B:TERM@120
#
#   sbatch several_nodes.sh compare --dataset cifar10 --seeds 100 --device cuda --out results
#
# Starts a Ray cluster on the nodes of a job, for the time of a command. --out must be on a file
# system that the first node has after a restart, too.

# Only processes of this job may use the ports of its cluster.
export RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$(python -c 'import secrets; print(secrets.token_hex(32))')
export RAY_AUTH_TOKEN
export RAY_health_check_initial_delay_ms=1000 RAY_health_check_period_ms=1000
export RAY_health_check_timeout_ms=1000 RAY_health_check_failure_threshold=3
export RAY_worker_niceness=0 RAY_USAGE_STATS_ENABLED=0

first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address="$first:$((20000 + SLURM_JOB_ID % 10000))"
own=(--num-cpus "$SLURM_CPUS_PER_TASK" --num-gpus "${SLURM_GPUS_ON_NODE:-0}" --block)
trap 'kill $(jobs -p) 2> /dev/null' EXIT

srun --overlap --nodes=1 --ntasks=1 --nodelist="$first" \
    ray start --head --port "${address##*:}" --include-dashboard false \
    --temp-dir "${TMPDIR:-/tmp}/ray-$SLURM_JOB_ID" "${own[@]}" > ray-head.log 2>&1 &
until ray health-check --address "$address" 2> /dev/null; do sleep 2; done
if [ "$SLURM_JOB_NUM_NODES" -gt 1 ]; then
    others=$((SLURM_JOB_NUM_NODES - 1))
    srun --overlap --nodes="$others" --ntasks="$others" --exclude="$first" \
        ray start --address "$address" "${own[@]}" > ray-nodes.log 2>&1 &
fi
python - "$address" "$SLURM_JOB_NUM_NODES" <<'END'
import sys, time, ray
ray.init(address=sys.argv[1], logging_level=50)
until = time.monotonic() + 300
while len(ray.nodes()) < int(sys.argv[2]) and time.monotonic() < until:
    time.sleep(1)
END

favano "$@" --cluster "$address" &
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
