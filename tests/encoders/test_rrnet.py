"""RRNet: the batch against a walk through each row, an LSTM where nothing closes, REINFORCE against enumeration."""

import itertools

import pytest
import torch

from ordered_memory.config import RRNetConfig
from ordered_memory.encoders import Outcome, make_encoder
from ordered_memory.errors import InputError

LENGTHS = torch.tensor([3, 7, 1, 7, 2, 6])
SIZE = 4


def make(depth=3, seed=0, **options):
    """Weights large enough for every decision to matter and to go either way."""
    torch.manual_seed(seed)
    encoder = make_encoder("rrnet", 5, RRNetConfig(SIZE, depth=depth, **options)).double().eval()
    for parameter in encoder.parameters():
        parameter.data *= 2.5
    torch.nn.init.zeros_(encoder.policy[-1].bias)
    return encoder


def slow_row(encoder, x, decide):
    """One row: its vector, how many nodes closed before each token, and the log-probability of the decisions."""

    def read(item, state):
        i, f, o, u = (encoder.cell.input(item) + encoder.cell.recurrent(state[0])).view(4, SIZE)
        c = f.sigmoid() * state[1] + i.sigmoid() * u.tanh()
        return o.sigmoid() * c.tanh(), c

    empty = (torch.zeros(SIZE, dtype=x.dtype),) * 2
    levels = [empty] * encoder.config.depth
    heights, log_probability = [], torch.zeros((), dtype=x.dtype)
    for time, token in enumerate(map(encoder.token, x)):
        height = 0
        while time and height < encoder.config.depth - 1:
            seen = torch.cat((levels[height][0], levels[height + 1][0], token)).detach()
            probability = encoder.policy(seen).sigmoid()[0]
            closes = decide(float(probability.detach()))
            log_probability = log_probability + (probability if closes else 1 - probability).log()
            if not closes:
                break
            levels[height + 1], levels[height] = read(levels[height][0], levels[height + 1]), empty
            height += 1
        heights.append(height)
        levels[0] = read(token, levels[0])
    state = levels[0]
    for level in levels[1 : 1 + max(heights)]:
        state = read(state[0], level)
    return state[0], heights, log_probability


def test_the_batch_agrees_with_the_walk_in_vectors_trees_and_gradients():
    encoder = make(seed=3)
    x = torch.randn(7, 6, 5, dtype=torch.float64, requires_grad=True)
    parse = encoder.parse(x, LENGTHS)
    rows = [slow_row(encoder, x[:length, row], lambda p: p > 0.5) for row, length in enumerate(LENGTHS.tolist())]
    assert {height for _, heights, _ in rows for height in heights} == {0, 1, 2}
    slow = torch.stack([vector for vector, _, _ in rows])
    torch.testing.assert_close(parse.vector, slow)
    for (_, heights, _), spans in zip(rows, parse.spans, strict=True):
        assert spans.tolist() == from_the_top(heights, 0, len(heights))
    weights = torch.randn_like(slow)
    parameters = [x, *encoder.token.parameters(), *encoder.cell.parameters()]
    gradients = [torch.autograd.grad((vector * weights).sum(), parameters) for vector in (parse.vector, slow)]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def from_the_top(heights, start, end):
    """Spans in preorder: where most nodes closed lies the highest split, of equals the last."""
    if end - start < 2:
        return []
    split = max(range(start + 1, end), key=lambda position: (heights[position], position))
    return [[start, end], *from_the_top(heights, start, split), *from_the_top(heights, split, end)]


def test_where_nothing_closes_it_is_an_lstm():
    encoder = make()
    torch.nn.init.constant_(encoder.policy[-1].bias, -1e3)
    lstm = torch.nn.LSTM(SIZE, SIZE).double()
    order = [0, 1, 3, 2]  # PyTorch's gates are i, f, g, o
    with torch.no_grad():
        lstm.weight_ih_l0.copy_(encoder.cell.input.weight.view(4, SIZE, SIZE)[order].flatten(0, 1))
        lstm.weight_hh_l0.copy_(encoder.cell.recurrent.weight.view(4, SIZE, SIZE)[order].flatten(0, 1))
        lstm.bias_ih_l0.copy_(encoder.cell.input.bias.view(4, SIZE)[order].flatten())
        lstm.bias_hh_l0.zero_()
    x = torch.randn(7, 6, 5, dtype=torch.float64)
    outputs, _ = lstm(encoder.token(x))
    torch.testing.assert_close(encoder(x, LENGTHS).vector, outputs[LENGTHS - 1, torch.arange(6)])


