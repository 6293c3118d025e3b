#!/usr/bin/env python3
"""Exports 60 models with the default torch.onnx.export, removes their weights, and writes facts about them from torch.

usage: export_models.py OUT [NAME…] [--keep-weights DIR]              export all models, or those named
       export_models.py OUT --collect                                 only write OUT/models.json and OUT/histogram.json again
       export_models.py OUT --large                                   only OUT/llama3_70b.onnx, from an export that allocates no weights

Writes OUT/NAME.onnx.zst (weights left out: initializers keep name, type, shape and the place where their data was), OUT/NAME.json,
and from these OUT/models.json (truth) and OUT/histogram.json (what the files use). tests/models/README.md lists the fields.

Versions: torch 2.15.0, torchvision 0.29.2, timm 1.0.31, transformers 5.23.0, onnx 1.23.2, onnxscript 0.7.2, onnx_ir 1.1.0,
zstandard 0.25.0, Python 3.11.
Weights are random and no network is needed; a model takes 5 to 60 s and at most 2 GB.
"""
import argparse
import collections
import contextlib
import hashlib
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback

os.environ.setdefault("HF_HUB_OFFLINE", "1")

# ---------------------------------------------------------------------------------------------------------------- models


def image(size=224, batch=1):
    return lambda torch: ((torch.randn(batch, 3, size, size),), {})


def vision(name, **options):
    """A torchvision model by the name of its function."""
    def build():
        import torchvision.models as zoo
        for space in (zoo, zoo.segmentation, zoo.video):
            if hasattr(space, name):
                return getattr(space, name)(weights=None, **options)
        raise KeyError(name)
    return build


def vit_small():
    """torchvision's class; its ready-made sizes have 86 million parameters and more."""
    from torchvision.models import VisionTransformer
    return VisionTransformer(image_size=64, patch_size=16, num_layers=4, num_heads=4, hidden_dim=128, mlp_dim=256)


def timm(name, fused=True, **options):
    def build():
        import timm
        timm.layers.set_fused_attn(fused)
        return timm.create_model(name, pretrained=False, **options)
    return build


def hugging(kind, auto, **config):
    """A transformers model of a small configuration of the family `kind`."""
    def build():
        import transformers
        settings = transformers.AutoConfig.for_model(kind, **config)
        if hasattr(settings, "use_cache"):
            settings.use_cache = False  # torch.export refuses a DynamicCache among the outputs.
        if hasattr(settings, "num_local_experts"):
            settings._experts_implementation = "batched_mm"
        return getattr(transformers, auto).from_config(settings)
    return build


def plain(name):
    def build():
        import plain_modules
        return getattr(plain_modules, name)()
    return build


def tokens(batch=2, length=32, vocab=1000, **more):
    """input_ids and an attention mask; `more` are further token inputs by name and length."""
    def inputs(torch):
        kwargs = {"input_ids": torch.randint(3, vocab, (batch, length)), "attention_mask": torch.ones(batch, length, dtype=torch.int64)}
        kwargs |= {key: torch.randint(3, vocab, (batch, n)) for key, n in more.items()}
        return (), kwargs
    return inputs


def floats(**shapes):
    return lambda torch: ((), {key: torch.randn(*shape) for key, shape in shapes.items()})


def arrays(*shapes):
    return lambda torch: (tuple(torch.randn(*shape) for shape in shapes), {})


def clip_inputs(torch):
    args, kwargs = tokens(length=16)(torch)
    return args, kwargs | {"pixel_values": torch.randn(1, 3, 64, 64)}


LM = "AutoModelForCausalLM"
DECODER = dict(vocab_size=1000, hidden_size=128, intermediate_size=352, num_hidden_layers=3, num_attention_heads=4, bos_token_id=1,
               eos_token_id=2, pad_token_id=0)
GROUPED = DECODER | dict(num_key_value_heads=2)
ENCODER = dict(vocab_size=1000, hidden_size=128, intermediate_size=512, num_hidden_layers=3, num_attention_heads=4, pad_token_id=0)

