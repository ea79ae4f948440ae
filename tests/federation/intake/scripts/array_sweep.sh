#!/bin/bash
#SBATCH --job-name=sweep
#SBATCH --array=0-31%8
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=8
#SBATCH --time=06:00:00
#SBATCH --output=sweep_%A_%a.out

LRS=(1e-5 3e-5 1e-4 3e-4)
python train.py --lr ${LRS[$SLURM_ARRAY_TASK_ID % 4]} --seed $SLURM_ARRAY_TASK_ID
