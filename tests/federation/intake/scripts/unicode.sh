#!/bin/bash
# Füße über Straßen: 訓練 🚀
#SBATCH --job-name="größe 訓練 🚀"
#SBATCH --comment="übermütig – für Müller"
#SBATCH --gres=gpu:8
#SBATCH --time=01:00:00
echo "Grüße, 世界"
python train.py