# torch 2.15 cannot export (in its own first two steps), and what stands here instead:
#   transformers' decoders with a cache among the outputs (DynamicCache is no known type): use_cache=False;
#   transformers' experts as a grouped matrix product (no ONNX function for grouped_mm_fallback): batched_mm;
#   timm's fused attention with a relative position bias (beit, maxvit: "Cannot view a tensor"): timm's plain attention, fused=False;
#   transformers' fused attention with one (t5: the same): attn_implementation="eager".
MODELS = {
    # torchvision
    "resnet18": ("torchvision", vision("resnet18"), image()),
    "resnet50": ("torchvision", vision("resnet50"), image()),
    "mobilenet_v3_large": ("torchvision", vision("mobilenet_v3_large"), image()),
    "efficientnet_b0": ("torchvision", vision("efficientnet_b0"), image()),
    "densenet121": ("torchvision", vision("densenet121"), image()),
    "vit_small": ("torchvision", vit_small, image(64, 2)),
    "swin_t": ("torchvision", vision("swin_t"), image()),
    "convnext_tiny": ("torchvision", vision("convnext_tiny"), image()),
    "regnet_y_400mf": ("torchvision", vision("regnet_y_400mf"), image()),
    "googlenet": ("torchvision", vision("googlenet", init_weights=False), image()),
    "inception_v3": ("torchvision", vision("inception_v3", init_weights=False), image(299)),
    "deeplabv3_mobilenet_v3_large": ("torchvision", vision("deeplabv3_mobilenet_v3_large", weights_backbone=None), image()),
    "shufflenet_v2_x0_5": ("torchvision", vision("shufflenet_v2_x0_5"), image()),
    "r3d_18": ("torchvision", vision("r3d_18"), arrays((1, 3, 8, 64, 64))),
    # timm
    "resnet26d": ("timm", timm("resnet26d"), image()),
    "tf_efficientnetv2_b0": ("timm", timm("tf_efficientnetv2_b0"), image(192)),
    "volo_d1_224": ("timm", timm("volo_d1_224"), image()),
    "xcit_nano_12_p16_224": ("timm", timm("xcit_nano_12_p16_224"), image()),
    "hrnet_w18_small": ("timm", timm("hrnet_w18_small"), image()),
    "coatnet_pico_rw_224": ("timm", timm("coatnet_pico_rw_224"), image()),
    "maxvit_rmlp_pico_rw_256": ("timm", timm("maxvit_rmlp_pico_rw_256", fused=False), image(256)),
    "mixer_s32_224": ("timm", timm("mixer_s32_224"), image()),
    "deit_tiny_patch16_224": ("timm", timm("deit_tiny_patch16_224"), image()),
    "beit_small": ("timm", timm("beit_base_patch16_224", fused=False, depth=4, embed_dim=192, num_heads=3), image()),
    "convnextv2_atto": ("timm", timm("convnextv2_atto"), image()),
    "levit_128s": ("timm", timm("levit_128s"), image()),
    "repvgg_a0": ("timm", timm("repvgg_a0"), image()),
    "ghostnet_100": ("timm", timm("ghostnet_100"), image()),
    "eca_nfnet_l0": ("timm", timm("eca_nfnet_l0"), image(224)),
    "eva02_tiny_patch14_224": ("timm", timm("eva02_tiny_patch14_224"), image()),
    # transformers: decoders
    "llama": ("transformers", hugging("llama", LM, **GROUPED), tokens()),
    "mistral": ("transformers", hugging("mistral", LM, **GROUPED, sliding_window=16), tokens()),
    "mixtral": ("transformers", hugging("mixtral", LM, **GROUPED, num_local_experts=4), tokens()),
    "qwen2": ("transformers", hugging("qwen2", LM, **GROUPED, tie_word_embeddings=True), tokens()),
    "qwen3": ("transformers", hugging("qwen3", LM, **GROUPED, head_dim=32), tokens()),
    "gemma2": ("transformers", hugging("gemma2", LM, **GROUPED, head_dim=32, sliding_window=16), tokens()),
    "phi3": ("transformers", hugging("phi3", LM, **GROUPED), tokens()),
    "gpt2": ("transformers", hugging("gpt2", LM, vocab_size=1000, n_embd=128, n_layer=3, n_head=4, n_positions=64), tokens()),
    "gpt_neox": ("transformers", hugging("gpt_neox", LM, **DECODER), tokens()),
    "falcon": ("transformers", hugging("falcon", LM, vocab_size=1000, hidden_size=128, num_hidden_layers=3, num_attention_heads=4,
                                       bos_token_id=1, eos_token_id=2), tokens()),
    "mamba": ("transformers", hugging("mamba", LM, vocab_size=1000, hidden_size=64, num_hidden_layers=2, state_size=8), tokens(1, 16)),
    # transformers: encoders
    "bert": ("transformers", hugging("bert", "AutoModel", **ENCODER), tokens()),
    "roberta": ("transformers", hugging("roberta", "AutoModelForMaskedLM", **ENCODER), tokens()),
    "distilbert": ("transformers", hugging("distilbert", "AutoModelForSequenceClassification", vocab_size=1000, dim=128, hidden_dim=512,
                                           n_layers=3, n_heads=4), tokens()),
    "albert": ("transformers", hugging("albert", "AutoModelForMaskedLM", **ENCODER, embedding_size=64), tokens()),
    "deberta_v2": ("transformers", hugging("deberta-v2", "AutoModel", **ENCODER, relative_attention=True, position_buckets=32,
                                           pos_att_type=["p2c", "c2p"], share_att_key=True, norm_rel_ebd="layer_norm"), tokens()),
    "electra": ("transformers", hugging("electra", "AutoModelForTokenClassification", **ENCODER, embedding_size=64), tokens()),
    # transformers: encoder and decoder
    "t5": ("transformers", hugging("t5", "AutoModelForSeq2SeqLM", attn_implementation="eager", vocab_size=1000, d_model=128, d_kv=32,
                                   d_ff=512, num_layers=2, num_heads=4),
           tokens(decoder_input_ids=16)),
    "bart": ("transformers", hugging("bart", "AutoModelForSeq2SeqLM", vocab_size=1000, d_model=128, encoder_layers=2, decoder_layers=2,
                                     encoder_ffn_dim=512, decoder_ffn_dim=512, encoder_attention_heads=4, decoder_attention_heads=4,
                                     max_position_embeddings=64), tokens(decoder_input_ids=16)),
    "whisper": ("transformers", hugging("whisper", "AutoModelForSpeechSeq2Seq", vocab_size=1000, d_model=128, encoder_layers=2,
                                        decoder_layers=2, encoder_ffn_dim=512, decoder_ffn_dim=512, encoder_attention_heads=4,
                                        decoder_attention_heads=4, max_source_positions=100, max_target_positions=64, num_mel_bins=40,
                                        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1),
                lambda torch: ((), {"input_features": torch.randn(1, 40, 200), "decoder_input_ids": torch.randint(3, 1000, (1, 16))})),
    # transformers: images and speech
    "dinov2": ("transformers", hugging("dinov2", "AutoModel", hidden_size=128, num_hidden_layers=3, num_attention_heads=4, image_size=112,
                                       patch_size=14), floats(pixel_values=(1, 3, 112, 112))),
    "clip": ("transformers", hugging("clip", "AutoModel", projection_dim=64,
                                     text_config=dict(vocab_size=1000, hidden_size=128, intermediate_size=512, num_hidden_layers=2,
                                                      num_attention_heads=4, max_position_embeddings=32, eos_token_id=2),
                                     vision_config=dict(hidden_size=128, intermediate_size=512, num_hidden_layers=2,
                                                        num_attention_heads=4, image_size=64, patch_size=16)), clip_inputs),
    "wav2vec2": ("transformers", hugging("wav2vec2", "AutoModelForCTC", vocab_size=32, hidden_size=128, num_hidden_layers=2,
                                         num_attention_heads=4, intermediate_size=512, conv_dim=[64] * 7, num_conv_pos_embeddings=16,
                                         num_conv_pos_embedding_groups=4), floats(input_values=(1, 8000))),
    "segformer": ("transformers", hugging("segformer", "AutoModelForSemanticSegmentation", num_labels=20),
                  floats(pixel_values=(1, 3, 128, 128))),
    # plain modules
    "torch_transformer": ("torch", plain("transformer"), arrays((2, 24, 128), (2, 16, 128))),
    "torch_lstm": ("torch", plain("lstm"), lambda torch: ((torch.randint(0, 500, (4, 20)),), {})),
    "torch_gru": ("torch", plain("gru"), arrays((4, 20, 64))),
    "torch_unet": ("torch", plain("UNet"), arrays((1, 3, 96, 96))),
    "torch_moe": ("torch", plain("MoE"), arrays((2, 16, 64))),
    "torch_rms_attention": ("torch", plain("RmsAttention"), arrays((2, 32, 128))),
}

