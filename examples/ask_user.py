"""A model asks the user, and waits for an answer among its options.

Look at: `questions_of(reply)`. The run is suspended with the question as data, which a terminal, a web page or a chat
shows; "Tomorrow", which fits no option, is refused before it reaches the model.

    python examples/ask_user.py              the user's answers are in the script, too
    python examples/ask_user.py --terminal   you are asked
    AGENTSCOPE_RX_MODEL=openai:gpt-5-mini python examples/ask_user.py --terminal
"""

from __future__ import annotations

import asyncio
import os
import sys

from agentscope_rx import Msg, ReActAgent
from agentscope_rx.errors import InvalidInputError
from agentscope_rx.testing import ScriptedModel, call
from agentscope_rx.tools import UserQuestion, ask_user, questions_of

ANSWERS = ["Tomorrow", "saturday", "No nuts, please."]


def ask(question: UserQuestion) -> Msg:
    """Ask until the answer fits."""
    print(question.text, *([f"({' / '.join(question.options)})"] if question.options else []))
    while True:
        # (a real model may ask for more: then the first option)
        prepared = ANSWERS.pop(0) if ANSWERS else (*question.options, "As you like.")[0]
        answer = input("> ") if "--terminal" in sys.argv else prepared
        try:
            found = question.answer(answer)
        except InvalidInputError as error:
            print(f"  {error}")
        else:
            print(f"  answered: {found.tool_results[0].text}")
            return found


async def main() -> None:
    questions = [
        call("ask_user", question="Which day?", options=["Friday", "Saturday"], allow_free_text=False),
        call("ask_user", question="Anything that you do not eat?"),
    ]
    script = ScriptedModel(questions, "A table on Saturday, and no nuts.")
    model = os.environ.get("AGENTSCOPE_RX_MODEL") or script
    agent = ReActAgent("Waiter", model, "You take bookings. Ask what you need to know.", tools=[ask_user])
    reply = await agent.call("A table for two, please.")
    while waiting := questions_of(reply):
        reply = await agent.call([ask(question) for question in waiting])
    print(f"{reply.name}: {reply.text}")


if __name__ == "__main__":
    asyncio.run(main())
