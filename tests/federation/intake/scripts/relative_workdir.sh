#!/bin/bash
#SBATCH --gpus-per-node=8 --time=60
#SBATCH --chdir=runs/7
python train.py
