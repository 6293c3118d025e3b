"""What cannot be a static graph is refused, with the user's own line and a cure."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from replay import trace_step
from torch import nn

from emplace.errors import EmplaceError


class Apply(nn.Module):
    """A model that does one thing with its input."""

    table: torch.Tensor

    def __init__(self, body: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.linear, self.body, self.hidden = nn.Linear(4, 4), body, torch.zeros(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(self, self.linear(x))


def branch(model: Any, x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:  # HERE
        x = x * 2
    return x


def number(model: Any, x: torch.Tensor) -> torch.Tensor:
    return x * float(x.max())  # HERE


def loop(model: Any, x: torch.Tensor) -> torch.Tensor:
    for _ in range(int(x.argmax())):  # HERE
        x = x + 1
    return x


def select(model: Any, x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]  # HERE


def where(model: Any, x: torch.Tensor) -> torch.Tensor:
    return x.flatten()[torch.nonzero(x.flatten())]  # HERE


def listed(model: Any, x: torch.Tensor) -> torch.Tensor:
    return x * x.sum(1).tolist()[0]  # HERE


def array(model: Any, x: torch.Tensor) -> torch.Tensor:
    return x * torch.from_numpy(x.detach().numpy())  # HERE


def hidden(model: Any, x: torch.Tensor) -> torch.Tensor:
    model.hidden += 1  # HERE
    return x * model.hidden


def own_generator(model: Any, x: torch.Tensor) -> torch.Tensor:
    return x * torch.rand(4, generator=torch.Generator())  # HERE


def seeds(model: Any, x: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(3)  # HERE
    return x * torch.rand(4)


def wrong_shapes(model: Any, x: torch.Tensor) -> torch.Tensor:
    return x @ torch.zeros(5, 5)  # HERE


def packed(model: Any, x: torch.Tensor) -> torch.Tensor:
    lengths = torch.tensor([2, 1])
    return nn.utils.rnn.pack_padded_sequence(x.view(2, 2, 2), lengths).data  # HERE


BODIES = [
    packed,
    branch,
    number,
    loop,
    select,
    where,
    listed,
    array,
    hidden,
    own_generator,
    seeds,
    wrong_shapes,
]


def loss(model: nn.Module, batch: Any) -> torch.Tensor:
    result: torch.Tensor = model(batch).sum()
    return result


@pytest.mark.parametrize("body", BODIES, ids=lambda b: b.__name__)
def test_refusals_name_the_line_of_the_user(body: Any) -> None:
    model = Apply(body)
    with pytest.raises(EmplaceError) as error:
        trace_step(model, torch.randn(2, 4), loss, torch.optim.SGD(model.parameters(), lr=0.1))
    lines, start = inspect.getsourcelines(body)
    line = start + next(i for i, text in enumerate(lines) if "# HERE" in text)
    assert error.value.where == f"{__file__}:{line}", str(error.value)
    assert error.value.cure and "\n" not in str(error.value)


def test_a_cure_can_be_followed() -> None:
    with pytest.raises(EmplaceError, match="give the recurrent layer the padded batch"):
        trace_step(Apply(packed), torch.randn(2, 4), loss)
    table = nn.Embedding(9, 4, padding_idx=0, sparse=True)
    with pytest.raises(EmplaceError, match="leave out sparse=True or padding_idx"):
        trace_step(table, torch.tensor([[1, 0]]), loss)


def test_values_that_are_no_losses() -> None:
    model = nn.Linear(4, 4)
    for wrong in (lambda m, b: m(b), lambda m, b: 3.0, lambda m, b: m(b).detach().sum(), lambda m, b: None):
        with pytest.raises(EmplaceError, match="loss"):
            trace_step(model, torch.randn(2, 4), wrong)  # type: ignore[arg-type]


def test_batches_of_another_form() -> None:
    model = nn.Linear(4, 4)
    with pytest.raises(EmplaceError, match="batch"):
        trace_step(model, {"x": 3}, loss)
    _, step = trace_step(model, torch.randn(2, 4), loss)
    for wrong in (torch.randn(3, 4), torch.randn(2, 4, dtype=torch.float64), (torch.randn(2, 4),), None, 3):
        with pytest.raises(EmplaceError, match="batch"):
            step.arguments(wrong)


def test_invalid_arguments() -> None:
    model = nn.Linear(4, 4)
    with pytest.raises(EmplaceError, match="loss"):
        trace_step(model, torch.randn(2, 4), optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(EmplaceError, match="Module"):
        trace_step("resnet50", torch.randn(2, 4))  # type: ignore[arg-type]


def test_a_second_time_gives_the_same_graph() -> None:
    model = nn.Linear(4, 4)
    first, second = (
        trace_step(model, torch.randn(2, 4), loss, torch.optim.Adam(model.parameters())) for _ in range(2)
    )
    assert first[0] == second[0] and first[1].signature == second[1].signature
    other, _ = trace_step(model, torch.randn(3, 4), loss, torch.optim.Adam(model.parameters()))
    assert other["meta"]["signature"] != first[1].signature


def conditional(model: Any, x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda x: model.linear(x), lambda x: x.relu(), (x,))  # HERE


def turns(model: Any, x: torch.Tensor) -> Any:
    from torch._higher_order_ops import while_loop

    more, turn = (lambda i, y: i < 3), (lambda i, y: (i + 1, y.tanh()))
    return while_loop(more, turn, (torch.tensor(0), x))[1]  # HERE


def scanned(model: Any, x: torch.Tensor) -> Any:
    from torch._higher_order_ops import scan

    return scan(lambda c, x: ((c + x).tanh(), c * x), torch.zeros(4), x)[1]  # HERE


def mapped(model: Any, x: torch.Tensor) -> Any:
    from torch._higher_order_ops.map import map as over

    return over(lambda row: model.linear(row), x)  # HERE


def flexible(model: Any, x: torch.Tensor) -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    x = x.view(1, 1, 2, 4)
    return flex_attention(x, x, x)  # HERE


@pytest.mark.skipif(torch.__version__.startswith("1."), reason="torch 1.13 has none of them")
@pytest.mark.parametrize("body", [conditional, turns, scanned, mapped, flexible], ids=lambda b: b.__name__)
def test_operators_that_run_functions_are_refused_in_a_line(body: Any) -> None:
    test_refusals_name_the_line_of_the_user(body)
    model = Apply(body)
    with pytest.raises(EmplaceError, match="of torch, which runs functions of its own") as error:
        trace_step(model, torch.randn(2, 4), loss)
    assert len(str(error.value)) < 300 and "Hint" not in str(error.value) and "0x" not in str(error.value)
