"""Forty questions that one tool of the command line answers, over the files in `benchmarks/harbour`.

Each half was written before the embedded model was asked any of them. What the model is asked and shown may be tuned on
`TUNED`; the score that counts is that of `HELD_OUT`, which nobody may look at for that.
"""

from __future__ import annotations

from dataclasses import dataclass

LIST, READ, SEARCH, TIME = "list_directory", "read_file", "grep", "current_time"
CALCULATE = "calculate"
"""A tool that the command line no longer has. Its questions stay: the right answer to them is that there is none."""

_MONTH = "(January|February|March|April|May|June|July|August|September|October|November|December)"
_DATE = rf"\d{{1,2}} {_MONTH} 20\d\d"
_CLOCK = r"\d\d:\d\d"


@dataclass(frozen=True, slots=True)
class Question:
    """`tool` must be called, and no other; `observed` must be in what it gives, `fact` in the answer: patterns.

    `arguments`: a pattern that the call's arguments must match. A calculation is checked by its result alone.
    """

    text: str
    tool: str
    arguments: str
    observed: str
    fact: str


def _read(text: str, path: str, fact: str) -> Question:
    return Question(text, READ, path, fact, fact)


def _sum(text: str, result: str) -> Question:
    number = rf"(?<![\d.]){result}(?![\d.]*\d)"
    return Question(text, CALCULATE, "", f"= {number}$", number)


HELD_OUT = (
    _read("What is the name of the cook on the Aurora? It is in crew/cooks.txt.", r"crew/cooks\.txt", "Paolo Conti"),
    _read("How long is the ship in ferries/borealis.txt?", r"ferries/borealis\.txt", "175"),
    _read("Read notes/meeting.md and tell me who orders the ropes.", r"notes/meeting\.md", "Mirja"),
    _read("What does a bicycle cost according to prices.csv?", r"prices\.csv", r"bicycle,12\b|\b12 euros"),
    _read("Who looks after the files? See README.md.", r"README\.md", "Petra Lund"),
    _read("Which log level does config/settings.toml use?", r"config/settings\.toml", "warning"),
    Question("Which file speaks of a storm?", SEARCH, "(?i)storm", r"logs/march\.txt", r"logs/march\.txt"),
    Question("Look for 'pier 7' in all files.", SEARCH, "pier 7", r"notes/meeting\.md", r"notes/meeting\.md|Kiel"),
    Question("In which file is the word gangway used?", SEARCH, "gangway", r"notes/meeting\.md", r"notes/meeting\.md"),
    Question(
        "Find out where Tomas Berg is mentioned.", SEARCH, "Berg", r"borealis\.txt", r"borealis\.txt|captains\.md"
    ),
    Question("What files does the ferries folder contain?", LIST, "ferries", r"aurora\.txt", r"(?s)aurora.*borealis"),
    Question("Show me the files in config.", LIST, "config", r"lamps\.ini", r"(?s)lamps\.ini.*settings\.toml"),
    Question("List everything in this folder.", LIST, r"^\{\}$|\"\.?/?\"", r"prices\.csv", r"(?s)crew.*prices\.csv"),
    _sum("What is 913 - 487?", "426"),
    _sum("Multiply 64 by 25.", "1600"),
    _sum("What is the sum of 318 and 294?", "612"),
    _sum("A ticket costs 26 euros. How much do 7 tickets cost?", "182"),
    _sum("What is 2 to the power of 12?", "4096"),
    Question(
        "What time is it in New York now?", TIME, "(?i)new.york", "America/New_York", rf"{_CLOCK} America/New_York"
    ),
    Question("What is today's date?", TIME, "", _DATE, _DATE),
)

TUNED = (
    _read("Who is the captain of the ship in ferries/aurora.txt?", r"ferries/aurora\.txt", "Ingrid Solberg"),
    _read("What does notes/todo.txt say about paint?", r"notes/todo\.txt", "red paint"),
    _read("How many cars have room on the ferry in ferries/borealis.txt?", r"ferries/borealis\.txt", "140"),
    _read("When does the last boat leave? Look it up in timetable.txt.", r"timetable\.txt", "21:30"),
    _read("Which port does the file config/settings.toml set?", r"config/settings\.toml", "8080"),
    _read("What happened on 14 March according to logs/march.txt?", r"logs/march\.txt", "storm"),
    Question("Which file mentions the lighthouse?", SEARCH, "lighthouse", r"notes/todo\.txt", r"notes/todo\.txt"),
    Question(
        "Search the files for 'life jackets'.", SEARCH, "life jackets", r"notes/todo\.txt", r"notes/todo\.txt|deck 4"
    ),
    Question("Where is Mirja Kallio mentioned?", SEARCH, "Mirja|Kallio", r"crew/captains\.md", r"crew/captains\.md"),
    Question("Find the word whale in my notes.", SEARCH, "whale", r"logs/march\.txt", r"logs/march\.txt|21 March"),
    Question("Which files are in the crew folder?", LIST, "crew", r"cooks\.txt", r"(?s)captains\.md.*cooks\.txt"),
    Question("List the files in notes.", LIST, "notes", r"todo\.txt", r"(?s)meeting\.md.*todo\.txt"),
    Question("What is in the logs directory?", LIST, "logs", r"april\.txt", r"(?s)april\.txt.*march\.txt"),
    _sum("What is 48 * 17?", "816"),
    _sum("How much is 1250 divided by 8?", r"156\.25"),
    _sum("What is 15% of 240?", "36"),
    _sum("A crate weighs 35 kg. How many kg do 12 crates weigh?", "420"),
    _sum("What is (120 + 45) / 3?", "55"),
    Question("What time is it in Tokyo?", TIME, "(?i)tokyo", "Asia/Tokyo", rf"{_CLOCK} Asia/Tokyo"),
    Question("What day of the week is it today?", TIME, "", "day", r"(Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"),
)
