#!/bin/bash
#SBATCH --account=physics
#SBATCH --gpus-per-node=8 --time=60
python train.py
