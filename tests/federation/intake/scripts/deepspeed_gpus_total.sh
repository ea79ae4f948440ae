#!/bin/bash
#SBATCH --gpus=32
#SBATCH --nodes=4
#SBATCH --ntasks-per-gpu=1
#SBATCH --cpus-per-gpu=10
#SBATCH --time=600
srun python train.py --deepspeed
