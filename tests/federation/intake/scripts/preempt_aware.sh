#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
#SBATCH --time=24:00:00
#SBATCH --signal=B:TERM@180
#SBATCH --requeue
#SBATCH --open-mode=append

trap 'echo saving; kill -USR1 "$child"; wait "$child"' TERM
srun python train.py --resume auto &
child=$!
wait "$child"