def test_reinforce_agrees_with_enumeration_within_sampling_error():
    """The gradient of the expected loss, over all ways to decide, on two sentences at once."""
    encoder = make(policy_weight=1.0, entropy_weight=0.0).train()
    sentences = torch.randn(4, 2, 5, dtype=torch.float64)
    lengths, target = (4, 3), torch.randn(SIZE, dtype=torch.float64)
    policy = list(encoder.policy.parameters())

    def loss_of(vectors):
        return 10 * (vectors - target).square().sum(-1)

    expected, total = 0.0, 0.0
    for row, length in enumerate(lengths):
        seen = set()
        for bits in itertools.product((True, False), repeat=2 * (length - 1)):
            answers = iter(bits)
            vector, heights, log = slow_row(encoder, sentences[:length, row], lambda _, a=answers: next(a))
            if tuple(heights) not in seen:  # decisions that are not asked leave bits over
                seen.add(tuple(heights))
                expected = expected + log.exp() * loss_of(vector).detach() / 2
                total += float(log.exp().detach())
        assert len(seen) == 3 ** (length - 1)
    assert total == pytest.approx(2)
    exact = torch.cat([part.flatten() for part in torch.autograd.grad(expected, policy)])

    repeats, estimates = 500, []
    x, many = sentences.repeat_interleave(repeats, 1), torch.tensor(lengths).repeat_interleave(repeats)
    for _ in range(40):
        encoding = encoder(x, many)
        losses = loss_of(encoding.vector).detach()
        (surrogate,) = encoding.learn(Outcome(losses, losses < 1, None))
        estimates.append(torch.cat([part.flatten() for part in torch.autograd.grad(surrogate, policy)]))
    mean, error = torch.stack(estimates).mean(0), torch.stack(estimates).std(0) / 40**0.5
    assert ((mean - exact).abs() < 4.5 * error + 1e-12).all()
    assert exact.norm() > 10 * error.norm()  # the signal stands out: a wrong sign or factor would be seen


def test_what_all_rows_get_says_nothing_about_what_was_decided():
    encoder = make(policy_weight=1.0, entropy_weight=0.0).train()
    with torch.no_grad():
        encoder.value.weight.zero_()
        encoder.value.bias.zero_()
    encoding = encoder(torch.randn(7, 6, 5, dtype=torch.float64), LENGTHS)
    (loss,) = encoding.learn(Outcome(torch.full((6,), 2.0).double(), torch.ones(6).bool(), None))
    for gradient in torch.autograd.grad(loss, list(encoder.policy.parameters())):
        assert torch.allclose(gradient, torch.zeros_like(gradient), atol=1e-12)


def test_the_baseline_learns_the_reward_and_leaves_the_policy_alone():
    encoder = make(policy_weight=0.0, entropy_weight=0.0).train()
    x = torch.randn(7, 6, 5, dtype=torch.float64)
    x[:, 3:] += 5.0  # rows that are told apart by any token
    optimiser = torch.optim.Adam(encoder.parameters(), lr=0.1)
    before = [parameter.clone() for parameter in encoder.policy.parameters()]
    errors, losses = [], torch.tensor([0.0] * 3 + [4.0] * 3, dtype=torch.float64)
    for _ in range(60):
        (error,) = encoder(x, LENGTHS).learn(Outcome(losses, torch.ones(6).bool(), None))
        optimiser.zero_grad()
        error.backward()
        optimiser.step()
        errors.append(float(error.detach()))
    assert errors[-1] < 0.05 * errors[0]
    assert all(torch.equal(one, other) for one, other in zip(before, encoder.policy.parameters(), strict=True))


def test_rows_of_one_token_leave_nothing_to_decide():
    encoder = make().train()
    encoding = encoder(torch.randn(1, 2, 5, dtype=torch.float64), torch.tensor([1, 1]))
    (loss,) = encoding.learn(Outcome(torch.ones(2), torch.ones(2).bool(), None))
    assert float(loss) == 0


def test_one_level_is_refused():
    with pytest.raises(InputError, match="depth is 1, and must be at least 2"):
        RRNetConfig(depth=1)


def test_the_policy_has_a_rate_and_a_start_of_its_own():
    encoder = make_encoder("rrnet", 5, RRNetConfig(SIZE, policy_rate=0.25, closing_bias=-3.0))
    assert encoder.policy[-1].bias.tolist() == [-3.0]
    rates = {name.partition(".")[0]: encoder.rate_scale(name) for name, _ in encoder.named_parameters()}
    assert rates.pop("policy") == 0.25
    assert set(rates.values()) == {1.0}
