"""What the rules keep on average, in closed form, against the rules' own code: by enumeration, and by noise."""

import itertools
import math

import numpy as np
import pytest

from localspec.engine import rule_rates
from localspec.engine.coupled import coupled
from localspec.engine.distribution import Distribution
from localspec.engine.noise import Noise
from localspec.engine.requests import Verify
from localspec.engine.verify import rejection
from localspec.engine.verify_block import block
from tests.engine.exact_law import Script, law
from tests.engine.rule_law import SITUATIONS, Rule, Tokens, Tree, dense, filtered, pairs, tree

SIZE, LENGTH = 4, 3
JUDGES: dict[Verify, Rule] = {"rejection": rejection, "block": block}  # type: ignore[dict-item]


def paths(
    target: Tree, draft: Tree, length: int = LENGTH
) -> list[tuple[float, Tokens, list[Distribution], list[Distribution]]]:
    """Every draft of `length` with its probability, and both sides' rows along it."""
    found = []
    for tokens in itertools.product(range(SIZE), repeat=length):
        weight = math.prod(draft(tokens[:i]).prob(tokens[i]) for i in range(length))
        if weight > 0.0:
            rows = [tokens[:i] for i in range(length + 1)]
            found.append((weight, tokens, [draft(row) for row in rows[:length]], [target(row) for row in rows]))
    return found


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("rule", JUDGES)
def test_what_a_rule_keeps_of_a_path_is_what_its_code_keeps(rule: Verify, situation: str) -> None:
    target, draft = next((p, q) for name, p, q in pairs(SIZE, 3) if name == situation)
    for _, tokens, q, p in paths(target, draft)[::3]:
        reckoned = rule_rates.RULES[rule](tokens, q, p)
        for length in range(1, LENGTH + 1):

            def accepted(script: Script, length: int = length) -> int:
                verdict = JUDGES[rule](tokens[:length], q[:length], lambda i: p[i], script)  # noqa: B023
                script.note(verdict)
                return verdict.accepted

            exact = sum(kept * share for kept, share in law(accepted).items())  # type: ignore[operator]
            assert reckoned[length - 1] == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("shape", [dense(SIZE), filtered(SIZE, 1.5)])
def test_what_the_coupled_rule_keeps_is_what_its_code_keeps(shape) -> None:  # type: ignore[no-untyped-def]
    target, draft = tree(SIZE, 5, shape), tree(SIZE, 6, shape)
    reckoned = sum(weight * rule_rates.coupled(tokens, q, p)[-1] for weight, tokens, q, p in paths(target, draft))
    kept = []
    for seed in range(8000):
        noise, drawn = Noise(seed), ()
        for i in range(LENGTH):
            drawn += (noise.draw(draft(drawn), i),)
        kept.append(coupled(drawn, lambda i, drawn=drawn: target(drawn[:i]), noise, 0).accepted)  # type: ignore[misc]
    assert np.mean(kept) == pytest.approx(reckoned, abs=4 * np.std(kept) / math.sqrt(len(kept)))


@pytest.mark.parametrize("situation", SITUATIONS)
def test_one_token_over_its_draws_is_the_sum_of_minima_and_the_agreement(situation: str) -> None:
    for seed in range(4):
        target, draft = next((p, q) for name, p, q in pairs(SIZE, seed) if name == situation)
        p, q = target(()), draft(())
        drawn = [(q.prob(token), token) for token in range(SIZE) if q.prob(token) > 0.0]
        for rule, alone in (
            ("rejection", rule_rates.minima),
            ("block", rule_rates.minima),
            ("coupled", rule_rates.agreement),
        ):
            over = sum(weight * rule_rates.RULES[rule]([token], [q], [p])[0] for weight, token in drawn)  # type: ignore[index]
            assert alone(p, q) == pytest.approx(over, abs=1e-12)
        d = p.surplus(q)
        assert (1 - d) / (1 + d) - 1e-12 <= rule_rates.agreement(p, q) <= 1 - d + 1e-12


def test_block_keeps_most_and_coupled_never_more_than_rejection() -> None:
    for seed in range(6):
        target, draft = tree(SIZE, seed, dense(SIZE)), tree(SIZE, seed + 50, dense(SIZE))
        known = paths(target, draft)
        for length in range(LENGTH):
            means = {
                rule: sum(weight * rate(tokens, q, p)[length] for weight, tokens, q, p in known)
                for rule, rate in rule_rates.RULES.items()
            }
            assert means["coupled"] <= means["rejection"] + 1e-12
            assert means["rejection"] <= means["block"] + 1e-12
            assert length == 0 or means["block"] > means["rejection"]


def test_a_large_vocabulary_filtered_on_one_side_or_both() -> None:
    rng = np.random.default_rng(1)
    whole = [Distribution(None, rng.dirichlet(np.full(5000, 0.05))) for _ in range(2)]
    ids = np.sort(rng.choice(5000, 40, replace=False)).astype(np.int32)
    few = Distribution(ids, rng.dirichlet(np.ones(40)))
    for p, q in itertools.product([*whole, few], repeat=2):
        d = p.surplus(q)
        agreed = rule_rates.agreement(p, q)
        assert (1 - d) / (1 + d) - 1e-9 <= agreed <= 1 - d + 1e-9
