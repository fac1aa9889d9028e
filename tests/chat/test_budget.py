"""K5: what goes into a prompt, what is dropped, by how much it is too long."""

from hypothesis import given
from hypothesis import strategies as st

from localspec.chat.budget import Budget, fit, room_wanted
from localspec.chat.turns import Turn

SYSTEM = 10


def chat(*sizes: int) -> tuple[list[Turn], list[int]]:
    """Turns that begin with a question and end with one, and their tokens."""
    return [Turn("user" if at % 2 == 0 else "assistant", "x") for at in range(len(sizes))], list(sizes)


def fitted(sizes: list[int], context: int, room: int = 20) -> Budget:
    turns, tokens = chat(*sizes)
    return fit(turns, lambda dropped: SYSTEM + sum(tokens[dropped:]), context, room)


def test_everything_fits() -> None:
    assert fitted([10, 20, 10], 100) == Budget(100, 50)
    assert fitted([10, 20, 10], 100).words() == ""


def test_the_oldest_exchanges_go_first() -> None:
    budget = fitted([10, 40, 10, 40, 10], 100)
    assert (budget.dropped, budget.tokens, budget.dropped_tokens) == (2, 70, 50)
    assert "oldest 2 messages (50 tokens)" in budget.words()


def test_the_newest_question_always_stays() -> None:
    budget = fitted([10, 40, 70], 100)
    assert (budget.dropped, budget.tokens) == (2, 80)


def test_a_question_may_use_the_answers_room_when_it_must() -> None:
    budget = fitted([10, 40, 85], 100)
    assert (budget.dropped, budget.tokens, budget.too_long_by) == (2, 95, 0)


def test_by_how_much_it_is_too_long() -> None:
    budget = fitted([10, 40, 100], 100)
    assert budget.too_long_by == 11
    assert "11 tokens too long for the context of 100" in budget.words()
    assert fitted([90], 100).too_long_by == 1
    assert fitted([89], 100).too_long_by == 0


def test_the_room_for_an_answer() -> None:
    assert room_wanted(4096, None) == 256
    assert room_wanted(4096, 2000) == 1024
    assert room_wanted(4096, 50) == 50
    assert room_wanted(64, None) == 16
    assert room_wanted(2, None) == 1


@given(st.lists(st.integers(1, 60), min_size=1, max_size=25), st.integers(20, 200))
def test_it_drops_as_little_as_it_can(sizes: list[int], context: int) -> None:
    if len(sizes) % 2 == 0:
        sizes = sizes[1:]
    room = room_wanted(context, None)
    budget = fitted(sizes, context, room)
    assert budget.dropped % 2 == 0
    if budget.too_long_by:
        assert SYSTEM + sizes[-1] + 1 - context == budget.too_long_by
    else:
        assert budget.tokens == SYSTEM + sum(sizes[budget.dropped :]) < context
        if budget.dropped and budget.dropped < len(sizes) - 1:
            assert SYSTEM + sum(sizes[budget.dropped - 2 :]) + room > context