# --------------------------------------------------------------------------------------------------------- torch's side


def prepared(name):
    """The module in eval mode with weights that differ from one another, as trained ones do (equal initializers are merged)."""
    import torch
    torch.manual_seed(0)
    _, build, inputs = MODELS[name]
    model = build().eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.is_floating_point():
                weight.add_(torch.randn_like(weight), alpha=0.02)
        for key, buffer in model.named_buffers():
            if key.endswith(("running_mean", "running_var")):
                buffer.add_(torch.rand_like(buffer), alpha=0.1)
    args, kwargs = inputs(torch)
    return model, args, kwargs


def counted_flops(model, args, kwargs):
    """Flops of FlopCounterMode, by operator: attention as matrix products, LSTM layers (no rule on the CPU) by one of ours."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    def lstm(x, w_ih, w_hh, *rest, out_shape=None, **ignored):
        steps_times_batch = x[0] * x[1]
        return 2 * steps_times_batch * (w_ih[0] * w_ih[1] + w_hh[0] * w_hh[1])

    rules = {torch.ops.aten.mkldnn_rnn_layer: lstm}
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # Fused encoder layers have no rule either.
    try:
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False, custom_mapping=rules) as counter:
            model(*args, **kwargs)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    by_op = {str(op): int(n) for op, n in counter.get_flop_counts()["Global"].items()}
    return int(counter.get_total_flops()), by_op


def nbytes(tensor):
    return tensor.numel() * tensor.element_size()


def digest(array):
    """A hash of the values that ignores their order, so that a transposed copy is recognised."""
    import numpy
    return array.size, hashlib.sha256(numpy.sort(array.reshape(-1)).tobytes()).hexdigest()


def distinct(model):
    """The state dict's entries, those that share memory once; and whose other names are whose."""
    first, entries, tied = {}, {}, {}
    for key, tensor in model.state_dict().items():
        where = (tensor.data_ptr(), tensor.numel()) if tensor.numel() else key
        if where in first:
            tied[key] = first[where]
        else:
            first[where] = key
            entries[key] = tensor
    return entries, tied


