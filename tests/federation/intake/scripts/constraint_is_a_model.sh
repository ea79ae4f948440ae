#!/bin/bash
#SBATCH --gpus-per-node=8
#SBATCH --constraint="a100|h100"
#SBATCH --time=60
python train.py
