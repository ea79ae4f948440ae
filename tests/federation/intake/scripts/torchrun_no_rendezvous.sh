#!/bin/bash
#SBATCH --nodes=8
#SBATCH --gres=gpu:8
#SBATCH --time=08:00:00
srun torchrun --nnodes=8 --nproc-per-node=8 train.py
