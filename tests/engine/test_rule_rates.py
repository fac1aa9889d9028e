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
def test_what_a_rule_keeps_on_average_is_what_its_code_keeps(rule: Verify, situation: str) -> None:
    """Over all drafts, of each length."""
    target, draft = next((p, q) for name, p, q in pairs(SIZE, 3) if name == situation)
    for length in range(1, LENGTH + 1):
        exact = reckoned = 0.0
        for weight, tokens, q, p in paths(target, draft, length):

            def accepted(script: Script) -> int:
                verdict = JUDGES[rule](tokens, q, lambda i: p[i], script)  # noqa: B023
                script.note(verdict)
                return verdict.accepted

            exact += weight * sum(kept * share for kept, share in law(accepted).items())  # type: ignore[operator]
            reckoned += weight * rule_rates.RULES[rule](tokens, q, p)[-1]
        assert reckoned == pytest.approx(exact, abs=1e-9)


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
def test_one_token_is_the_sum_of_minima_or_the_agreement_whatever_was_drawn(situation: str) -> None:
    for seed in range(4):
        target, draft = next((p, q) for name, p, q in pairs(SIZE, seed) if name == situation)
        p, q = target(()), draft(())
        d = p.surplus(q)
        assert rule_rates.minima(p, q) == pytest.approx(sum(min(p.prob(x), q.prob(x)) for x in range(SIZE)))
        assert (1 - d) / (1 + d) - 1e-12 <= rule_rates.agreement(p, q) <= 1 - d + 1e-12
        for token in [x for x in range(SIZE) if q.prob(x) > 0]:
            first = {rule: rate([token], [q], [p])[0] for rule, rate in rule_rates.RULES.items()}
            assert first["rejection"] == pytest.approx(first["block"], abs=1e-12)
            assert first["coupled"] == pytest.approx(rule_rates.agreement(p, q), abs=1e-12)


def test_of_every_draft_block_keeps_most_and_coupled_least() -> None:
    for seed in range(6):
        target, draft = tree(SIZE, seed, dense(SIZE)), tree(SIZE, seed + 50, dense(SIZE))
        gained = 0.0
        for weight, tokens, q, p in paths(target, draft):
            kept = {rule: rate(tokens, q, p) for rule, rate in rule_rates.RULES.items()}
            for length in range(LENGTH):
                assert kept["coupled"][length] <= kept["rejection"][length] + 1e-12
                assert kept["rejection"][length] <= kept["block"][length] + 1e-12
            gained += weight * (kept["block"][-1] - kept["rejection"][-1])
        assert gained > 0.001


def test_a_large_vocabulary_filtered_on_one_side_or_both() -> None:
    rng = np.random.default_rng(1)
    whole = [Distribution(None, rng.dirichlet(np.full(5000, 0.05))) for _ in range(2)]
    ids = np.sort(rng.choice(5000, 40, replace=False)).astype(np.int32)
    few = Distribution(ids, rng.dirichlet(np.ones(40)))
    for p, q in itertools.product([*whole, few], repeat=2):
        d = p.surplus(q)
        agreed = rule_rates.agreement(p, q)
        assert (1 - d) / (1 + d) - 1e-9 <= agreed <= 1 - d + 1e-9
