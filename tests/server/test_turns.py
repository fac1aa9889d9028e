"""One answer at a time, in order, with room for so many and no more."""

import threading

import pytest

from localspec.server.turns import Full, Left, Place, Turns
from tests.server.serving import until


def taking(turns: Turns, place: Place, name: str, order: list[str], hold: threading.Event) -> threading.Thread:
    def work() -> None:
        try:
            with turns.turn(place):
                order.append(name)
                assert hold.wait(20)
        except Left:
            order.append(f"{name} left")

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_turns_come_in_the_order_of_asking_and_the_owner_goes_first() -> None:
    turns, order, holds = Turns(), [], [threading.Event() for _ in range(4)]
    threads = [taking(turns, turns.enter(), "one", order, holds[0])]
    until(lambda: turns.taken, "the first has its turn")
    threads += [taking(turns, turns.enter(), name, order, holds[at]) for at, name in ((1, "two"), (2, "three"))]
    threads += [taking(turns, turns.enter(first=True), "owner", order, holds[3])]
    assert turns.waiting == 3
    for hold in (holds[0], holds[3], holds[1], holds[2]):
        hold.set()
    for thread in threads:
        thread.join(20)
    assert order == ["one", "owner", "two", "three"]
    assert (turns.waiting, turns.taken) == (0, False)


def test_who_leaves_loses_the_place_and_holds_nobody_up() -> None:
    turns, order, holds = Turns(), [], [threading.Event() for _ in range(3)]
    threads = [taking(turns, turns.enter(), "one", order, holds[0])]
    until(lambda: turns.taken, "the first has its turn")
    leaver = turns.enter()
    threads += [taking(turns, leaver, "two", order, holds[1]), taking(turns, turns.enter(), "three", order, holds[2])]
    leaver.leave()
    until(lambda: "two left" in order, "the second left while it waited")
    for hold in holds:
        hold.set()
    for thread in threads:
        thread.join(20)
    assert order == ["one", "two left", "three"]


def test_more_than_the_limit_are_refused_but_the_owner_never() -> None:
    turns, hold = Turns(limit=2), threading.Event()
    order: list[str] = []
    thread = taking(turns, turns.enter(), "one", order, hold)
    until(lambda: turns.taken, "the first has its turn")
    places = [turns.enter(), turns.enter()]
    with pytest.raises(Full):
        turns.enter()
    turns.enter(first=True).leave()
    for place in places:
        place.leave()
    assert turns.waiting == 0
    hold.set()
    thread.join(20)


def test_a_turn_that_ends_with_an_error_is_over() -> None:
    turns = Turns()
    with pytest.raises(ZeroDivisionError), turns.turn(turns.enter()):
        raise ZeroDivisionError
    with turns.turn(turns.enter()):
        assert turns.taken