def compare(model, program, file):
    """Which entries of the state dict the exported file holds, and in what form."""
    import numpy
    import onnx
    state = model.state_dict()
    entries, tied = distinct(model)
    other = {key: b for key, b in model.named_buffers() if key not in state}

    exported = onnx.load(file)
    read = {name for graph in graphs(exported) for node in graph.node for name in node.input}
    read |= {output.name for graph in graphs(exported) for output in graph.output}
    held = {t.name: onnx.numpy_helper.to_array(t) for graph in graphs(exported) for t in graph.initializer if t.name in read}

    signature = program.exported_program.graph_signature
    placeholders = {spec.arg.name: spec.target for spec in signature.input_specs if spec.target}
    used = {placeholders[node.name] for node in program.exported_program.graph.nodes
            if node.op == "placeholder" and node.name in placeholders and node.users}
    aliases = collections.defaultdict(set)
    for key in state:
        aliases[tied.get(key, key)].add(key)

    by_value = collections.defaultdict(list)
    for key, tensor in (entries | other).items():
        by_value[digest(tensor.detach().numpy())].append(key)

    covered, differs, extra, stray = set(), [], 0, []
    for name, array in held.items():
        key = tied.get(name, name)
        if key in entries:
            again = key in covered
            covered.add(key)
            before, after = nbytes(entries[key]), array.nbytes
            same = array.shape == tuple(entries[key].shape) and numpy.array_equal(array, entries[key].numpy())
            if again:
                differs.append(dict(name=name, state_dict_bytes=0, exported_bytes=after, why=f"second copy of {key}"))
            elif not same:
                why = ("permuted" if digest(array) == digest(entries[key].numpy()) else "other values: fused with a neighbour")
                differs.append(dict(name=name, state_dict_bytes=before, exported_bytes=after, why=why))
            continue
        if not counts(array.dtype.kind == "f" or array.dtype.name == "bfloat16", array.size):
            if array.dtype.kind == "f":
                extra += array.nbytes
            continue
        if key in other:
            differs.append(dict(name=name, state_dict_bytes=0, exported_bytes=array.nbytes, why="buffer that is not in the state dict"))
            continue
        stray.append((name, array))
    folded = [key for key in entries if key not in covered and aliases[key] & used]
    joined = {}  # Entries that follow one another, as one: an LSTM's two biases.
    for i in range(len(folded)):
        for k in range(2, min(5, len(folded) - i + 1)):
            keys = folded[i:i + k]
            if len({entries[key].dtype for key in keys}) == 1:
                joined[digest(numpy.concatenate([entries[key].numpy().reshape(-1) for key in keys]))] = keys
    for name, array in stray:
        keys = joined.get(digest(array), [])
        if keys and not covered & set(keys):
            covered.update(keys)
            differs.append(dict(name=name, state_dict_bytes=sum(nbytes(entries[key]) for key in keys), exported_bytes=array.nbytes,
                                why=f"{' and '.join(keys)}, joined by constant folding"))
            continue
        sources = [key for key in by_value.get(digest(array), []) if key in entries]
        fresh = [key for key in sources if key not in covered]
        if fresh:
            covered.add(fresh[0])
            differs.append(dict(name=name, state_dict_bytes=nbytes(entries[fresh[0]]), exported_bytes=array.nbytes,
                                why=f"{fresh[0]}, renamed or permuted by constant folding"))
        elif sources:
            differs.append(dict(name=name, state_dict_bytes=0, exported_bytes=array.nbytes, why=f"second copy of {sources[0]}"))
        else:
            fused = name.endswith("_bias") and name.removesuffix("_bias") in held
            differs.append(dict(name=name, state_dict_bytes=0, exported_bytes=array.nbytes,
                                why="bias of a fused batch norm" if fused else "constant that the exporter computed"))

    modules = dict(model.named_modules())
    excluded = {}
    for key, tensor in entries.items():
        if key in covered:
            continue
        module = type(modules.get(key.rpartition(".")[0])).__name__
        if not aliases[key] & used:
            why = "training only" if key.endswith("num_batches_tracked") else "not read by forward"
        elif "Norm" in module:
            why = f"folded ({module})"
        else:
            why = f"folded into a computed constant ({module})"
        excluded[key] = dict(bytes=nbytes(tensor), why=why)

    whole = sum(nbytes(t) for t in entries.values())
    missing = sum(e["bytes"] for e in excluded.values())
    total = sum(a.nbytes for a in held.values() if counts(a.dtype.kind == "f" or a.dtype.name == "bfloat16", a.size))
    scalars = sum(a.nbytes for n, a in held.items()
                  if tied.get(n, n) in entries and not counts(a.dtype.kind == "f" or a.dtype.name == "bfloat16", a.size))
    parameters = whole - missing
    assert parameters + sum(d["exported_bytes"] - d["state_dict_bytes"] for d in differs) - scalars == total, "bytes do not add up"
    return dict(state_dict_bytes=whole, parameter_bytes=parameters, initializer_bytes=total, scalar_parameter_bytes=scalars,
                tied=tied, excluded=excluded, differs=differs)


