#!/bin/bash
#SBATCH --gres=gpu:v100:4
#SBATCH --time=60
python train.py
