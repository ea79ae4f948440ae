#!/bin/bash
#SBATCH --gpus-per-node=8 --time=60
#SBATCH --export=WANDB_API_KEY,HOME
python train.py
