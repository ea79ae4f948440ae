#!/bin/bash
#SBATCH --gpus-per-node=8
#SBATCH --mem=100G
#SBATCH --mem-per-cpu=4G
#SBATCH --time=60
python train.py
