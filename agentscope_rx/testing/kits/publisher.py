"""`check_publisher`: the rules of Reactive Streams 1.0.4 that apply to a cold Observable, by number.

A request is our demand: `request(n)` is a demand that is ready, none is one that is withheld; a subscriber without a
demand has requested everything. `cancel` is `dispose`. docs/reference/publisher-rules.md has the table of all rules.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from reactivex import Observable

from agentscope_rx.testing.kits.publisher_rules import HOT, NOT_APPLICABLE, RULES, Publisher, counted
from agentscope_rx.testing.kits.rules import Kit, KitReport, check_factory, name_of
from agentscope_rx.testing.record import DroppedErrors


def check_publisher(
    make: Callable[[], Observable[object]],
    *,
    failing: Callable[[], Observable[object]] | None = None,
    ahead: int | None = 0,
    repeatable: bool = True,
    concurrent: bool = True,
    endless: bool = False,
    hot: bool = False,
    name: str | None = None,
    real_time: bool = False,
) -> KitReport:
    """Check the Observables that `make` returns; each call of it makes a new one.

    | argument     | is                                                                                            |
    |--------------|-----------------------------------------------------------------------------------------------|
    | `failing`    | makes an Observable that ends with an error                                                   |
    | `ahead`      | the number of values that may still come after demand is withheld; None: it is not looked at  |
    | `repeatable` | False: it is for one subscription only                                                        |
    | `concurrent` | False: it has one run at a time, such as an agent's call                                      |
    | `endless`    | True: it has no terminal signal                                                               |
    | `hot`        | True: it belongs to the loop that it was made on, such as the events of a run that has begun  |

    The rules are those of Reactive Streams 1.0.4 that apply to a cold Observable, by their numbers, with two more:
    nothing runs before a subscription (`cold`), and one Observable runs on several loops (`loops`).
    """
    check_factory(make, "Observable", "lambda: my_stream()")
    if failing is not None:
        check_factory(failing, "Observable", "lambda: my_stream(fails=True)", "failing")
    kit = Kit(name or name_of(make), real_time=real_time)
    apply_rules(kit, Publisher(make, failing, ahead, repeatable, concurrent and repeatable, endless, hot))
    for number, reason in NOT_APPLICABLE.items():
        kit.skip(number, reason)
    return kit.report()


def apply_rules(kit: Kit, publisher: Publisher, prefix: str = "") -> None:
    """Check the rules, as part of another kit with a prefix, by which its report names them."""

    async def baseline(dropped: DroppedErrors) -> None:
        publisher.count = await counted(publisher)

    kit.check(f"{prefix}1.05", "it completes, and each run gives the same number of values", baseline)
    for rule in RULES:
        kit.check(f"{prefix}{rule.number}", rule.law, partial(rule.check, publisher))
    _second_loop(kit, publisher, prefix)


def _second_loop(kit: Kit, publisher: Publisher, prefix: str) -> None:
    """An Observable is bound to no loop: it runs on two, one after the other."""
    rule = f"{prefix}loops"
    if publisher.hot:
        kit.skip(rule, HOT)
        return
    if not publisher.repeatable:
        kit.skip(rule, "the Observable is for one subscription only")
        return
    source = publisher.make()

    async def again(dropped: DroppedErrors) -> None:
        await counted(publisher, source)

    kit.check(rule, "one Observable runs on a first loop", again)
    kit.check(f"{rule}, second", "and then on another loop", again)
