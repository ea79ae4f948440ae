#!/bin/bash
#SBATCH --nodelist=gpu[01-04]
#SBATCH --gres=gpu:8
#SBATCH --time=60
#SBATCH --reservation=maintenance
#SBATCH --licenses=matlab:1
srun python train.py