def counts(floating, size):
    """Whether an initializer is state rather than shape arithmetic."""
    return size > 64 or (floating and size > 1)

# ---------------------------------------------------------------------------------------------------------- onnx's side


KEPT = {"namespace", "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy", "pkg.torch.onnx.fx_node"}


def graphs(model):
    """The main graph, those of functions, and all within their nodes."""
    waiting = [model.graph, *model.functions]
    while waiting:
        graph = waiting.pop()
        if hasattr(graph, "initializer"):
            yield graph
        else:
            yield FunctionBody(graph)
        for node in graph.node:
            for attribute in node.attribute:
                waiting += [attribute.g] if attribute.HasField("g") else []
                waiting += attribute.graphs


class FunctionBody:
    """A local function, read like a graph."""
    def __init__(self, function):
        self.node, self.initializer, self.input, self.output = function.node, [], [], []
        self.value_info, self.metadata_props, self.function = function.value_info, function.metadata_props, function


def elements(tensor):
    n = 1
    for size in tensor.dims:
        n *= size
    return n


def without_data(tensor, location):
    import onnx
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        size = onnx.numpy_helper.to_array(tensor).nbytes
        for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "string_data"):
            tensor.ClearField(field)
        tensor.data_location = onnx.TensorProto.EXTERNAL
        tensor.external_data.add(key="length", value=str(size))
    for entry in tensor.external_data:
        if entry.key == "location":
            entry.value = location
            return
    tensor.external_data.add(key="location", value=location)


