#!/bin/bash
#SBATCH --gpus-per-node=8
#SBATCH --constraint=[rack1|rack2]&ib
#SBATCH --time=60
python train.py
