#!/usr/bin/env python3
"""Writes graphs as TensorFlow's users have them, with the facts that TensorFlow computes about each.

    usage: tests/models/tensorflow_graphs.py OUT [NAME ...]      (no NAME: all that this TensorFlow can make)
           tests/models/tensorflow_graphs.py OUT --small         (the fixtures of tests/fixtures/tensorflow)

Needs TensorFlow: 2.16 or later (Keras 3) makes the graphs marked "keras3", 2.12 those marked "v1"; run it once with each.
`trained_bytes` are those of a model's weights, without the states of its random seeds. Each graph is written as OUT/NAME.pb with and as OUT/NAME.bare.pb without its output shapes, but for those that have a form of
their own (a SavedModel's folder, a .meta, a .pbtxt). OUT/truth.json gets, by name: the number of nodes, the bytes of the trained
variables and of all of them, and the floating-point operations of TensorFlow's profiler, in all and by op type.
"""

import gzip
import json
import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

KERAS3 = tf.__version__.split(".") >= ["2", "16"]
v1 = tf.compat.v1
GRAPHS = {}


def graph(era):
    """Registers a function that returns what `write` takes, under its name; `era` is what it needs."""
    def register(function):
        if KERAS3 == (era == "keras3"):
            GRAPHS[function.__name__] = function
        return function
    return register


def variable_bytes(variables):
    return int(sum(np.prod(v.shape.as_list() if hasattr(v.shape, "as_list") else v.shape) * tf.as_dtype(v.dtype).size
                   for v in variables))


def flops_of(made):
    """The operations that TensorFlow's profiler counts, in all and by op type, and the number of ops that it skips."""
    options = v1.profiler.ProfileOptionBuilder.float_operation()
    options["output"] = "none"
    try:
        v1.profiler.profile(made, options=options)  # Registers the rules, and fills in shapes.
    except Exception:
        pass
    from tensorflow.python.framework import ops
    by_type, unknown = {}, 0
    with made.as_default():
        for op in made.get_operations():
            try:
                count = ops.get_stats_for_node_def(made, op.node_def, "flops").value
            except Exception:
                unknown += 1
                continue
            if count:
                by_type[op.type] = by_type.get(op.type, 0) + int(count)
    return {"all": sum(by_type.values()), "by_type": dict(sorted(by_type.items())), "unknown": unknown}


def stripped(graph_def):
    """The graph without the values of weights, which no test reads, so that a fixture is small."""
    nodes = list(graph_def.node) + [n for f in graph_def.library.function for n in f.node_def]
    for node in nodes:
        if node.op == "Const" and len(node.attr["value"].tensor.tensor_content) > 256:
            node.attr["value"].tensor.tensor_content = b""
    return graph_def


def frozen(function, lower=True):
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2
    return convert_variables_to_constants_v2(function, lower_control_flow=lower)


class Output:
    def __init__(self, folder, small):
        self.folder, self.small, self.truth = pathlib.Path(folder), small, {}
        self.folder.mkdir(parents=True, exist_ok=True)

    def add_facts(self, name, made, trained, state=None, nodes=None):
        self.truth[name] = {"nodes": len(made.get_operations()) if nodes is None else nodes,
                            "trained_bytes": variable_bytes(trained),
                            "state_bytes": variable_bytes(trained if state is None else state), "flops": flops_of(made),
                            "tensorflow": tf.__version__}

    def put(self, name, data):
        if self.small:
            (self.folder / (name + ".gz")).write_bytes(gzip.compress(data, 9, mtime=0))
        else:
            (self.folder / name).write_bytes(data)

    def graph(self, name, made, trained, state=None, bare=True):
        self.add_facts(name, made, trained, state)
        for ending, shapes in ((".pb", True), (".bare.pb", False)) if bare else ((".pb", True),):
            graph_def = made.as_graph_def(add_shapes=shapes)
            if self.small:
                stripped(graph_def)
            self.put(name + ending, graph_def.SerializeToString(deterministic=True))


