#!/bin/bash
#SBATCH --job-name="gromacs stmv"
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --ntasks-per-socket=4
#SBATCH --cpus-per-task=14
#SBATCH --gpus-per-node=8
#SBATCH --distribution=block:cyclic
#SBATCH --mem-bind=local
#SBATCH --gpu-bind=closest
#SBATCH --time=0:30:00
#SBATCH --mail-type=END,FAIL
#SBATCH --mail-user=mia@example.org

module load gcc openmpi cuda
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
srun gmx_mpi mdrun -s stmv.tpr -nb gpu -pme gpu
