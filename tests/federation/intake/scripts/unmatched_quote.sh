#!/bin/bash
#SBATCH --job-name="half
#SBATCH --gres=gpu:8
#SBATCH --time=60
srun python train.py
