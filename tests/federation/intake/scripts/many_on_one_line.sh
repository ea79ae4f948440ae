#!/bin/bash
#SBATCH -N2 -n 16 -G 16 -c4 -t30 -Jquick -A vision -p gpu --qos=high -v -x node[03,07]
srun python train.py
