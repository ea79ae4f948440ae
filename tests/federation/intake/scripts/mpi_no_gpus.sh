#!/bin/bash
#SBATCH -J lammps-cpu
#SBATCH -N 4
#SBATCH --ntasks-per-node=128
#SBATCH -t 24:00:00
#SBATCH -p cpu

mpirun -np 512 lmp -in in.lj
