#!/bin/bash
#SBATCH --gres=gpu:8
#SBATCH --time=01:00:00
echo "[31mred[0m"
