#!/bin/bash
#SBATCH --gres=shard:4
#SBATCH --time=60
python train.py
