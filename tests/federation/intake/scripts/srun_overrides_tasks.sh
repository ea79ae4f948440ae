#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --time=24:00:00
srun --ntasks=$SLURM_NNODES --ntasks-per-node=1 torchrun --nnodes=4 --nproc-per-node=8 \
  --rdzv-endpoint=$MASTER_ADDR:29400 train.py
