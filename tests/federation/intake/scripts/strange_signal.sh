#!/bin/bash
#SBATCH --gpus-per-node=8 --time=60
#SBATCH --signal=KILL@60
python train.py
