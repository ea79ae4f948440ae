#!/usr/bin/env bash
#SBATCH -J gpt-175b
#SBATCH -N 32
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=h100:8
#SBATCH -c 96
#SBATCH --mem=900G
#SBATCH -t 2-00:00:00
#SBATCH --switches=1@60:00
#SBATCH --signal=USR1@300
#SBATCH --requeue
#SBATCH -o logs/%j/out.log -e logs/%j/err.log

export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n1) MASTER_PORT=6000
LAUNCHER="torchrun --nproc_per_node 8 --nnodes $SLURM_NNODES --node_rank \$SLURM_PROCID --master_addr $MASTER_ADDR --master_port $MASTER_PORT"
CMD="pretrain_gpt.py $GPT_ARGS $DATA_ARGS"
srun --jobid $SLURM_JOBID bash -c "$LAUNCHER $CMD"
