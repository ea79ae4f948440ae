#!/bin/bash
#SBATCH --gpus-per-node=8 --time=60
#SBATCH --test-only
#SBATCH --wrap="hostname"
hostname