# ---- Keras 3: what a user of TensorFlow 2 has ------------------------------------------------------------------------


def forward_of(model, shape, dtype=tf.float32):
    function = tf.function(lambda x: model(x, training=False))
    return function.get_concrete_function(tf.TensorSpec(shape, dtype))


def frozen_model(out, name, model, shape):
    out.graph(name, frozen(forward_of(model, shape)).graph, model.weights)


@graph("keras3")
def resnet50(out):
    model = tf.keras.applications.ResNet50(weights=None)
    frozen_model(out, "resnet50", model, [8, 224, 224, 3])
    frozen_model(out, "resnet50_open", model, [None, 224, 224, 3])
    out.graph("resnet50_function", forward_of(model, [8, 224, 224, 3]).graph, model.weights)


@graph("keras3")
def mobilenet(out):
    frozen_model(out, "mobilenet", tf.keras.applications.MobileNetV3Large(weights=None), [8, 224, 224, 3])


@graph("keras3")
def efficientnet(out):
    frozen_model(out, "efficientnet", tf.keras.applications.EfficientNetB0(weights=None), [8, 224, 224, 3])


@graph("keras3")
def lstm(out):
    keras = tf.keras
    units, features, classes, steps = (16, 8, 10, 5) if out.small else (512, 256, 1000, 20)
    model = keras.Sequential([keras.layers.Input([steps, features], batch_size=16),
                              keras.layers.LSTM(units, return_sequences=True), keras.layers.LSTM(units),
                              keras.layers.Dense(classes)])
    function = forward_of(model, [16, steps, features])
    out.graph("lstm_lowered", frozen(function).graph, model.weights, bare=True)
    out.graph("lstm_functions", frozen(function, lower=False).graph, model.weights, bare=True)


def transformer_model(out):
    keras = tf.keras
    width, words, blocks, steps = (16, 50, 1, 8) if out.small else (256, 8000, 4, 64)
    tokens = keras.layers.Input([steps], dtype="int32")
    x = keras.layers.Embedding(words, width)(tokens)
    for _ in range(blocks):
        attended = keras.layers.MultiHeadAttention(8, width // 8)(x, x, use_causal_mask=True)
        x = keras.layers.LayerNormalization()(x + attended)
        wide = keras.layers.Dense(4 * width, activation="gelu")(x)
        x = keras.layers.LayerNormalization()(x + keras.layers.Dense(width)(wide))
    return keras.Model(tokens, keras.layers.Dense(words)(x)), [8, steps]


@graph("keras3")
def transformer(out):
    model, shape = transformer_model(out)
    if not out.small:
        out.graph("transformer", frozen(forward_of(model, shape, tf.int32)).graph, model.weights)
    optimizer = tf.keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    made = step.get_concrete_function(tf.TensorSpec(shape, tf.int32), tf.TensorSpec(shape, tf.int32)).graph
    out.graph("transformer_step", made, model.variables, [*model.variables, *optimizer.variables])


@graph("keras3")
def nested(out):
    class Net(tf.Module):
        def __init__(self):
            super().__init__()
            self.weights = [tf.Variable(tf.zeros([256, 256])), tf.Variable(tf.zeros([256, 256])),
                            tf.Variable(tf.zeros([256, 20]))]

        @tf.function
        def layer(self, x, weight):
            return tf.nn.relu(x @ weight)

        @tf.function(input_signature=[tf.TensorSpec([32, 256])])
        def __call__(self, x):
            for weight in self.weights:
                x = self.layer(x, weight)
            return x

    net = Net()
    function = net.__call__.get_concrete_function()
    out.graph("nested", function.graph, net.variables)
    if not out.small:
        out.graph("nested_frozen", frozen(function).graph, net.variables)


def saved(out, name, path, variables):
    from tensorflow.core.protobuf import saved_model_pb2
    model = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    out.truth[name] = {"trained_bytes": variable_bytes(variables), "state_bytes": variable_bytes(variables),
                       "nodes": len(model.meta_graphs[0].graph_def.node),
                       "functions": len(model.meta_graphs[0].graph_def.library.function), "tensorflow": tf.__version__}


@graph("keras3")
def saved_model(out):
    keras = tf.keras
    if out.small:
        model = keras.Sequential([keras.layers.Input([12, 12, 3]), keras.layers.Conv2D(8, 3, activation="swish"),
                                  keras.layers.BatchNormalization(), keras.layers.GlobalAveragePooling2D(),
                                  keras.layers.Dense(10)])
    else:
        model = keras.applications.EfficientNetB0(weights=None)
    path = out.folder / "saved_model"
    model.export(path, verbose=False)
    saved(out, "saved_model", path, model.weights)
    if out.small:
        import shutil
        out.put("saved_model.pb", (path / "saved_model.pb").read_bytes())
        shutil.rmtree(path)


@graph("keras3")
def text(out):
    model, shape = transformer_model(out)
    made = frozen(forward_of(model, shape, tf.int32)).graph
    if not out.small:
        out.add_facts("text", made, model.weights)
        tf.io.write_graph(stripped(made.as_graph_def(add_shapes=True)), str(out.folder), "text.pbtxt")


@graph("keras3")
def branches(out):
    if not out.small:
        return
    weight = tf.Variable(tf.zeros([64, 64]))

    @tf.function(input_signature=[tf.TensorSpec([8, 64]), tf.TensorSpec([], tf.int32)])
    def net(x, which):
        if which > 0:
            x = tf.nn.relu(x @ weight)
        x = tf.switch_case(which, [lambda: x + 1.0, lambda: x @ x[0:8, 0:8] if False else tf.tanh(x)])
        for _ in tf.range(which):
            x = tf.sigmoid(x @ weight)
        return x

    out.graph("branches", net.get_concrete_function().graph, [weight])


# ---- graph mode, with gradients and optimisers of version 1 ----------------------------------------------------------


def v1_graph(out, name, build, bare=True, meta=False):
    with tf.Graph().as_default() as made:
        build()
        if meta:
            v1.train.Saver()
        out.graph(name, made, v1.trainable_variables(), v1.global_variables(), bare)
        if meta:
            path = out.folder / (name + ".meta")
            v1.train.export_meta_graph(str(path))
            if out.small:
                out.put(path.name, path.read_bytes())
                path.unlink()


def cross_entropy(labels, logits):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))


