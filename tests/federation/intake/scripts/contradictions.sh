#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks=2
#SBATCH --gpus-per-node=8
#SBATCH --time=60
srun python train.py
