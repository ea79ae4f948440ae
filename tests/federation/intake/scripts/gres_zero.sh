#!/bin/bash
#SBATCH --gres=gpu:0
#SBATCH --time=10
nvidia-smi