def strip(model, location):
    """Removes the data of weights and the bulky part of the metadata; returns the names of constants that lost theirs."""
    import onnx
    floating = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE}

    def trim(props):
        kept = [p for p in props if p.key in KEPT and len(p.value) <= 400]
        if len(kept) < len(props):
            copies = [(p.key, p.value) for p in kept]
            del props[:]
            for key, value in copies:
                props.add(key=key, value=value)

    constants = []
    for graph in graphs(model):
        trim(graph.metadata_props)
        for tensor in graph.initializer:
            trim(tensor.metadata_props)
            n = elements(tensor)
            if n > 64 or (n > 16 and tensor.data_type in floating):
                without_data(tensor, location)
        for value in (*graph.value_info, *graph.input, *graph.output):
            trim(value.metadata_props)
        for node in graph.node:
            trim(node.metadata_props)
            for attribute in node.attribute:
                if attribute.HasField("t") and elements(attribute.t) > 4096:
                    without_data(attribute.t, location)
                    constants.append(node.output[0])
    return constants


def compressed(data):
    import zstandard
    return zstandard.ZstdCompressor(level=19).compress(data)


def loaded(path):
    import onnx
    import zstandard
    data = pathlib.Path(path).read_bytes()
    model = onnx.ModelProto()
    model.ParseFromString(zstandard.ZstdDecompressor().decompress(data, max_output_size=1 << 30))
    return model


def described(model):
    """What a reader has to cope with: opsets, node types, shapes that are not there, functions, subgraphs, other types."""
    import onnx
    ops, untyped, typed, subgraphs, functions = collections.Counter(), [], 0, collections.Counter(), []
    types = collections.Counter()
    local = {(f.domain, f.name) for f in model.functions}
    for graph in graphs(model):
        known = {}
        for value in (*graph.value_info, *graph.input, *graph.output):
            kind = value.type.WhichOneof("value")
            types[kind or "none"] += 1
            if kind == "tensor_type" and value.type.tensor_type.elem_type and value.type.tensor_type.HasField("shape"):
                known[value.name] = all(d.HasField("dim_value") for d in value.type.tensor_type.shape.dim)
        for node in graph.node:
            domain = node.domain or "ai.onnx"
            ops[f"{domain}::{node.op_type}"] += 1
            if (node.domain, node.op_type) in local:
                functions.append(node.op_type)
            if all(known.get(name, False) for name in node.output if name):
                typed += 1
            else:
                untyped.append(f"{node.op_type} {node.name}")
            if any(a.HasField("g") or a.graphs for a in node.attribute):
                subgraphs[node.op_type] += 1
    return dict(opsets={o.domain or "ai.onnx": o.version for o in model.opset_import}, ir_version=model.ir_version,
                nodes=sum(ops.values()), typed=typed, untyped=untyped[:20], ops=dict(ops.most_common()),
                functions=[f"{f.domain}::{f.name}" for f in model.functions], function_calls=len(functions), subgraphs=dict(subgraphs),
                value_types=dict(types), inputs=len(model.graph.input), outputs=len(model.graph.output),
                initializers=len(model.graph.initializer), value_infos=len(model.graph.value_info))


