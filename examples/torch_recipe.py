"""The same idea in PyTorch: a target network that is pulled to the online network's function by gradient steps.

    python examples/torch_recipe.py

Copy `Replicate` into your agent. It needs nothing but torch; lookrep itself is JAX.
"""

from collections.abc import Callable
from copy import deepcopy

import torch
from torch import Tensor, nn


class Replicate:
    """Every `every_updates` online updates (K_L), `updates` gradient steps (K_R) on the target network."""

    def __init__(
        self,
        target: nn.Module,  # any module with the outputs of the online network; often deepcopy(online)
        optimizer: torch.optim.Optimizer,  # over the target's parameters, with a step size of its own
        every_updates: int,
        updates: int,
        distance: Callable[[Tensor, Tensor], Tensor] = nn.functional.mse_loss,  # cross-entropy for C51's logits
    ) -> None:
        self.target, self.optimizer, self.distance = target, optimizer, distance
        self.every_updates, self.updates = every_updates, updates

    def update(self, online: nn.Module, online_updates: int, batch: Callable[[], Tensor]) -> None:
        """Call after every online update with the number made so far. `batch()` draws states from the replay."""
        if online_updates % self.every_updates:
            return
        for _ in range(self.updates):
            states = batch()
            with torch.no_grad():
                wanted = online(states)
            loss = self.distance(self.target(states), wanted)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


if __name__ == "__main__":
    torch.manual_seed(0)
    replay, online = torch.randn(1000, 4), nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
    target, learner = deepcopy(online), torch.optim.Adam(online.parameters(), 1e-3)
    rule = Replicate(target, torch.optim.Adam(target.parameters(), 1e-2), every_updates=100, updates=100)
    for n in range(1, 301):
        states = replay[torch.randint(1000, (32,))]
        with torch.no_grad():
            aim = states.sum(1) + 0.9 * target(states).amax(1)  # your agent's own: it bootstraps from the target
        learner.zero_grad()
        nn.functional.mse_loss(online(states)[:, 0], aim).backward()
        learner.step()
        before = (target(replay) - online(replay)).abs().mean().item()
        rule.update(online, n, batch=lambda: replay[torch.randint(1000, (32,))])
        if n % 100 == 0:
            after = (target(replay) - online(replay)).abs().mean().item()
            print(f"update {n}: function gap {before:.3f} before the turn, {after:.3f} after it")
