#!/bin/bash
#SBATCH --gpus-per-node=8 --time=60
#SBATCH --export="ALL,NCCL_DEBUG=WARN,NCCL_IB_HCA='mlx5_0,mlx5_1',PATH,EMPTY="
python train.py
