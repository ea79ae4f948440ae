#!/bin/bash
#SBATCH --nodes = 2
#SBATCH --gres=gpu:8
#SBATCH --time=60
srun python train.py
