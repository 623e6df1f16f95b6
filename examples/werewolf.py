"""A werewolf game of seven: hubs within a hub, secret votes, and players that die, who hear nothing from then on.

Look at: "n hear" in each line, and at the end what Gus, who died first, has heard. The village is a `MsgHub` of all who
live. At night it is quiet (`set_auto_broadcast(False)`): the werewolves meet in a hub of their own, witch and seer act
alone. The moderator is this program: it announces, and counts the votes. A player that names no living player, however
often it is asked, does not vote; after a tie nobody dies; a game ends at last.

    python examples/werewolf.py
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/werewolf.py
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Sequence

from pydantic import BaseModel

from agentscope_rx import Msg, MsgHub, ReActAgent
from agentscope_rx.errors import StructuredOutputError
from agentscope_rx.events import HubEvent
from agentscope_rx.models import ChatModel, MultiAgentModel, get_model
from agentscope_rx.reactive import Flow, catch, just, merge_ordered, throw
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.testing.scripted_model import Turn

ROLES = {
    "Ann": "villager",
    "Ben": "werewolf",
    "Cid": "villager",
    "Dora": "seer",
    "Eve": "witch",
    "Finn": "werewolf",
    "Gus": "villager",
}
MOST_DAYS = 10
"""After so many days nobody has won."""
RULES = (
    "You are {name}, a player in a game of werewolf, and your role is {role}. The players are {players}; two are "
    "werewolves. At night the werewolves kill one player, the witch may save this one once, and the seer learns the "
    "role of one player. By day all discuss, and vote one player out. The village wins when both werewolves are out; "
    "the werewolves when they are as many as the others. Do not give your role away without need. Speak in two "
    "sentences at most."
)


class Choice(BaseModel):
    player: str


class Rescue(BaseModel):
    save: bool


def script(*lines: str) -> list[Turn]:
    """Turns of a player: what it says; "> Gus" is the choice of a player, "> no" that of the witch."""
    choices = {line: line.removeprefix("> ") for line in lines if line.startswith("> ")}
    answers = {line: {"save": False} if name == "no" else {"player": name} for line, name in choices.items()}
    return [call("generate_response", **answers[line]) if line in answers else line for line in lines]


SCRIPT = {
    "Ann": script("Finn is so quiet.", "> Finn", "Dora named Ben. I trust her.", "> Ben"),
    "Ben": script("Let us take Gus.", "> Gus", "It was Ann.", "> Ann", "Dora knows.", "> Dora", "Not me!", "> Ann"),
    "Cid": script("I do not know.", "> Finn", "Ben, then.", "> Ben"),
    "Dora": script("> Finn", "I am the seer: Finn is a werewolf, and Ben defends him.", "> Finn", "> Ben"),
    "Eve": script("> no", "I believe Dora.", "> Finn", "> no", "Ben.", "> Ben"),
    "Finn": script("Agreed, Gus.", "> Gus", "I sleep badly, that is all.", "> Ann"),
    "Gus": script(),
}


class Game:
    """The moderator: knows who lives, and lets the hub know."""

    def __init__(self) -> None:
        self.players = {name: self.player(name, role) for name, role in ROLES.items()}
        self.village = MsgHub(self.players.values(), name="village")
        self.can_save = True

    def player(self, name: str, role: str) -> ReActAgent:
        model = os.environ.get("AGENTSCOPE_RX_MODEL")
        inner: ChatModel = get_model(model) if model else ScriptedModel(*SCRIPT[name])
        prompt = RULES.format(name=name, role=role, players=", ".join(ROLES))
        return ReActAgent(name, MultiAgentModel(inner), prompt)

    @property
    def alive(self) -> list[str]:
        return [player.name for player in self.village.participants]

    def those(self, role: str) -> list[ReActAgent]:
        return [self.players[name] for name in self.alive if ROLES[name] == role]

    # --- what the moderator asks and says ---

    def choice(self, voter: ReActAgent, question: str, among: Sequence[str]) -> Flow[Msg | None]:
        """A secret answer: the name of a player; None from one that names no other one of them."""
        names = {"type": "string", "enum": [name for name in among if name != voter.name]}
        schema = {"type": "object", "properties": {"player": names}, "required": ["player"]}
        return voter.call(moderator(question), output=schema).pipe(catch(no_answer))

    async def vote(self, hub: MsgHub, voters: Sequence[ReActAgent], question: str, among: Sequence[str]) -> str | None:
        """All vote at once, and none hears the others. None after a tie, or without a vote."""
        hub.set_auto_broadcast(False)
        asked = [self.choice(voter, question, among) for voter in voters]
        votes = Counter[str]()
        await merge_ordered(asked).do(lambda reply: votes.update(chosen(reply)))
        hub.set_auto_broadcast(True)
        print(f"  {hub.name}: {dict(votes)}")
        most = [player for player in votes if votes[player] == max(votes.values())]
        return most[0] if len(most) == 1 else None

    async def dies(self, name: str | None, why: str, else_said: str) -> None:
        if name is None:
            await self.village.broadcast(moderator(else_said))
            return
        await self.village.broadcast(moderator(f"{name} {why}."))
        self.village.delete(self.players[name])

    # --- a night and a day ---

    async def night(self) -> str | None:
        """Who is killed, if anyone."""
        self.village.set_auto_broadcast(False)
        wolves = self.those("werewolf")
        async with MsgHub(wolves, moderator("Werewolves, whom do you kill? Discuss."), name="den") as den:
            den.events.subscribe(show)
            for wolf in wolves:
                await wolf.call()
            prey = [name for name in self.alive if ROLES[name] != "werewolf"]
            victim = await self.vote(den, wolves, "Whom do you kill?", prey)
        for seer in self.those("seer"):
            for seen in chosen(await self.choice(seer, "Whose role do you want to know?", self.alive)):
                await seer.observe(moderator(f"{seen} is a {ROLES[seen]}."))
        for witch in self.those("witch") if self.can_save and victim else ():
            asked = witch.call(moderator(f"{victim} is to die. Do you save {victim}?"), output=Rescue)
            reply = await asked.pipe(catch(no_answer))
            if reply is not None and reply.structured(Rescue).save:
                self.can_save = False
                return None
        return victim

    async def day(self) -> str | None:
        """Who is voted out, if anyone."""
        self.village.set_auto_broadcast(True)
        speakers = self.village.participants
        for player in speakers:
            await player.call()
        return await self.vote(self.village, [self.players[name] for name in self.alive], "Who is out?", self.alive)

    def winner(self) -> str | None:
        wolves = len(self.those("werewolf"))
        if not self.alive:
            return "nobody"
        return "village" if not wolves else "werewolves" if 2 * wolves >= len(self.alive) else None

    async def play(self) -> str:
        async with self.village:
            self.village.events.subscribe(show)
            await self.village.broadcast(moderator("Seven players live in the village. The night begins."))
            for _ in range(MOST_DAYS):
                await self.dies(await self.night(), "was found dead in the morning", "Nobody has died at night.")
                if found := self.winner():
                    return found
                await self.dies(await self.day(), "was voted out", "The vote is undecided: nobody is out.")
                if found := self.winner():
                    return found
                await self.village.broadcast(moderator("The night begins."))
            return "nobody"


def moderator(text: str) -> Msg:
    return Msg.user(text, name="Moderator")


def no_answer(error: Exception) -> Flow[None]:
    """Who gives no valid answer gives none; other errors end the game."""
    return just(None) if isinstance(error, StructuredOutputError) else throw(error)


def chosen(reply: Msg | None) -> list[str]:
    """The player that is named, if any."""
    return [] if reply is None else [reply.structured(Choice).player]


def show(event: HubEvent) -> None:
    if event.message is not None:
        print(f"  {event.hub}, {len(event.heard_by)} hear: {event.message.name}: {event.message.text}")


async def main() -> None:
    game = Game()
    print("won by the", await game.play())
    for name, player in game.players.items():
        heard = [message.text for message in await player.memory.get() if message.name != name]
        print(f"{name} ({ROLES[name]}) has heard {len(heard)} messages, the last: {heard[-1]}")


if __name__ == "__main__":
    asyncio.run(main())
