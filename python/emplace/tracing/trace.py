"""Traces a training step or an inference: :func:`trace`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Node

from emplace.errors import EmplaceError
from emplace.tracing import compat
from emplace.tracing.arguments import Arguments
from emplace.tracing.batches import TreeBatch, TreeResult, call_model
from emplace.tracing.document import DocumentMaker, signature
from emplace.tracing.float32 import float32_use
from emplace.tracing.guard import swap, unchanged
from emplace.tracing.prune import prune
from emplace.tracing.recorder import Recorder, value_of
from emplace.tracing.refusal import calls_functions, user_line_of
from emplace.tracing.scopes import Scopes, path_of
from emplace.tracing.slots import ModuleSlot
from emplace.tracing.step import StepInput, StepOutput, TracedStep, fixed_hyperparameters
from emplace.tracing.update import Update
from emplace.tracing.watcher import Watcher

if TYPE_CHECKING:
    from emplace.graph import Graph

Loss = Callable[[torch.nn.Module, Any], torch.Tensor]


def trace(
    model: torch.nn.Module,
    batch: Any,
    loss: Loss | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    autocast: torch.dtype | None = None,
    accumulate: int | None = None,
    name: str | None = None,
) -> Graph:
    """The graph of one training step: forward, ``loss(model, batch)``, backward and ``optimizer.step()``.

    Without a loss it is the graph of ``model(batch)`` without gradients; a dict or tuple is spread over the
    model's arguments. With ``autocast=torch.bfloat16``, forward and loss run under autocast. With
    ``accumulate=N`` the batch is a list of N micro-batches of equal shapes, and the step is that of the
    mean of their losses. Nothing is computed and nothing of the user's is changed. Learning rates are read
    at each step; other hyperparameters are constants. Gradients start as None, as after
    ``optimizer.zero_grad()``. The graph records whether PyTorch's switches let float32 products and
    convolutions run in TF32 (``float32=`` of :func:`place` overrides it).

    The step's numbers are PyTorch's own, to the bit, unless the model looks whether its tensors are fake
    and then takes another way: transformers does so for fused attention (``attn_implementation="eager"``
    takes the same way).
    """
    from emplace.graph import Graph

    if not isinstance(model, torch.nn.Module):
        raise EmplaceError("model", f"is a {type(model).__name__}", "pass a torch.nn.Module")
    if optimizer is not None and loss is None:
        raise EmplaceError(
            "optimizer", "is given without a loss", "pass loss=, or no optimizer for inference"
        )
    if accumulate is not None and (not isinstance(batch, (list, tuple)) or len(batch) != accumulate):
        raise EmplaceError(
            "batch", f"is not a list of {accumulate} micro-batches", "pass a list, or no accumulate="
        )
    tracer = _Tracer(model, batch, loss, optimizer, autocast, accumulate)
    with unchanged(model, optimizer):
        try:
            tracer.run()
        except Exception as error:
            if (refusal := calls_functions(error)) is not None:
                raise refusal from None  # Without the inside of torch.
            if isinstance(error, EmplaceError):
                raise
            first = (str(error) or type(error).__name__).splitlines()[0]
            raise EmplaceError(
                user_line_of(error),
                f"{type(error).__name__} while tracing: {first}",
                "the step must run in plain PyTorch, with fixed shapes and without tensor values",
            ) from error
    return Graph._from_dict(*tracer.finish(name or type(model).__name__))


class _Tracer:
    """One trace."""

    def __init__(
        self,
        model: torch.nn.Module,
        batch: Any,
        loss: Loss | None,
        optimizer: torch.optim.Optimizer | None,
        autocast: torch.dtype | None,
        accumulate: int | None,
    ) -> None:
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self.autocast, self.accumulate = autocast, accumulate
        self.batch = TreeBatch(batch)
        self.batch_leaves = self.batch.flatten(batch)
        self.mode = FakeTensorMode()
        self.scopes = Scopes()
        self.recorder = Recorder(self.mode, self.scopes)
        self.watcher = Watcher(self.recorder)
        self.arguments = Arguments(self.recorder)
        self.outputs: list[StepOutput] = []
        self.parameters: dict[str, torch.Tensor] = {}
        self.results: list[Node] = []
        self.gradients: dict[str, str] = {}
        self.result_spec: TreeResult | None = None
        self.update: Update | None = None
        self.float32 = float32_use()

    # -- arguments ------------------------------------------------------------------------------------------

    def _model_tensors(self) -> None:
        root, arguments = type(self.model).__name__, self.arguments
        for table, kind in (("_parameters", "parameter"), ("_buffers", "buffer")):
            for prefix, module in self.model.named_modules():
                for key, tensor in getattr(module, table).items():
                    if tensor is None or id(tensor) in arguments.fakes:
                        continue
                    name = f"{prefix}.{key}" if prefix else key
                    fake = compat.fake_like(self.mode, tensor)
                    if kind == "parameter":
                        with self.mode:
                            fake = torch.nn.Parameter(fake, requires_grad=tensor.requires_grad)
                        self._copy_hooks(name, tensor, fake)
                        self.parameters[name] = fake
                        self.scopes.log.trainable |= {name} if tensor.requires_grad else set()
                    arguments.fakes[id(tensor)], arguments.names[id(tensor)] = fake, name
                    self.recorder.state_tensors[id(tensor)] = tensor
                    entry = StepInput(kind, name, None, name)  # type: ignore[arg-type]
                    arguments.add(entry, fake, path_of(prefix, root), ModuleSlot(name, module, table, key))

    def _copy_hooks(self, name: str, tensor: torch.Tensor, fake: torch.Tensor) -> None:
        for hook in (tensor._backward_hooks or {}).values():
            fake.register_hook(hook)  # type: ignore[no-untyped-call]
        if getattr(tensor, "_post_accumulate_grad_hooks", None):
            raise EmplaceError(
                f"parameter {name}",
                "has a hook that runs after its gradient is accumulated",
                "remove the hook; the optimizer's step is traced as optimizer.step()",
            )

    def _batch_tensors(self) -> Any:
        fakes = []
        for name, leaf in zip(self.batch.names, self.batch_leaves):
            fake = compat.fake_like(self.mode, leaf)
            if leaf.requires_grad:
                fake.requires_grad_()
            self.arguments.add(StepInput("input", name, None, name), fake, "input", None)
            fakes.append(fake)
        return self.batch.unflatten(fakes)

    # -- the step -------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Runs the step on fake tensors."""
        self._model_tensors()
        batch = self._batch_tensors()
        if self.optimizer is not None:
            self.update = Update(self.arguments, self.watcher, self.optimizer, type(self.model).__name__)
        swap(self.model, self.arguments.fakes)
        with contextlib.ExitStack() as stack:
            stack.enter_context(compat.without_ranges())
            stack.enter_context(self.recorder.draws.following())
            stack.enter_context(self.scopes.following(self.model))
            with self._modes():
                if self.loss is None:
                    self._inference(batch)
                else:
                    self._training(batch)
                torch.clear_autocast_cache()
            if self.update is not None:
                self.scopes.phase = "update"
                self.update.prepare()
                with self._modes():
                    self.update.run()
            if self.loss is not None:
                with self._modes():
                    self._new_values()

    @contextlib.contextmanager
    def _modes(self) -> Iterator[None]:
        with self.mode, self.recorder, self.watcher:
            yield

    def _cast(self) -> contextlib.AbstractContextManager[Any]:
        if self.autocast is None:
            return contextlib.nullcontext()
        fakes = self.arguments.fakes
        device = next(iter(fakes.values())).device.type if fakes else "cpu"
        return torch.autocast(device, dtype=self.autocast)

    def _inference(self, batch: Any) -> None:
        with torch.no_grad(), self._cast():
            self.result_spec = TreeResult(call_model(self.model, batch))
        for name, tensor in zip(self.result_spec.names, self.result_spec.tensors):
            self.outputs.append(StepOutput("result", name))
            self.results.append(self.recorder.node_of(tensor))
        self._buffers()

    def _training(self, batch: Any) -> None:
        assert self.loss is not None
        total: torch.Tensor | None = None
        with torch.enable_grad():
            for micro in batch if self.accumulate is not None else (batch,):
                self.scopes.phase = "forward"
                with self._cast():
                    loss = self.loss(self.model, micro)
                self._check_loss(loss)
                if self.accumulate is not None:
                    loss = loss / self.accumulate
                self.scopes.mark(loss.grad_fn)
                self.scopes.phase = "backward"
                self.scopes.differentiated = None
                self.scopes.stack.clear()
                compat.backward(loss)
                self.scopes.stack.clear()
                self.scopes.differentiated = None
                self.scopes.log.starts.append(len(self.scopes.log.calls))
                loss = loss.detach()
                self.scopes.phase = "forward"
                total = loss if total is None else total + loss
        assert total is not None
        self.result_spec = TreeResult(total)
        self.outputs.append(StepOutput("loss", "loss"))
        self.results.append(self.recorder.node_of(total))
        for name, parameter in self.parameters.items():
            if parameter.grad is not None:
                node = self.recorder.node_of(parameter.grad)
                self.gradients[name] = node.name
                self.recorder.owners[node.name] = name

    def _check_loss(self, loss: Any) -> None:
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            what = (
                f"a tensor of shape {tuple(loss.shape)}"
                if isinstance(loss, torch.Tensor)
                else type(loss).__name__
            )
            raise EmplaceError("loss", f"returned {what}", "return a scalar tensor from loss(model, batch)")
        if loss.grad_fn is None:
            raise EmplaceError(
                "loss",
                "does not depend on any parameter that requires a gradient",
                "compute it from the model's output, without no_grad() and detach()",
            )

    # -- results --------------------------------------------------------------------------------------------

    def _changed(self, kind: str, name: str, fake: torch.Tensor) -> None:
        value = value_of(fake)
        if value.cell.written:
            self.outputs.append(StepOutput(kind, name))  # type: ignore[arg-type]
            self.results.append(self.recorder.node_of(fake))

    def _buffers(self) -> None:
        """New values of buffers, also of those that the forward exchanged for other tensors."""
        names, fakes = self.arguments.names, self.arguments.fakes
        buffers = {names[i]: fake for i, fake in fakes.items() if names[i] not in self.parameters}
        exchanged = []
        for name, fake in buffers.items():
            path, _, key = name.rpartition(".")
            tensor = self.model.get_submodule(path)._buffers.get(key)
            if tensor is None or tensor is fake:
                continue
            if tensor.shape != fake.shape or tensor.dtype != fake.dtype:
                raise EmplaceError(
                    f"buffer {name}",
                    "has another shape or type after the step",
                    "keep the shapes and types of buffers fixed",
                )
            exchanged.append((fake, self.recorder.node_of(tensor)))
        for fake, node in exchanged:
            value_of(fake).write(self.recorder.emit, node)
        for name, fake in buffers.items():
            self._changed("buffer", name, fake)

    def _new_values(self) -> None:
        for name, parameter in self.parameters.items():
            self._changed("parameter", name, parameter)
        self._buffers()
        if self.update is not None:
            for output, node in self.update.results():
                self.outputs.append(output)
                self.results.append(node)

    def finish(self, name: str) -> tuple[dict[str, Any], TracedStep]:
        """The document and the step."""
        graph = self.recorder.graph
        graph.output(tuple(self.results))
        prune(graph, self.recorder.random_nodes, set(self.gradients.values()))
        constants = {n.target: self.recorder.constants[n.target] for n in graph.nodes if n.op == "get_attr"}
        for node in reversed(list(graph.nodes)):
            self._final_scope(node)
        module = compat.graph_module(constants, graph, name)
        maker = DocumentMaker(module, self.arguments.inputs)
        ops = maker.make()
        returned = zip(self.outputs, self.results)
        maker.mark_results(node for output, node in returned if output.kind in ("loss", "result"))
        assert self.result_spec is not None
        step = TracedStep(
            module=module,
            inputs=self.arguments.inputs,
            outputs=self.outputs,
            op_of=maker.op_of,
            random_nodes=self.recorder.random_nodes,
            signature=signature(ops),
            model=self.model,
            optimizer=self.optimizer,
            batch_spec=self.batch,
            result_spec=self.result_spec.forget(),
            gradients=self.gradients,
            slots=self.arguments.slots,
            log=self.scopes.log,
            fixed=fixed_hyperparameters(self.optimizer) if self.optimizer is not None else {},
        )
        meta: dict[str, Any] = {
            "kind": "training" if self.loss is not None else "inference",
            "framework": f"torch {torch.__version__}",
            "precision": str(self.autocast).removeprefix("torch.")
            if self.autocast is not None
            else "as the model's",
            "float32": self.float32,
            "signature": step.signature,
        }
        if notes := maker.notes():
            meta["notes"] = notes
        if self.optimizer is not None:
            meta["optimizer"] = type(self.optimizer).__name__.lower()
            # Its ops are recorded one by one: those that write over nothing take memory.
            meta["temporaries"] = True
        return {
            "format": "emplace-graph v1",
            "name": name,
            "source": "emplace.trace",
            "meta": meta,
            "ops": ops,
        }, step

    def _final_scope(self, node: Node) -> None:
        """An op of the update has the scope of its parameter's module."""
        if node.op not in ("call_function", "get_attr") or node.meta["phase"] != "update":
            return
        parameter = node.meta.get("parameter")
        if (
            parameter is None
        ):  # Made from nothing, such as a constant: it belongs to its reader, if it has only one.
            readers = {reader.meta.get("parameter") for reader in node.users}
            parameter = readers.pop() if len(readers) == 1 else None
            node.meta["parameter"] = parameter
        if parameter is not None:
            path = parameter.rpartition(".")[0]
            node.meta["scope"] = path_of(path, type(self.model).__name__)
