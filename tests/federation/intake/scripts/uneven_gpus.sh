#!/bin/bash
#SBATCH --nodes=3
#SBATCH --gpus=16
#SBATCH --time=60
srun python train.py
