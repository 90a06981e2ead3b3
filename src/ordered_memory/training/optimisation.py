"""A step of training: the optimiser, its rates, dropout, and one update from a batch."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from ordered_memory.classifier import Batch, Classifier
from ordered_memory.config import TrainingConfig
from ordered_memory.memory import MaskedAttention
from ordered_memory.training.turns import needs_pointer


def update(
    model: Classifier,
    optimiser: torch.optim.Optimizer,
    batch: Batch,
    clip: float,
    losses: Callable[[Classifier, Batch], Iterator[Tensor]] = Classifier.losses,
) -> tuple[float | None, bool]:
    """Learns from a batch. Tells its loss, the first of several, and whether every update was made: none is where loss
    or gradient is not finite, and none after it."""
    first: float | None = None
    for loss in losses(model, batch):
        if not loss.requires_grad:  # the pointer alone learns, and every row is one token: there is nothing to point at
            return float(loss.detach()), True
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        if not (torch.isfinite(norm) and torch.isfinite(loss)):
            return first, False
        optimiser.step()
        first = float(loss.detach()) if first is None else first
    return first, True


def make_optimiser(config: TrainingConfig, model: torch.nn.Module) -> torch.optim.Optimizer:
    """The optimiser that the config names; parameters that learn at another rate are a group of their own."""
    groups: dict[tuple[float, bool], list[torch.nn.Parameter]] = {}
    apart = needs_pointer(config) is not None
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:  # word vectors that stay as they are
            continue
        part, _, inner = name.partition(".")
        kind = (1.0, False)
        if isinstance(model, Classifier) and part == "encoder":
            pointer = apart and model.encoder.is_pointer(inner)
            kind = model.encoder.rate_scale(inner) * (config.pointer_rate if pointer else 1.0), pointer
        groups.setdefault(kind, []).append(parameter)
    parameters = [
        {"params": members, "scale": scale, "pointer": pointer} for (scale, pointer), members in groups.items()
    ]
    rate, epsilon, decay = config.learning_rate, config.epsilon, config.weight_decay
    if config.optimiser == "adadelta":
        return torch.optim.Adadelta(parameters, rate, rho=config.beta2, eps=epsilon, weight_decay=decay)
    kinds: dict[str, type[torch.optim.Adam]] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    betas = (config.beta1, config.beta2)
    # Fused: one pass over the weights instead of ten, which is a percent of a step.
    return kinds[config.optimiser](parameters, rate, betas=betas, eps=epsilon, weight_decay=decay, fused=True)


def set_dropout(model: torch.nn.Module, active: bool) -> None:
    """Lets dropout work or not, but for the attention's, without which pointers stay blurred."""
    attention = {
        id(part) for module in model.modules() if isinstance(module, MaskedAttention) for part in module.modules()
    }
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout) and id(module) not in attention:
            module.train(active)


def learning_rate(config: TrainingConfig, share_done: float, rate_scale: float) -> float:
    """The rate at this point: grown from zero in the warm-up, then as the schedule says."""
    rate = config.learning_rate * rate_scale
    if share_done < config.warmup:
        return rate * share_done / config.warmup
    if config.schedule == "cosine":
        return rate * (1 + math.cos(math.pi * (share_done - config.warmup) / (1 - config.warmup))) / 2
    return rate
