#SBATCH --nodes=2
#SBATCH --gres=gpu:8
#SBATCH --time=01:00:00
srun python train.py
