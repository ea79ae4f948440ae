#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gres=gpu:8
#SBATCH --time=01:00:00
#SBATCH --nodes=2
#SBATCH --requeue
#SBATCH --no-requeue
python train.py
