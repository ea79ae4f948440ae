#!/bin/bash
#SBATCH --gres=gpu:8
#SBATCH --tim=01:00:00
srun python train.py
