#!/bin/bash
#SBATCH --gres=gpu:4
#SBATCH --time=08:00:00
torchrun --standalone --nproc-per-node=4 train.py
