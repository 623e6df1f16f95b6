"""One process of a script that is played in processes of their own: python -m tests.support.scripts FILE."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

from tests.support.scripts.world import World

HOUSE = Path(__file__).parents[3]


def play_in_processes(world: World, file: Path) -> World:
    """Play the script, each process of it in a real one; the file holds what outlives them."""
    file.write_bytes(pickle.dumps(world))
    while True:
        command = [sys.executable, "-W", "error", "-m", "tests.support.scripts", str(file)]
        done = subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        if done.stdout.strip() == "over":
            return pickle.loads(file.read_bytes())


def main(file: Path) -> None:
    world: World = pickle.loads(file.read_bytes())
    more = world.play_process()
    file.write_bytes(pickle.dumps(world))
    sys.stdout.write("more" if more else "over")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
