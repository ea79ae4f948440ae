#!/bin/bash
# The resources
#SBATCH --nodes=2

# ... eight cards in each
#SBATCH --gpus-per-node=8
##SBATCH --time=99:00:00
 #SBATCH --time=98:00:00
#SBATCH --time=10:00:00      # long enough
#
python train.py
