#!/bin/bash
# One task a node, on all of the gang's nodes. With a task for each GPU:
#   srun --kill-on-bad-exit=1 --ntasks=$WORLD_SIZE --ntasks-per-node=$GPUS_PER_NODE python3 train.py 100000
srun --kill-on-bad-exit=1 python3 train.py "${STEPS:-100000}"
