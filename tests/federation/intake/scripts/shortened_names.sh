#!/bin/bash
#SBATCH --job="short names" --gres=gpu:8
#SBATCH --ntasks-per-n=8
#SBATCH --time=01:00:00
srun python train.py
