#!/bin/bash
#SBATCH --gpus-per-node=8 --time=60
#SBATCH --begin=2026-12-24T18:00
#SBATCH --deadline=2026-12-31
python train.py
