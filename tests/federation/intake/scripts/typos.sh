#!/bin/bash
#SBATCH --node=2
#SBATCH --ntask-per-node=8
#SBATCH --gpu-per-node=8
#SBATCH --walltime=01:00:00
#SBATCH --cpu-bind=none
#SBATCH -y
srun python train.py