def store(model, name, out):
    """Writes the stripped file; returns what it is."""
    constants = strip(model, f"{name}.onnx.data")
    file = f"{name}.onnx.zst"
    data = model.SerializeToString(deterministic=True)
    (out / file).write_bytes(compressed(data))
    about = described(model)
    row = dict(file=file, file_bytes=(out / file).stat().st_size, plain_bytes=len(data), opset=about["opsets"].get("ai.onnx"),
               ir_version=about["ir_version"], nodes=about["nodes"])
    if constants:
        row["constants_without_data"] = constants
    return row

# ---------------------------------------------------------------------------------------------------------------- runs


def export_one(name, out, keep):
    import onnx
    import torch
    library = MODELS[name][0]
    model, args, kwargs = prepared(name)
    with contextlib.ExitStack() as stack:
        folder = keep or pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        path = folder / f"{name}.onnx"
        program = torch.onnx.export(model, args, str(path), **({"kwargs": kwargs} if kwargs else {}))
        parts = compare(model, program, str(path))
        flops, by_op = counted_flops(model, args, kwargs)
        stripped = onnx.load(str(path), load_external_data=False)
        row = dict(name=name, library=library, library_version=importlib.metadata.version(library), **store(stripped, name, out))
    row |= dict(flops=flops, flops_by_op=by_op, **parts, shape_options="")
    if any("mkldnn_rnn_layer" in op for op in by_op):
        row["flops_note"] = "LSTM layers by a rule of ours: 2 · (elements of both weight matrices) · steps · batch"
    (out / f"{name}.json").write_text(json.dumps(row, indent=1) + "\n")
    print(f"{name}: {row['nodes']} nodes, {flops / 1e9:.3f} GFLOP, {parts['parameter_bytes']} parameter bytes, "
          f"{len(parts['excluded'])} excluded, {len(parts['differs'])} differ, {row['file_bytes']} bytes", flush=True)


def collect(out):
    """OUT/models.json and OUT/histogram.json from what is in OUT."""
    rows = [json.loads((out / f"{name}.json").read_text()) for name in MODELS if (out / f"{name}.json").exists()]
    extra = [json.loads(p.read_text()) for p in sorted((out / "extra").glob("*.json"))]
    packages = ("torch", "torchvision", "timm", "transformers", "onnx", "onnxscript", "onnx_ir", "onnxruntime")
    versions = {key: importlib.metadata.version(key) for key in packages}

    def lines(rows):
        return "[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]"
    text = f'{{"versions":{json.dumps(versions)},\n"models":{lines(rows)},\n"extra":{lines(extra)}}}\n'
    (out / "models.json").write_text(text)
    ops, opsets, models, users = collections.Counter(), collections.Counter(), {}, collections.Counter()
    for row in rows + extra:
        about = described(loaded(out / row["file"]))
        models[row["name"]] = about
        if row in extra:
            continue
        ops.update(about["ops"])
        users.update(about["ops"].keys())
        opsets.update(f"{domain} {version}" for domain, version in about["opsets"].items())
    total = sum(row["file_bytes"] for row in rows)
    table = {op: dict(nodes=n, models=users[op]) for op, n in ops.most_common()}
    (out / "histogram.json").write_text(json.dumps(dict(models=len(rows), opsets=opsets, ops=table, per_model=models), indent=1) + "\n")
    print(f"{len(rows)} of {len(MODELS)} models, {total} bytes")


