"""PyTorch training steps as graphs of ATen ops."""

from emplace.tracing.step import StepInput, StepOutput, TracedStep
from emplace.tracing.trace import trace

__all__ = ["StepInput", "StepOutput", "TracedStep", "trace"]