@graph("v1")
def mlp(out):
    def build():
        wide = 32 if out.small else 512
        x, y = v1.placeholder(tf.float32, [None, 784], "x"), v1.placeholder(tf.int64, [None], "y")
        w = [v1.get_variable("w0", [784, wide]), v1.get_variable("b0", [wide]), v1.get_variable("w1", [wide, 10]),
             v1.get_variable("b1", [10])]
        logits = tf.nn.relu(x @ w[0] + w[1]) @ w[2] + w[3]
        v1.train.AdamOptimizer().minimize(cross_entropy(y, logits))
    v1_graph(out, "mlp", build, meta=True)


def image_step(out, name, network, size, batch, optimizer, waits=True):
    def build():
        x, y = v1.placeholder(tf.float32, [batch, size, size, 3], "x"), v1.placeholder(tf.int64, [batch], "y")
        v1.keras.backend.set_learning_phase(True)
        model = network(x)
        updates = [update for update in model.updates]
        loss = cross_entropy(y, model.outputs[0])
        with tf.control_dependencies(updates if waits else []):
            optimizer().minimize(loss)
    v1_graph(out, name, build)


@graph("v1")
def resnet50_step(out):
    image_step(out, "resnet50_step", lambda x: tf.keras.applications.ResNet50(weights=None, input_tensor=x,
                                                                              classifier_activation=None), 224, 32,
               lambda: v1.train.MomentumOptimizer(0.1, 0.9))


@graph("v1")
def inception_step(out):
    for name, waits in (("inception_step", True), ("inception_free", False)):
        image_step(out, name, lambda x: tf.keras.applications.InceptionV3(weights=None, input_tensor=x,
                                                                          classifier_activation=None), 299, 32,
                   lambda: v1.train.RMSPropOptimizer(0.1), waits)


