#!/bin/bash
#SBATCH --nodes=4
#SBATCH --gpus=16
#SBATCH --gpus-per-node=8
#SBATCH --time=60
srun python train.py
