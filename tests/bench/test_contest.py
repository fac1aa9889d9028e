"""Comparing with a peer's best setting: chosen on some rounds, judged on the others."""

import pytest

from localspec.bench.contest import OURS, PLAIN, Answer, Contest, Verdict
from localspec.bench.workloads import Task
from tests.bench.answers import CHAT, EDIT_A, EDIT_B

A, B = "@a", "@b"


def answers(task: Task, way: str, *speeds: float) -> list[Answer]:
    """One answer a round, of 10 tokens at that speed."""
    return [Answer(task, way, round_, 10, 10 / speed) for round_, speed in enumerate(speeds) if speed]


def contest(*rows: tuple[Task, str, tuple[float, ...]]) -> Contest:
    return Contest([A, B], [answer for task, way, speeds in rows for answer in answers(task, way, *speeds)])


def test_a_ratio_is_the_median_within_rounds() -> None:
    """Not of medians: the machine's speed changes from round to round, for both."""
    held = contest((CHAT, OURS, (20, 2, 90)), (CHAT, PLAIN, (10, 1, 30)))
    assert held.ratio(OURS, PLAIN, CHAT, held.rounds) == pytest.approx(2.0)
    assert held.ratio(OURS, PLAIN, CHAT, [2]) == pytest.approx(3.0)
    assert held.ratio(OURS, A, CHAT, held.rounds) is None


def test_a_round_without_a_partner_counts_for_nothing() -> None:
    held = contest((CHAT, OURS, (20, 40, 40)), (CHAT, PLAIN, (10, 0, 10)))
    assert held.ratio(OURS, PLAIN, CHAT, held.rounds) == pytest.approx(3.0)


def test_categories_weigh_alike_whatever_their_number_of_prompts() -> None:
    held = contest(
        (EDIT_A, OURS, (40,)), (EDIT_A, PLAIN, (10,)), (EDIT_B, OURS, (10,)), (EDIT_B, PLAIN, (10,)),
        (CHAT, OURS, (80,)), (CHAT, PLAIN, (10,)),
    )  # fmt: skip
    assert held.category_ratio(OURS, PLAIN, "code-edit") == pytest.approx(2.0)
    assert held.overall(OURS, PLAIN) == pytest.approx(4.0)


def test_means_beside_each_other_are_of_the_same_categories() -> None:
    """b fails after the first; the last category was stopped before we answered it."""
    held = contest(
        (EDIT_A, OURS, (40,)), (EDIT_A, PLAIN, (10,)), (EDIT_A, A, (10,)), (EDIT_A, B, (90,)),
        (CHAT, OURS, (10,)), (CHAT, PLAIN, (10,)), (CHAT, A, (10,)),
        (Task("m", "math", "1 + 1"), PLAIN, (10,)),
    )  # fmt: skip
    assert held.overall(OURS, PLAIN) == pytest.approx(2.0)
    assert held.overall(A, PLAIN) == pytest.approx(1.0)
    assert held.overall(B, PLAIN) is None


def test_the_best_setting_is_judged_on_rounds_it_was_not_chosen_on() -> None:
    """Both settings are as fast as we but for one lucky round each: a took round 0, b round 1. Chosen for its luck each
    is judged without it, and the ratio is 1; keeping the best of all rounds would say .5."""
    held = contest((CHAT, OURS, (10, 10)), (CHAT, A, (20, 10)), (CHAT, B, (10, 20)))
    assert held.against_best("chat") == Verdict(pytest.approx(1.0), (A, B))  # type: ignore[arg-type]


def test_both_halves_count_as_ratios() -> None:
    """Five rounds: 0, 2, 4 choose and 1, 3 judge, then the other way round."""
    held = contest((CHAT, OURS, (40, 10, 40, 10, 40)), (CHAT, A, (10,) * 5), (CHAT, B, (1,) * 5))
    verdict = held.against_best("chat")
    assert verdict is not None
    assert verdict.chosen == (A, A)
    assert verdict.ratio == pytest.approx((1 * 4) ** 0.5)


def test_each_category_has_its_best_setting_and_all_have_one() -> None:
    """a is best at edits, b at chat; over both a is best: (4 * 1)^½ against (2 * 1.5)^½."""
    held = contest(
        (EDIT_A, OURS, (10, 10)), (EDIT_A, A, (40, 40)), (EDIT_A, B, (20, 20)),
        (CHAT, OURS, (10, 10)), (CHAT, A, (10, 10)), (CHAT, B, (15, 15)),
    )  # fmt: skip
    edit, chat, single = held.against_best("code-edit"), held.against_best("chat"), held.against_best_single()
    assert edit == Verdict(pytest.approx(1 / 4), (A, A))  # type: ignore[arg-type]
    assert chat == Verdict(pytest.approx(1 / 1.5), (B, B))  # type: ignore[arg-type]
    assert single == Verdict(pytest.approx(1 / 2), (A, A))  # type: ignore[arg-type]
    assert held.mean_against_best() == pytest.approx((1 / 6) ** 0.5)


def test_one_round_is_too_few_to_choose_and_judge() -> None:
    held = contest((CHAT, OURS, (10,)), (CHAT, A, (10,)))
    assert (held.against_best("chat"), held.against_best_single(), held.mean_against_best()) == (None, None, None)


def test_a_setting_that_lacks_a_category_is_no_single_setting_for_all() -> None:
    held = contest(
        (EDIT_A, OURS, (10, 10)), (EDIT_A, A, (90, 90)), (EDIT_A, B, (20, 20)), (CHAT, OURS, (10, 10)),
        (CHAT, B, (20, 20)),
    )  # fmt: skip
    single = held.against_best_single()
    assert single is not None
    assert single.chosen == (B, B)


def test_an_answer_of_one_token_has_no_speed() -> None:
    assert Answer(CHAT, OURS, 0, 0, 0.0).speed is None
    assert Answer(CHAT, OURS, 0, 4, 2.0).speed == 2.0


def test_texts_are_compared_as_far_as_both_go() -> None:
    held = Contest([A], [
        Answer(CHAT, OURS, 0, 3, 1.0, ids=(1, 2, 3)), Answer(CHAT, A, 0, 2, 1.0, ids=(1, 2)),
        Answer(CHAT, OURS, 1, 3, 1.0, ids=(1, 2, 3)), Answer(CHAT, A, 1, 3, 1.0, ids=(1, 5, 3)),
        Answer(CHAT, A, 2, 3, 1.0, ids=(1, 2, 3)),
    ])  # fmt: skip
    assert held.same_text(A) == (1, 2)


def test_the_accepted_share_is_of_all_proposed_tokens() -> None:
    held = Contest([A, B], [
        Answer(CHAT, A, 0, 9, 1.0, 30, 20), Answer(CHAT, A, 1, 9, 1.0, 10, 0), Answer(CHAT, A, 2, 9, 1.0),
        Answer(CHAT, B, 0, 9, 1.0),
    ])  # fmt: skip
    assert held.accepted_share(A) == pytest.approx(0.5)
    assert held.accepted_share(B) is None
