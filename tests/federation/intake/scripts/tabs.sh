#!/bin/bash
#SBATCH	--nodes=2
#SBATCH	--gres	gpu:8	# eight
#SBATCH	-t	1:00:00

	# a comment, indented
srun python train.py
