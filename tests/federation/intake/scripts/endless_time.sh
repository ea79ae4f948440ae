#!/bin/bash
#SBATCH --gres=gpu:8
#SBATCH --time=UNLIMITED
srun python train.py
