#!/bin/bash
#SBATCH -A acme/vision
#SBATCH -p batch
#SBATCH -N 8
#SBATCH -t 04:00:00
#SBATCH -J vision-nemo:llama3-8b
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --exclusive
#SBATCH --mem=0
#SBATCH --overcommit
#SBATCH --open-mode=append

srun --output results/log-%x_%j.out --container-image="nemo.sqsh" --container-mounts="/lustre:/lustre" \
  bash -c "
  cd /opt/NeMo; git rev-parse HEAD
  python3 -u examples/nlp/language_modeling/megatron_gpt_pretraining.py --config-path=/results --config-name=hparams.yaml"
