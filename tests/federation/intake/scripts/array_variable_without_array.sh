#!/bin/bash
#SBATCH --gres=gpu:1
#SBATCH --time=06:00:00
python train.py --seed ${SLURM_ARRAY_TASK_ID:-0}
