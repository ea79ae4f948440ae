#!/bin/sh
#SBATCH --cpus-per-task=32
#SBATCH --mem=64G
#SBATCH --time=02:00:00
python tokenize_corpus.py --workers 32
