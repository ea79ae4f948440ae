#!/bin/bash
#SBATCH --nodes=1 --gres=gpu:8 --time=60
#SBATCH hetjob
#SBATCH --nodes=4 --gres=gpu:4
srun --het-group=0,1 python train.py
