#!/bin/bash
#PBS -l select=2:ngpus=8
#SBATCH --gpus-per-node=8 --time=60
python train.py
