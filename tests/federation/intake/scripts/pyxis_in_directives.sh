#!/bin/bash
#SBATCH --nodes=2
#SBATCH --gpus-per-node=8
#SBATCH --time=30
#SBATCH --container-image=nvcr.io#nvidia/pytorch:24.01-py3
#SBATCH --container-mounts=/data:/data

torchrun --nproc-per-node=8 train.py
