#!/bin/bash
#SLURM SUBMIT SCRIPT
#SBATCH --nodes=1 --gres=gpu:2 --time=60
srun python train.py
