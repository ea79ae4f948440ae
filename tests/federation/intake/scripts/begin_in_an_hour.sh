#!/bin/bash
#SBATCH --gpus-per-node=8 --time=60
#SBATCH --begin=now+1hour
#SBATCH --nice=100
python train.py
