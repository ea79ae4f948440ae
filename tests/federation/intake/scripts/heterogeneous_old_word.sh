#!/bin/bash
#SBATCH --nodes=1 --gres=gpu:8 --time=60
#SBATCH packjob
#SBATCH --nodes=4
srun --pack-group=0,1 python train.py
