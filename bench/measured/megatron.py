"""One micro-batch of Megatron's GPT in FP16, as an op graph, with the kernels that Megatron fuses as one op.

The kernels are those of the model in vTrain's source: layer norms of Apex, a fused scale, mask and softmax,
a fused bias and GELU, a fused bias, dropout and residual sum, FP32 master weights and one Adam kernel for each
layer. The scores of attention are in memory: it is older than fused attention.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from measured.step_graph import StepGraph

HALF, SINGLE = "f16", "f32"


@dataclass(frozen=True)
class Gpt:
    """A model and its micro-batch."""

    hidden: int
    heads: int
    layers: int
    sequence: int
    batch: int
    vocabulary: int
    tied: bool  # Whether the head reads the table of the embedding: with one stage.
    recompute: bool = False  # Whether layers run again for their backward pass.

    def layer_shapes(self) -> dict[str, tuple[int, ...]]:
        """The parameters of a layer."""
        h = self.hidden
        shapes: dict[str, tuple[int, ...]] = {}
        for name, rows, columns in (("qkv", 3 * h, h), ("out", h, h), ("up", 4 * h, h), ("down", h, 4 * h)):
            shapes[f"{name}_w"], shapes[f"{name}_b"] = (rows, columns), (rows,)
        for name in ("ln1_w", "ln1_b", "ln2_w", "ln2_b"):
            shapes[name] = (h,)
        return shapes

    def parameters(self, stages: int) -> list[int]:
        """[stages] Parameters of each stage."""
        layer = sum(math.prod(shape) for shape in self.layer_shapes().values())
        counts = [layer * self.layers // stages] * stages
        counts[0] += (self.vocabulary + self.sequence) * self.hidden
        counts[-1] += 2 * self.hidden + (0 if self.tied else self.vocabulary * self.hidden)
        return counts


def layer_name(layer: int) -> str:
    """The part of a layer."""
    return f"layer{layer:02}"


@dataclass
class _Writer:
    """Writes the graph of a model."""

    model: Gpt
    graph: StepGraph
    weights: dict[tuple[str, str], int] = field(default_factory=dict)
    gradients: dict[tuple[str, str], Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        m = self.model
        self.rows, self.width = m.sequence * m.batch, m.hidden
        self.stream = (m.sequence, m.batch, m.hidden)
        self.lots, self.size = m.batch * m.heads, m.hidden // m.heads
        self.scores = (self.lots, m.sequence, m.sequence)
        self.head = (self.lots, m.sequence, self.size)

    def weight(self, name: str) -> int:
        return self.weights[self.graph.part, name]

    def parameters(self, part: str, shapes: dict[str, tuple[int, ...]]) -> None:
        self.graph.part = part
        for name, shape in shapes.items():
            self.weights[part, name] = self.graph.add(name, "Parameter", [], (HALF, shape))

    def norm(self, name: str, x: int) -> int:
        statistics = (SINGLE, (*self.stream[:2], 1))
        inputs = [x, self.weight(f"{name}_w"), self.weight(f"{name}_b")]
        return self.graph.add(
            name, "aten::native_layer_norm", inputs, (HALF, self.stream), statistics, statistics
        )

    def norm_backward(self, name: str, gradient: int, x: int, norm: int) -> int:
        inputs = [gradient, x, (norm, 1), (norm, 2), self.weight(f"{name}_w"), self.weight(f"{name}_b")]
        thin = (HALF, (self.width,))
        kind = "aten::native_layer_norm_backward"
        op = self.graph.add(f"{name}_backward", kind, inputs, (HALF, self.stream), thin, thin)
        for k, end in enumerate("wb"):
            self.gradients[self.graph.part, f"{name}_{end}"] = (op, k + 1)
        return op

    def product(self, name: str, x: int, bias: bool = False) -> int:
        rows, columns = self.model.layer_shapes()[f"{name}_w"]
        turned = self.graph.view("t", self.weight(f"{name}_w"), (columns, rows))
        inputs = [self.weight(f"{name}_b"), x, turned] if bias else [x, turned]
        return self.graph.add(name, "aten::addmm" if bias else "aten::mm", inputs, (HALF, (self.rows, rows)))

    def product_backward(self, name: str, gradient: int, x: int) -> int:
        rows, columns = self.model.layer_shapes()[f"{name}_w"]
        graph, part = self.graph, self.graph.part
        result = graph.add(
            f"{name}_input_gradient",
            "aten::mm",
            [gradient, self.weight(f"{name}_w")],
            (HALF, (self.rows, columns)),
        )
        turned = graph.view("t", gradient, (rows, self.rows))
        self.gradients[part, f"{name}_w"] = graph.add(
            f"{name}_weight_gradient", "aten::mm", [turned, x], (HALF, (rows, columns))
        )
        self.gradients[part, f"{name}_b"] = graph.add(
            f"{name}_bias_gradient", "aten::sum", [gradient], (HALF, (rows,)), attrs={"dim": [0]}
        )
        return result

    def dropped(self, name: str, inputs: list[int], shape: tuple[int, ...]) -> int:
        return self.graph.add(name, "aten::native_dropout", inputs, (HALF, shape), ("bool", shape))

    def dropped_backward(self, name: str, gradient: int, of: int, shape: tuple[int, ...]) -> int:
        return self.graph.add(name, "aten::native_dropout_backward", [gradient, (of, 1)], (HALF, shape))

    def layer(self, x: int) -> dict[str, int]:
        """The forward pass of a layer: the tensors that its backward pass reads."""
        graph, m = self.graph, self.model
        flat, s = (self.rows, self.width), {"x": x}
        s["ln1"] = self.norm("ln1", x)
        s["qkv_x"] = graph.view("view", s["ln1"], flat)
        qkv = self.product("qkv", s["qkv_x"], bias=True)
        qkv = graph.view("view", qkv, (m.sequence, self.lots, 3 * self.size))
        for name in ("q", "k", "v"):
            part = graph.view("slice", qkv, (m.sequence, self.lots, self.size))
            s[name] = graph.view("transpose", part, self.head)
        keys = graph.view("transpose", s["k"], (self.lots, self.size, m.sequence))
        scores = graph.add("scores", "aten::bmm", [s["q"], keys], (HALF, self.scores))
        s["softmax"] = graph.add(
            "softmax", "aten::_softmax", [scores], (HALF, self.scores), attrs={"dim": -1}
        )
        s["dropout"] = self.dropped("attention_dropout", [s["softmax"]], self.scores)
        context = graph.add("context", "aten::bmm", [s["dropout"], s["v"]], (HALF, self.head))
        merged = graph.add("merge", "aten::clone", [context], (HALF, (m.sequence, self.lots, self.size)))
        s["out_x"] = graph.view("view", merged, flat)
        out = graph.view("view", self.product("out", s["out_x"]), self.stream)
        s["sum1"] = self.dropped("bias_dropout_sum1", [out, self.weight("out_b"), x], self.stream)
        s["ln2"] = self.norm("ln2", s["sum1"])
        s["up_x"] = graph.view("view", s["ln2"], flat)
        s["up"] = self.product("up", s["up_x"])
        wide = (self.rows, 4 * self.width)
        s["down_x"] = graph.add("bias_gelu", "aten::gelu", [s["up"], self.weight("up_b")], (HALF, wide))
        down = graph.view("view", self.product("down", s["down_x"]), self.stream)
        s["sum2"] = self.dropped("bias_dropout_sum2", [down, self.weight("down_b"), s["sum1"]], self.stream)
        return s

    def layer_backward(self, gradient: int, s: dict[str, int]) -> int:
        graph = self.graph
        flat = (self.rows, self.width)
        dropped = self.dropped_backward("dropout2_backward", gradient, s["sum2"], self.stream)
        wide = self.product_backward("down", graph.view("view", dropped, flat), s["down_x"])
        inputs = [wide, s["up"], self.weight("up_b")]
        gelu = graph.add("gelu_backward", "aten::gelu_backward", inputs, (HALF, (self.rows, 4 * self.width)))
        up = graph.view("view", self.product_backward("up", gelu, s["up_x"]), self.stream)
        norm = self.norm_backward("ln2", up, s["sum1"], s["ln2"])
        gradient = graph.add("sum2", "aten::add", [gradient, norm], (HALF, self.stream))
        dropped = self.dropped_backward("dropout1_backward", gradient, s["sum1"], self.stream)
        out = self.product_backward("out", graph.view("view", dropped, flat), s["out_x"])
        qkv = self.attention_backward(out, s)
        norm = graph.view("view", self.product_backward("qkv", qkv, s["qkv_x"]), self.stream)
        norm = self.norm_backward("ln1", norm, s["x"], s["ln1"])
        return graph.add("sum1", "aten::add", [gradient, norm], (HALF, self.stream))

    def attention_backward(self, out: int, s: dict[str, int]) -> int:
        graph, m = self.graph, self.model
        turned = (self.lots, self.size, m.sequence)
        context = graph.view("view", out, (m.sequence, self.lots, self.size))
        context = graph.view("transpose", context, self.head)
        weights = graph.view("transpose", s["dropout"], self.scores)
        values = graph.add("value_gradient", "aten::bmm", [weights, context], (HALF, self.head))
        inputs = [context, graph.view("transpose", s["v"], turned)]
        scores = graph.add("attention_gradient", "aten::bmm", inputs, (HALF, self.scores))
        scores = self.dropped_backward("attention_dropout_backward", scores, s["dropout"], self.scores)
        kind = "aten::_softmax_backward_data"
        inputs = [scores, s["softmax"]]
        scores = graph.add("softmax_backward", kind, inputs, (HALF, self.scores), attrs={"dim": -1})
        queries = graph.add("query_gradient", "aten::bmm", [scores, s["k"]], (HALF, self.head))
        queries = graph.add("scale_queries", "aten::mul", [queries], (HALF, self.head))
        inputs = [graph.view("transpose", s["q"], turned), scores]
        keys = graph.add("key_gradient", "aten::bmm", inputs, (HALF, turned))
        keys = graph.add("scale_keys", "aten::mul", [keys], (HALF, turned))
        joined = (m.sequence, self.lots, 3 * self.size)
        qkv = graph.add("cat", "aten::cat", [queries, keys, values], (HALF, joined), attrs={"dim": 2})
        return graph.view("view", qkv, (self.rows, 3 * self.width))

    def loss_and_gradient(self, x: int, head: int, labels: int) -> int:
        """Megatron's cross entropy in FP32, and its gradient with respect to the last layer's result."""
        graph, m = self.graph, self.model
        wide, thin = (m.batch, m.sequence, m.vocabulary), (m.batch, m.sequence, 1)
        norm = self.norm("ln", x)
        plain = graph.add("transpose", "aten::clone", [norm], (HALF, (m.batch, m.sequence, self.width)))
        plain = graph.view("view", plain, (self.rows, self.width))
        turned = graph.view("t", head, (self.width, m.vocabulary))
        logits = graph.add("logits", "aten::mm", [plain, turned], (HALF, (self.rows, m.vocabulary)))
        logits = graph.add("float", "aten::_to_copy", [logits], (SINGLE, wide))
        most = graph.add("max", "aten::amax", [logits], (SINGLE, thin), attrs={"dim": [-1]})
        logits = graph.add("sub", "aten::sub", [logits, most], (SINGLE, wide))
        own = graph.add("gather", "aten::gather", [logits, labels], (SINGLE, thin))
        powers = graph.add("exp", "aten::exp", [logits], (SINGLE, wide))
        total = graph.add("total", "aten::sum", [powers], (SINGLE, thin), attrs={"dim": [-1]})
        loss = graph.add("log", "aten::log", [total], (SINGLE, thin))
        loss = graph.add("loss", "aten::sub", [loss, own], (SINGLE, thin))
        shares = graph.add("div", "aten::div", [powers, total], (SINGLE, wide))
        graph.phase = "backward"
        each = graph.add("mean_backward", "aten::div", [loss], (SINGLE, thin))
        spots = graph.add("scatter", "aten::index_put", [shares, labels], (SINGLE, thin))
        shares = graph.add("mul", "aten::mul", [shares, each, spots], (SINGLE, wide))
        shares = graph.add("half", "aten::_to_copy", [shares], (HALF, (self.rows, m.vocabulary)))
        inputs = [graph.view("t", shares, (m.vocabulary, self.rows)), plain]
        table = (HALF, (m.vocabulary, self.width))
        self.gradients["head", "word"] = graph.add("word_gradient", "aten::mm", inputs, table)
        gradient = graph.add("input_gradient", "aten::mm", [shares, head], (HALF, (self.rows, self.width)))
        gradient = graph.add("transpose", "aten::clone", [gradient], (HALF, self.stream))
        return self.norm_backward("ln", gradient, x, norm)

    def embedding(self) -> int:
        graph, m = self.graph, self.model
        plain = (m.batch, m.sequence, self.width)
        tables = []
        for name in ("word", "position"):
            ids = graph.add(f"{name}_ids", "Input", [], ("i64", (m.batch, m.sequence)))
            inputs = [self.weight(name), ids]
            tables.append(graph.add(f"{name}_embedding", "aten::embedding", inputs, (HALF, plain)))
        x = graph.add("add", "aten::add", tables, (HALF, plain))
        self.embedded = self.dropped("dropout", [x], plain)
        return graph.add("transpose", "aten::clone", [self.embedded], (HALF, self.stream))

    def embedding_backward(self, gradient: int) -> None:
        graph, m = self.graph, self.model
        plain = (m.batch, m.sequence, self.width)
        gradient = graph.add("transpose", "aten::clone", [gradient], (HALF, plain))
        gradient = self.dropped_backward("dropout_backward", gradient, self.embedded, plain)
        kind = "aten::embedding_dense_backward"
        for name, rows in (("position", m.sequence), ("word", m.vocabulary)):
            table = graph.add(f"{name}_gradient", kind, [gradient], (HALF, (rows, self.width)))
            if name == "word" and m.tied:
                both = [self.gradients.pop(("head", "word")), table]
                table = graph.add("word_sum", "aten::add", both, (HALF, (rows, self.width)))
            self.gradients["embedding", name] = table

    def updates(self) -> None:
        graph = self.graph
        graph.phase = "update"
        for part in graph.parts():
            graph.part = part
            own = [key for key in self.weights if key[0] == part]
            count = sum(math.prod(graph.ops[self.weights[key]]["outputs"][0]["shape"]) for key in own)
            flat = (SINGLE, (count,))
            state = [graph.add(key, "OptimizerState", [], flat) for key in ("master", "mean", "variance")]
            gradients = [self.gradients[key] for key in own]
            graph.add("adam", "aten::addcdiv", state + gradients, flat, flat, flat, (HALF, (count,)))


def step(model: Gpt) -> StepGraph:
    """The step of one micro-batch. Its parts are `embedding`, the layers and `head`."""
    name = f"gpt-{model.hidden}-{model.layers}-{model.sequence}-{model.batch}"
    graph = StepGraph(name, batch=model.batch, framework="torch", precision="fp16", optimizer="adam")
    writer = _Writer(model, graph)
    h, names = model.hidden, [layer_name(layer) for layer in range(model.layers)]
    writer.parameters("embedding", {"word": (model.vocabulary, h), "position": (model.sequence, h)})
    for part in names:
        writer.parameters(part, model.layer_shapes())
    own = {} if model.tied else {"word": (model.vocabulary, h)}
    writer.parameters("head", {"ln_w": (h,), "ln_b": (h,), **own})
    labels = graph.add("labels", "Input", [], ("i64", (model.batch, model.sequence)))
    graph.part = "embedding"
    x = writer.embedding()
    saved = []
    for part in names:
        graph.part = part
        saved.append(writer.layer(x))
        x = saved[-1]["sum2"]
    graph.part = "head"
    head = writer.weights["embedding" if model.tied else "head", "word"]
    gradient = writer.loss_and_gradient(x, head, labels)
    for part, tensors in zip(reversed(names), reversed(saved)):
        graph.part = part
        if model.recompute:
            tensors = writer.layer(tensors["x"])
        gradient = writer.layer_backward(gradient, tensors)
    graph.part = "embedding"
    writer.embedding_backward(gradient)
    writer.updates()
    return graph
