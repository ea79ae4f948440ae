#!/bin/bash
#SBATCH --gpus-per-node=8 --time=60
#SBATCH --export=ALL,NCCL_IB_HCA='mlx5_0,mlx5_1'
python train.py
