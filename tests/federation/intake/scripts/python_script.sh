#!/usr/bin/env python3
#SBATCH --gpus=1
#SBATCH --time=00:20:00
import torch

print(torch.cuda.get_device_name())
