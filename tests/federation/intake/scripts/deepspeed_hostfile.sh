#!/bin/bash
#SBATCH --job-name=ds-zero3
#SBATCH --nodes=2
#SBATCH --ntasks=2
#SBATCH --gpus-per-task=8
#SBATCH --cpus-per-task=64
#SBATCH --mem-per-gpu=96G
#SBATCH --time=1-12

scontrol show hostnames "$SLURM_JOB_NODELIST" | sed 's/$/ slots=8/' > hostfile
deepspeed --hostfile hostfile --num_gpus 8 train.py --deepspeed --deepspeed_config ds_zero3.json
