"""The cooperative parser: the gradient against all sequences of merges, and PPO step by step."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy

from ordered_memory.config import CooperativeConfig
from ordered_memory.encoders import Outcome, make_encoder
from ordered_memory.encoders.cooperative import MEMORY
from ordered_memory.encoders.tree_composition import compose, root_states
from tests.encoders.enumeration import as_merges, flat_gradient, merge_orders, within_sampling_error


def make(**config):
    torch.manual_seed(0)
    values = {"hidden_size": 4, "parser_size": 5, "entropy_weight": 0.0, **config}
    encoder = make_encoder("cooperative", 3, CooperativeConfig(**values)).double().train()
    torch.nn.init.normal_(encoder.parser.query)
    return encoder


def rows_of(length, rows=1):
    torch.manual_seed(1)
    return torch.randn(length, 1, 3, dtype=torch.float64).expand(-1, rows, -1), torch.full((rows,), length)


class TestGradient:
    @pytest.mark.parametrize("length", [3, 4, 5])
    def test_it_is_that_of_the_expected_loss_over_all_merges(self, length):
        encoder, rows = make(), 100
        x, lengths = rows_of(length, rows)
        head, label = 3 * torch.randn(4, 3, dtype=torch.float64), torch.tensor(0)
        parser = [p for name, p in encoder.named_parameters() if name.startswith("parser.")]
        composer = [p for name, p in encoder.named_parameters() if not name.startswith("parser.")]
        ways = as_merges(merge_orders(length))
        one = x[:, :1].expand(-1, ways.rows, -1)
        chance = encoder.parser.policy(encoder.parser.leaves(one), ways).log_probability.exp()
        roots = root_states(compose(encoder.cell, encoder.leaves(one), ways), ways)[:, :4]
        losses = cross_entropy(roots @ head, label.expand(ways.rows), reduction="none")
        expected = (
            flat_gradient((chance * losses.detach()).sum(), parser),
            flat_gradient(chance.detach() @ losses, composer),
        )
        samples = [], []
        for _ in range(60):
            encoding = encoder(x, lengths)
            each, baseline = (
                cross_entropy(vector @ head, label.expand(rows), reduction="none")
                for vector in (encoding.vector, encoding.baseline)
            )
            gain = (baseline - each).detach()
            update = next(encoding.learn(Outcome(each.detach(), each > 0, baseline)))
            deviation = gain.square().mean().sqrt()  # of the first step, which the generator never gets past
            samples[0].append(deviation * flat_gradient(update, parser))
            samples[1].append(flat_gradient(each.mean(), composer))
        for found, wanted in zip(samples, expected, strict=True):
            within_sampling_error(torch.stack(found), wanted)

    def test_the_baseline_is_the_best_tree_as_at_test(self):
        encoder = make()
        x, lengths = torch.randn(6, 4, 3, dtype=torch.float64), torch.tensor([6, 3, 1, 5])
        baseline = encoder(x, lengths).baseline
        torch.testing.assert_close(baseline, encoder.eval()(x, lengths).vector)
        assert not baseline.requires_grad

    def test_the_parser_has_no_say_in_the_embeddings(self):
        encoder = make()
        x = torch.randn(4, 2, 3, dtype=torch.float64, requires_grad=True)
        encoding = encoder(x, torch.tensor([4, 3]))
        update = next(encoding.learn(outcome(torch.tensor([1.0, -1.0]))))
        assert torch.autograd.grad(update, x, allow_unused=True) == (None,)


def outcome(gain):
    zero = torch.zeros(len(gain), dtype=torch.float64)
    return Outcome(zero, zero > 0, gain.double())


class TestPPO:
    def test_each_update_is_the_clipped_gain_and_the_entropy(self):
        encoder = make(ppo_updates=4, ppo_clip=0.1, entropy_weight=0.5)
        x, lengths = rows_of(5, 8)
        encoding = encoder(x, lengths)
        gain = torch.tensor([1.0, -1, 2, -2, 3, -3, 0.5, -0.5], dtype=torch.float64)
        _, merges = encoding.learn.args
        advantage = gain / gain.square().mean().sqrt()
        before = encoder.parser.policy(encoder.parser.leaves(x), merges).log_probability.detach()
        clipped = 0
        for loss in encoding.learn(outcome(gain)):
            policy = encoder.parser.policy(encoder.parser.leaves(x), merges)
            ratio = (policy.log_probability - before).exp()
            worth = []
            for moved, amount in zip(ratio, advantage, strict=True):
                best = min(moved, 1.1) if amount > 0 else max(moved, 0.9)
                clipped += best != moved
                worth.append(amount * best)
            torch.testing.assert_close(loss, -sum(worth) / 8 - 0.5 * policy.entropy.mean())
            loss.backward()
            with torch.no_grad():
                for parameter in encoder.parser.parameters():
                    parameter -= 2 * parameter.grad
                    parameter.grad = None
        assert clipped > 0

    def test_there_are_as_many_updates_as_told(self):
        encoder = make(ppo_updates=6)
        encoding = encoder(*rows_of(5, 8))
        assert len(list(encoding.learn(outcome(torch.ones(8))))) == 6

    def test_it_ends_when_every_row_is_clipped(self):
        encoder = make(ppo_updates=6)
        x, lengths = rows_of(5)
        updates = 0
        for loss in encoder(x, lengths).learn(outcome(torch.ones(1))):
            loss.backward()
            with torch.no_grad():
                for parameter in encoder.parser.parameters():
                    parameter -= parameter.grad
                    parameter.grad = None
            updates += 1
        assert 1 <= updates < 6

    def test_the_deviation_runs_along(self):
        encoder = make(ppo_updates=2)
        x, lengths = rows_of(4, 3)
        gains = [torch.tensor(values) for values in ([1.0, -2, 3], [0.0, 0, 6], [5.0, 1, 1])]
        running = 0.0
        for number, gain in enumerate(gains, 1):
            encoding = encoder(x, lengths)
            policy = encoder.parser.policy(encoder.parser.leaves(x), encoding.learn.args[1])
            running = MEMORY * running + (1 - MEMORY) * gain.square().mean().item()
            deviation = math.sqrt(running / (1 - MEMORY**number))
            expected = flat_gradient(-(gain / deviation * policy.log_probability).mean(), [encoder.parser.query])
            updates = encoding.learn(outcome(gain))
            torch.testing.assert_close(
                flat_gradient(next(updates), [encoder.parser.query]), expected, rtol=1e-5, atol=1e-9
            )
            list(updates)
            assert encoder.mean_square.item() == pytest.approx(running, rel=1e-5)
            assert encoder.steps == number

    @pytest.mark.parametrize(("half_life", "weights"), [(0, [0.5, 0.5, 0.5]), (2, [0.5, 0.5 / 2**0.5, 0.25])])
    def test_the_weight_of_the_entropy_falls_with_the_steps_not_with_the_updates(self, half_life, weights):
        encoder = make(ppo_updates=3, entropy_weight=0.5, entropy_half_life=half_life)
        x, lengths = rows_of(4, 3)
        for weight in weights:
            encoding = encoder(x, lengths)
            entropy = encoder.parser.policy(encoder.parser.leaves(x), encoding.learn.args[1]).entropy.mean()
            losses = list(encoding.learn(outcome(torch.zeros(3))))
            torch.testing.assert_close(torch.stack(losses), (-weight * entropy).expand(3))

    def test_a_step_that_is_not_applied_leaves_no_trace(self):
        encoder = make()
        before = {name: value.clone() for name, value in encoder.state_dict().items()}
        next(encoder(*rows_of(4, 3)).learn(outcome(torch.tensor([1.0, math.nan, 2.0]))))
        for name, value in encoder.state_dict().items():
            assert torch.equal(value, before[name])

    def test_no_gain_at_all_is_no_update_at_all(self):
        encoder = make(ppo_updates=1)
        (loss,) = encoder(*rows_of(4, 3)).learn(outcome(torch.zeros(3)))
        assert flat_gradient(loss, list(encoder.parser.parameters())).abs().max() == 0

    @pytest.mark.parametrize("wanted", [(0, 0, 0), (2, 1, 0), (0, 1, 0)])
    def test_the_tree_that_is_rewarded_is_learned(self, wanted):
        torch.manual_seed(0)
        encoder = make_encoder("cooperative", 3, CooperativeConfig(hidden_size=4, parser_size=8, ppo_updates=3)).train()
        x, lengths = torch.randn(4, 1, 3).expand(-1, 32, -1), torch.full((32,), 4)
        spans = sorted(as_merges([wanted]).spans[0].tolist())
        optimiser = torch.optim.Adam(encoder.parameters(), 0.02)
        for _ in range(40):
            encoding = encoder(x, lengths)
            drawn = encoding.learn.args[1].spans
            loss = torch.tensor([float(sorted(row.tolist()) != spans) for row in drawn])
            for update in encoding.learn(Outcome(loss, loss < 1, torch.full((32,), 0.5))):
                optimiser.zero_grad()
                update.backward()
                optimiser.step()
        assert sorted(encoder.eval().parse(x[:, :1], lengths[:1]).spans[0].tolist()) == spans


def test_the_parser_learns_at_a_rate_of_its_own():
    encoder = make(parser_rate=0.25)
    rates = {name: encoder.rate_scale(name) for name, _ in encoder.named_parameters()}
    assert {rate for name, rate in rates.items() if name.startswith("parser.")} == {0.25}
    assert {rate for name, rate in rates.items() if not name.startswith("parser.")} == {1.0}
