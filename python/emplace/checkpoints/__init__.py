"""Memory plans for PyTorch's own training loop: checkpointed modules, moved tensors."""

from __future__ import annotations

from emplace.checkpoints.plan import Checkpointing, checkpoint_blocks, checkpointing, warn_of_losses

__all__ = ["Checkpointing", "checkpoint_blocks", "checkpointing", "warn_of_losses"]
