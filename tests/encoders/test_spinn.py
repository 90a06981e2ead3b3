"""RL-SPINN: the stack machine against lists, and REINFORCE's gradient against all trees."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from ordered_memory.config import SPINNConfig
from ordered_memory.encoders import Outcome, make_encoder
from tests.encoders.enumeration import actions_of, as_merges, flat_gradient, within_sampling_error

LENGTHS = torch.tensor([4, 1, 6, 2, 5])


def make(seed=0, **config):
    torch.manual_seed(seed)
    encoder = make_encoder("rl-spinn", 3, SPINNConfig(hidden_size=4, tracking_size=5, **config)).double().train()
    torch.nn.init.normal_(encoder.reduce.weight)
    return encoder


def slowly(encoder, x, choose):
    """One row with lists as stack and buffer: the actions, log-probability and value of each, spans and the root."""
    size = encoder.output_size
    none = (x.new_zeros(2 * size), None)
    buffer = [(leaf, (place, place + 1)) for place, leaf in enumerate(encoder.leaves(x[:, None])[:, 0])]
    stack, state, spans, notes = [], (x.new_zeros(1, 5), x.new_zeros(1, 5)), [], []
    for step in range(2 * len(x) - 1):
        seen = [*([none, none, *stack][:-3:-1]), (buffer or [none])[0]]
        inputs = torch.cat([node[:size] for node, _ in seen])[None]
        state = torch.lstm_cell(inputs, state, *encoder.tracker.all_weights[0])
        chance = encoder.reduce(state[0])[0, 0].sigmoid()
        valid = [action for action, there in ((False, buffer), (True, len(stack) > 1)) if there]
        action = choose(chance, valid, step)
        log = (chance if action else 1 - chance).log() if len(valid) == 2 else chance * 0
        notes.append((action, log, encoder.value(state[0])[0, 0]))
        if action:
            (right, (_, end)), (left, (start, _)) = stack.pop(), stack.pop()
            stack.append((encoder.cell(left, right), (start, end)))
            spans.append((start, end))
        else:
            stack.append(buffer.pop(0))
    assert len(stack) == 1
    return *zip(*notes, strict=True), spans, stack[0][0][:size]


def follow(actions):
    return lambda _chance, valid, step: actions[step] if actions[step] in valid else pytest.fail("not allowed")


class TestStackMachine:
    @pytest.mark.parametrize("seed", range(4))
    def test_the_likelier_actions_are_those_found_with_lists(self, seed):
        encoder = make(seed).eval()
        x = torch.randn(6, len(LENGTHS), 3, dtype=torch.float64)
        parse = encoder.parse(x, LENGTHS)
        for row, length in enumerate(LENGTHS.tolist()):
            choose = lambda chance, valid, _: chance.item() > 0.5 if len(valid) == 2 else valid[0]  # noqa: E731
            *_, spans, root = slowly(encoder, x[:length, row], choose)
            torch.testing.assert_close(parse.vector[row], root)
            assert sorted(parse.spans[row].tolist()) == sorted(map(list, spans))

    def test_drawn_actions_values_and_the_root_are_those_found_with_lists(self):
        encoder = make()
        x = torch.randn(6, len(LENGTHS), 3, dtype=torch.float64)
        encoding = encoder(x, LENGTHS)
        states, actions = encoding.learn.args
        logs, values = encoder.track(states, actions)
        for row, length in enumerate(LENGTHS.tolist()):
            steps = 2 * length - 1
            taken = actions.reduced[:steps, row].tolist()
            _, log, value, _, root = slowly(encoder, x[:length, row], follow(taken))
            torch.testing.assert_close(encoding.vector[row], root)
            torch.testing.assert_close(logs[:steps, row], torch.stack(log))
            torch.testing.assert_close(values[:steps, row], torch.stack(value))
            assert not logs[steps:, row].any()
            assert not actions.free[steps:, row].any()

    def test_all_trees_are_drawn_as_often_as_their_probability_says(self):
        encoder, rows = make(), 4000
        x = torch.randn(4, 1, 3, dtype=torch.float64)
        drawn = encoder.act(encoder.leaves(x.expand(-1, rows, -1)), torch.full((rows,), 4), sample=True).reduced.T
        total = 0.0
        for actions in actions_of(4):
            share = (drawn == torch.tensor(actions)).all(1).double().mean()
            chance = sum(slowly(encoder, x[:, 0], follow(actions))[1]).exp().detach()
            total += chance.item()
            assert abs(share - chance) < 5 * (chance * (1 - chance) / rows).sqrt()
        assert total == pytest.approx(1)


class TestReinforce:
    @pytest.mark.parametrize("length", [3, 4])
    def test_the_gradient_is_that_of_the_expected_loss_over_all_trees(self, length):
        encoder = make(rl_weight=2.0)
        x = torch.randn(length, 1, 3, dtype=torch.float64)
        head = torch.randn(4, 3, dtype=torch.float64)
        label = self.disputed_label(encoder, x, head)
        learned = [p for name, p in encoder.named_parameters() if not name.startswith("value")]
        expected = torch.zeros((), dtype=torch.float64)
        for actions in actions_of(length):
            _, log, _, _, root = slowly(encoder, x[:, 0], follow(actions))
            chance = sum(log).exp()
            right = (root @ head).argmax() == label
            expected = expected + chance.detach() * cross_entropy(root @ head, label) - 2.0 * chance * right
        rows = 100
        samples = []
        for _ in range(60):
            encoding = encoder(x.expand(-1, rows, -1), torch.full((rows,), length))
            logits = encoding.vector @ head
            each = cross_entropy(logits, label.expand(rows), reduction="none")
            (update,) = encoding.learn(Outcome(each.detach(), logits.argmax(-1) == label, None))
            samples.append(flat_gradient(each.mean() + update, learned))
        within_sampling_error(torch.stack(samples), flat_gradient(expected, learned))

    def disputed_label(self, encoder, x, head):
        """A label that some trees get right and others do not."""
        roots = [slowly(encoder, x[:, 0], follow(actions))[-1] for actions in actions_of(len(x))]
        answers = torch.stack([root @ head for root in roots]).argmax(-1)
        if len(answers.unique()) == 1:  # shift the head so that the trees do not agree
            middle = torch.stack(roots).mean(0).detach()
            spread = (torch.stack(roots).detach() - middle)[0]
            head.copy_(torch.stack((spread, -spread, torch.zeros_like(spread)), 1))
            head.sub_(torch.outer(middle, middle @ head) / (middle @ middle))
            answers = torch.stack([root @ head for root in roots]).argmax(-1)
        assert len(answers.unique()) > 1
        return answers[0]

    def test_the_value_learns_what_reward_to_expect_and_moves_nothing_else(self):
        encoder = make(rl_weight=1e-30)
        x = torch.randn(5, 1, 3, dtype=torch.float64).expand(-1, 40, -1)
        optimiser = torch.optim.Adam(encoder.parameters(), 0.2)
        right = torch.arange(40) < 30
        for _ in range(40):
            encoding = encoder(x, torch.full((40,), 5))
            (loss,) = encoding.learn(Outcome(right.double(), right, None))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        moved = {name for name, p in encoder.named_parameters() if p.grad is not None and p.grad.abs().max() > 1e-20}
        assert moved == {"value.weight", "value.bias"}
        _, values = encoder.track(*encoder(x, torch.full((40,), 5)).learn.args)
        assert values[3].sigmoid().mean().item() == pytest.approx(0.75, abs=0.1)

    def test_the_weight_of_reinforce_does_not_reach_the_value(self):
        found = []
        for weight in (1e-30, 5.0):
            encoder = make(rl_weight=weight)
            x = torch.randn(6, len(LENGTHS), 3, dtype=torch.float64)
            right = torch.tensor([True, False, True, True, False])
            (loss,) = encoder(x, LENGTHS).learn(Outcome(right.double(), right, None))
            found.append(flat_gradient(loss, list(encoder.value.parameters())))
        assert found[0].abs().min() > 0
        torch.testing.assert_close(*found)

    @pytest.mark.parametrize("wanted", [(0, 0, 0), (2, 1, 0), (0, 1, 0)])
    def test_the_tree_that_is_rewarded_is_learned(self, wanted):
        torch.manual_seed(0)
        encoder = make_encoder("rl-spinn", 3, SPINNConfig(hidden_size=8, tracking_size=8)).train()
        x, lengths = torch.randn(4, 1, 3).expand(-1, 32, -1), torch.full((32,), 4)
        spans = sorted(as_merges([wanted]).spans[0].tolist())
        optimiser = torch.optim.Adam(encoder.parameters(), 0.02)
        for _ in range(50):
            encoding = encoder(x, lengths)
            drawn = encoding.learn.args[1].merges.spans
            right = torch.tensor([sorted(row.tolist()) == spans for row in drawn])
            (loss,) = encoding.learn(Outcome(right.float(), right, None))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        assert sorted(encoder.eval().parse(x[:, :1], lengths[:1]).spans[0].tolist()) == spans


def test_every_sequence_of_actions_is_listed_once():
    for length, catalan in ((1, 1), (2, 1), (3, 2), (4, 5), (5, 14)):
        assert len(set(actions_of(length))) == len(list(actions_of(length))) == catalan
