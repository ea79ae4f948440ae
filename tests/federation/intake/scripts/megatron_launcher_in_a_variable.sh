#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --gres=gpu:a100:8
#SBATCH --cpus-per-task=8
#SBATCH --time=12:00:00
#SBATCH --hint=nomultithread

export LAUNCHER="python -u -m torch.distributed.run --nproc_per_node 8 --nnodes 4 --rdzv_endpoint $HOSTNAME:6000"
export CMD="pretrain.py --bf16"
clear; srun bash -c "$LAUNCHER --node_rank $SLURM_PROCID $CMD" 2>&1 | tee main_log.txt
