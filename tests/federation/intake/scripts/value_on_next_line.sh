#!/bin/bash
#SBATCH --nodes
#SBATCH 2
#SBATCH --gpus-per-node=8 --time 60
srun python train.py
