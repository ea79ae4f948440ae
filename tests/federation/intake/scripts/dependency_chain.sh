#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
#SBATCH --time=04:00:00
#SBATCH --dependency=afterok:12345
#SBATCH --kill-on-invalid-dep=yes
srun python finetune.py
