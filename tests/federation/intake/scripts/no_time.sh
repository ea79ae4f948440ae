#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gres=gpu:8
srun python train.py
