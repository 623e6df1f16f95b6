"""The werewolf example with players that vote oddly: each game ends, and says who has won."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from agentscope_rx.testing import call, run_virtual
from tests.pipeline.hub.parts import texts

EXAMPLE = Path(__file__).parents[3] / "examples" / "werewolf.py"

Vote = Callable[[str, Sequence[str]], object]
ANSWER, PLAYER, ENUM = "generate_response", "player", "enum"
NAMES = ["Ann", "Ben", "Cid", "Dora", "Eve", "Finn", "Gus"]
WOLVES = ("Ben", "Finn")


def game_of(vote: Vote, saves: object = False) -> Any:
    """A game whose players vote so, each as often as it is asked."""
    spec = spec_from_file_location("werewolf_example", EXAMPLE)
    assert spec is not None and spec.loader is not None
    example: Any = module_from_spec(spec)
    spec.loader.exec_module(example)

    def script(name: str) -> list[object]:
        def turn(request: Any) -> object:
            asked = next((each.parameters["properties"] for each in request.tools if each.name == ANSWER), None)
            if asked is None:
                return f"I am {name}."
            return call(ANSWER, save=saves) if "save" in asked else call(ANSWER, player=vote(name, asked[PLAYER][ENUM]))

        return [turn] * 200

    example.SCRIPT = {name: script(name) for name in NAMES}
    return example.Game()


def tied(name: str, among: Sequence[str]) -> str:
    """The next player, in a circle: each of them has one vote."""
    return NAMES[(NAMES.index(name) + 1) % len(NAMES)]


def against_wolves(name: str, among: Sequence[str]) -> str:
    return next((each for each in WOLVES if each in among), among[0])


ODD: dict[str, tuple[Vote, str, int]] = {
    "nobody that plays": (lambda name, among: "Zed", "nobody", 7),
    "always oneself": (lambda name, among: name, "nobody", 7),
    "one that is dead": (lambda name, among: "Gus", "nobody", 6),
    "no text": (lambda name, among: None, "nobody", 7),
    "the first one": (lambda name, among: among[0], "werewolves", 2),
    "the wolves": (against_wolves, "village", 3),
}


@pytest.mark.parametrize("votes", ODD)
def test_a_game_with_odd_votes_ends(votes: str):
    vote, winner, alive = ODD[votes]
    game = game_of(vote)
    assert run_virtual(game.play()) == winner
    assert len(game.alive) == alive


def test_after_a_tie_nobody_is_out(capsys: pytest.CaptureFixture[str]):
    game = game_of(tied)
    assert run_virtual(game.play()) == "nobody"
    assert game.alive == NAMES
    heard = run_virtual(texts(game.players["Ann"]))
    assert heard.count("Moderator: The vote is undecided: nobody is out.") == 10
    assert heard.count("Moderator: Nobody has died at night.") == 10


@pytest.mark.parametrize("saves", [True, "perhaps"])
def test_the_witch_saves_once_or_gives_no_answer(saves: object):
    game = game_of(against_wolves, saves)
    assert run_virtual(game.play()) == "village"
    assert len(game.alive) == (4 if saves is True else 3)
    assert game.can_save is (saves is not True)


def test_a_village_without_players_is_won_by_nobody():
    game = game_of(tied)
    game.village.delete(list(game.players.values()))
    assert game.winner() == "nobody"