@graph("v1")
def control_edges(out):
    """The batch norm idiom of version 1's documentation, small: every update before every gradient."""
    if not out.small:
        return

    def network(x):
        keras = tf.keras
        inputs = keras.layers.Input(tensor=x)
        y = inputs
        for _ in range(6):
            y = keras.layers.ReLU()(keras.layers.BatchNormalization()(keras.layers.Conv2D(8, 3, use_bias=False)(y)))
        return keras.Model(inputs, keras.layers.Dense(10)(keras.layers.GlobalAveragePooling2D()(y)))
    image_step(out, "control_edges", network, 32, 8, lambda: v1.train.RMSPropOptimizer(0.1))


def rnnlm(width, words, steps, batch, optimizer):
    def build():
        tokens = v1.placeholder(tf.int32, [batch, steps], "tokens")
        labels = v1.placeholder(tf.int32, [batch, steps], "labels")
        embedding = v1.get_variable("embedding", [words, width], use_resource=False)
        x = tf.nn.embedding_lookup(embedding, tokens)
        outputs = tf.unstack(x, axis=1)
        for layer in range(2):
            with v1.variable_scope(f"lstm{layer}"):
                kernel = v1.get_variable("kernel", [2 * width, 4 * width], use_resource=False)
                bias = v1.get_variable("bias", [4 * width], use_resource=False)
                c = h = tf.zeros([batch, width])
                for t in range(steps):
                    gates = tf.nn.bias_add(tf.concat([outputs[t], h], 1) @ kernel, bias)
                    i, j, f, o = tf.split(gates, 4, axis=1)
                    c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(j)
                    h = tf.sigmoid(o) * tf.tanh(c)
                    outputs[t] = h
        w = v1.get_variable("softmax_w", [width, words], use_resource=False)
        b = v1.get_variable("softmax_b", [words], use_resource=False)
        losses = [cross_entropy(labels[:, t], outputs[t] @ w + b) for t in range(steps)]
        optimizer().minimize(tf.add_n(losses) / steps)
    return build


@graph("v1")
def language_model(out):
    if not out.small:
        v1_graph(out, "rnnlm", rnnlm(2048, 10000, 40, 64, lambda: v1.train.GradientDescentOptimizer(1.0)))
    v1_graph(out, "rnnlm_small", rnnlm(16, 50, 2, 4, v1.train.AdamOptimizer) if out.small else
             rnnlm(128, 1000, 10, 16, v1.train.AdamOptimizer))


@graph("v1")
def dynamic_rnn(out):
    def build():
        units, features, classes, steps = (16, 8, 10, 5) if out.small else (512, 256, 1000, 40)
        x = v1.placeholder(tf.float32, [16, steps, features], "x")
        y = v1.placeholder(tf.int64, [16], "y")
        cells = [v1.nn.rnn_cell.LSTMCell(units) for _ in range(2)]
        outputs, _ = v1.nn.dynamic_rnn(v1.nn.rnn_cell.MultiRNNCell(cells), x, dtype=tf.float32)
        w, b = v1.get_variable("w", [units, classes]), v1.get_variable("b", [classes])
        v1.train.AdamOptimizer().minimize(cross_entropy(y, outputs[:, -1] @ w + b))
    v1_graph(out, "dynamic_rnn", build)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    small = "--small" in sys.argv
    names = [one for one in sys.argv[2:] if not one.startswith("--")]
    out = Output(sys.argv[1], small)
    if not KERAS3:
        v1.disable_v2_behavior()
    big = {"resnet50", "mobilenet", "efficientnet", "resnet50_step", "inception_step", "text"}
    truth = out.folder / "truth.json"
    for name, function in GRAPHS.items():
        if names and name not in names or not names and small and name in big:
            continue
        print(name, flush=True)
        tf.keras.backend.clear_session()
        function(out)
        known = json.loads(truth.read_text()) if truth.exists() else {}
        truth.write_text(json.dumps({**known, **out.truth}, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