def export_large(out, layers=80):
    """Llama 3 70B: 80 layers, 512 tokens, bfloat16, under FakeTensorMode, so that no weight is allocated.

    The exporter's optimiser reads weights to transpose them. It runs here after the export, with weights that are not there, and what it
    would have done with them is done to their shapes: a weight's Transpose becomes a weight of the other shape, as in every default export.
    """
    import onnx_ir as ir
    import onnxscript.optimizer
    import torch
    import transformers
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
    config = transformers.AutoConfig.for_model(
        "llama", vocab_size=128256, hidden_size=8192, intermediate_size=28672, num_hidden_layers=layers, num_attention_heads=64,
        num_key_value_heads=8, max_position_embeddings=8192, rope_theta=500000.0, rms_norm_eps=1e-5, tie_word_embeddings=False)
    config.use_cache = False
    name = "llama3_70b"
    rotary = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(config)  # Its frequencies are folded: they have to be real.
    with FakeTensorMode(allow_non_fake_inputs=True):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
        model.model.rotary_emb = rotary
        args = (torch.zeros(1, 512, dtype=torch.int64),)
        program = torch.onnx.export(model, args, optimize=False)
        flops, by_op = counted_flops(model, args, {})
    graph = program.model.graph
    weights = {}  # Element type and shape by name of the value.
    for value in graph.initializers.values():
        if isinstance(getattr(value.const_value, "raw", None), FakeTensor):
            weights[value.name] = value.const_value.dtype, tuple(value.const_value.shape)
            value.const_value = None
    onnxscript.optimizer.fold_constants_ir(program.model)  # First and by itself: the optimiser's patterns are quadratic in the nodes.
    onnxscript.optimizer.remove_unused_nodes(program.model)
    onnxscript.optimizer.optimize_ir(program.model)
    graph = program.model.graph
    for node in list(graph):
        if node.op_type == "Transpose" and node.inputs[0].name in weights and len(node.inputs[0].uses()) == 1:
            dtype, shape = weights.pop(node.inputs[0].name)
            weights[node.outputs[0].name] = dtype, tuple(shape[i] for i in node.attributes["perm"].as_ints())
            value = ir.Value(name=node.outputs[0].name, type=ir.TensorType(dtype), shape=ir.Shape(weights[node.outputs[0].name][1]))
            del graph.initializers[node.inputs[0].name]
            node.outputs[0].replace_all_uses_with(value)
            graph.remove(node, safe=True)
            graph.initializers[value.name] = value
    offset = 0
    for key, (dtype, shape) in weights.items():
        tensor = ir.ExternalTensor(f"{name}.onnx.data", offset, 0, dtype, shape=ir.Shape(shape), name=key)
        size = tensor.nbytes
        graph.initializers[key].const_value = ir.ExternalTensor(f"{name}.onnx.data", offset, size, dtype, shape=ir.Shape(shape), name=key)
        offset += size
    proto = ir.to_proto(program.model)
    row = dict(name=name, library="transformers", library_version=importlib.metadata.version("transformers"), **store(proto, name, out))
    row |= dict(flops=flops, flops_by_op=by_op, parameter_bytes=sum(nbytes(t) for t in model.parameters()), weight_bytes=offset)
    (out / f"{name}.onnx").write_bytes(proto.SerializeToString(deterministic=True))
    (out / f"{name}.json").write_text(json.dumps(row, indent=1) + "\n")
    print(json.dumps(row))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--keep-weights", type=pathlib.Path, metavar="DIR", help="leave the exported files with their weights here")
    parser.add_argument("--collect", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.keep_weights:
        options.keep_weights.mkdir(parents=True, exist_ok=True)
    if options.large:
        return export_large(options.out)
    if options.one:
        return export_one(options.names[0], options.out, options.keep_weights)
    failed = []
    if not options.collect:
        for name in options.names or MODELS:  # Each model has its own process: a failure ends no other.
            command = [sys.executable, __file__, str(options.out), name, "--one"]
            if options.keep_weights:
                command += ["--keep-weights", str(options.keep_weights)]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            print((done.stdout.strip().splitlines() or [""])[-1], flush=True)
            if done.returncode:
                failed.append(name)
                (options.out / f"{name}.log").write_text(done.stdout)
    collect(options.out)
    if failed:
        sys.exit(f"failed: {' '.join(failed)}")


if __name__ == "__main__":
    main()
