"""An sbatch script sent as it is, run on real Slurm: the shape, the tasks, the variables."""

import pytest

from tests.live.slurm.books import agree
from tests.live.slurm.federation import Muster

pytestmark = pytest.mark.live

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=sixteen
#SBATCH --account=sbatch
#SBATCH --partition=no-such-partition
#SBATCH --nodes=16
#SBATCH --ntasks-per-node=8
#SBATCH --gres=gpu:h100:8
#SBATCH --cpus-per-task=2
#SBATCH --time=0-00:30
#SBATCH --distribution=cyclic
#SBATCH --export=GREETING=hello
#SBATCH --chdir={home}
#SBATCH --output=%x-%j.out

echo "$GREETING $SLURM_NTASKS $SLURM_DISTRIBUTION"
srun bash -c 'echo $SLURM_PROCID $SLURMD_NODENAME'
#SBATCH --nodes=1
"""


def test_a_script_runs_as_it_asks(muster: Muster) -> None:
    """Ranks go around the nodes, as srun finds the distribution in the variable that carries it."""
    team = muster.team("sbatch")
    home = muster.people["mia"].home
    answer = muster.mia.post(
        "/jobs/intake/sbatch",
        content=SCRIPT.format(home=home),
        headers={"Content-Type": "text/plain"},
    )
    assert answer.status_code == 201, answer.text
    taken = answer.json()
    assert taken["tenant"] == team
    assert [(w["code"], w["line"]) for w in taken["intake"]["warnings"]] == [
        ("directive_ignored", 17)
    ]
    assert [d["option"] for d in taken["intake"]["dropped"]] == ["--partition"]

    attempt = muster.until(taken["id"], "succeeded", within_s=90)["attempt"]
    assert (attempt["cluster"], len(attempt["nodes_seen"])) == ("alpha", 16)
    (output,) = home.glob("sixteen-*.out")
    first, *lines = output.read_text().splitlines()
    assert first == "hello 128 cyclic"
    ranks = {int(rank): node for rank, node in (line.split() for line in lines)}
    assert [ranks[rank] for rank in range(128)] == sorted(attempt["nodes"]) * 8
    (stay,) = agree(muster, team, [taken["id"]])[taken["id"]]
    assert (stay.nodes, stay.gpus, stay.user) == (16, 128, "mia")
