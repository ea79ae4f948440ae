#!/bin/bash
#SBATCH --nodes=1
#SBATCH --gres=gpu:8
set -euo pipefail
#SBATCH --time=12:00:00
#SBATCH --mem=500G
python train.py
