#!/bin/bash
#SBATCH --gpus-per-node=8 --time=10
#SBATCH --signal=USR1@900
python train.py
