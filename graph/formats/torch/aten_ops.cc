#include "graph/formats/torch/aten_ops.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/text/words.h"
#include "graph/formats/reading/rule_rows.h"
#include "graph/op_kind.h"

namespace emplace {
namespace {

using nlohmann::json;

struct ParameterRow {
  std::string_view types, names;
};
/// Parameter names by position, for ops whose attributes affect the cost or whose weights must be identified.
constexpr ParameterRow kParameters[]{
    {"convolution _convolution",
     "input weight bias stride padding dilation transposed output_padding groups"},
    {"convolution_backward",
     "grad_output input weight bias_sizes stride padding dilation transposed output_padding groups "
     "output_mask"},
    {"conv_transpose", "input weight bias stride padding output_padding groups dilation"},
    {"linear", "input weight bias"},
    {"linear_backward", "self grad_output weight output_mask"},
    {"matmul_backward", "grad self other output_mask"},
    {"tensordot", "self other dims dims_other"},
    {"_trilinear", "i1 i2 i3 expand1 expand2 expand3 sumdim"},
    {"_grouped_mm grouped_mm grouped_mm_fallback", "input weight"},
    {"lstm", "input hx params"},
    {"_native_multi_head_attention", "query key value embed_dim num_head"},
    {"_transformer_encoder_layer_fwd", "src embed_dim num_heads"},
    {"multi_head_attention_forward", "query key value embed_dim num_heads"},
    {"_flash_attention_forward", "query key value cum_seq_q cum_seq_k max_q max_k"},
    {"_flash_attention_backward", "grad_out query key value out logsumexp cum_seq_q cum_seq_k max_q max_k"},
    {"_efficient_attention_forward",
     "query key value bias cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k"},
    {"_efficient_attention_backward",
     "grad_out query key value bias out cu_seqlens_q cu_seqlens_k max_seqlen_q max_seqlen_k"},
    {"mkldnn_rnn_layer",
     "input weight0 weight1 weight2 weight3 hx_ cx_ reverse batch_sizes mode hidden_size"},
    {"_cudnn_rnn", "input weight weight_stride0 weight_buf hx cx mode hidden_size"},
    {"miopen_rnn", "input weight weight_stride0 hx cx mode hidden_size"},
    {"_cudnn_rnn_backward miopen_rnn_backward",
     "input weight weight_stride0 weight_buf hx cx output grad_output grad_hy grad_cy mode hidden_size"},
    {"addmm", "bias input weight"},
    {"mm", "input weight"},
    {"max_pool1d max_pool2d max_pool3d max_pool2d_with_indices _low_memory_max_pool2d_with_offsets "
     "_low_memory_max_pool_with_offsets",
     "self kernel_size stride padding dilation ceil_mode"},
    {"max_pool2d_with_indices_backward",
     "grad_output self kernel_size stride padding dilation ceil_mode indices"},
    {"avg_pool1d avg_pool2d avg_pool3d", "self kernel_size stride padding ceil_mode count_include_pad"},
    {"avg_pool2d_backward", "grad_output self kernel_size stride padding ceil_mode count_include_pad"},
    {"adaptive_avg_pool2d _adaptive_avg_pool2d adaptive_max_pool2d", "self output_size"},
    {"add sub", "self other"},
    {"sum mean amax amin any all max min argmax argmin logsumexp", "self dim keepdim"},
    {"var std var_mean cumsum unbind unsqueeze squeeze _softmax _log_softmax softmax log_softmax",
     "self dim"},
    {"linalg_vector_norm", "self ord dim keepdim"},
    {"cat stack", "tensors dim"},
    {"select gather index_select scatter scatter_add", "self dim index"},
    {"slice", "self dim start end step"},
    {"narrow", "self dim start length"},
    {"split unsafe_split chunk", "self split_size dim"},
    {"split_with_sizes", "self split_sizes dim"},
    {"permute flip", "self dims"},
    {"transpose", "self dim0 dim1"},
    {"roll", "self shifts dims"},
    {"repeat", "self repeats"},
    {"_softmax_backward_data _log_softmax_backward_data", "grad_output output dim"},
    {"native_batch_norm batch_norm _native_batch_norm_legit_functional _native_batch_norm_legit",
     "input weight bias running_mean running_var training"},
    {"_native_batch_norm_legit_no_training", "input weight bias running_mean running_var"},
    {"native_batch_norm_backward",
     "grad_out input weight running_mean running_var save_mean save_invstd train eps output_mask"},
    {"native_layer_norm layer_norm", "input normalized_shape weight bias"},
    {"native_layer_norm_backward", "grad_out input normalized_shape mean rstd weight bias output_mask"},
    {"rms_norm", "input normalized_shape weight"},
    {"native_group_norm", "input weight bias N C HxW group"},
    {"group_norm", "input num_groups weight bias"},
    {"embedding", "weight indices padding_idx"},
    {"embedding_dense_backward", "grad_output indices num_weights padding_idx"},
    {"nll_loss_forward nll_loss2d_forward", "self target weight reduction"},
    {"nll_loss_backward nll_loss2d_backward", "grad_output self target weight reduction"},
    {"slice_backward", "grad_output input_sizes dim start end step"},
    {"select_backward", "grad_output input_sizes dim index"},
    {"constant_pad_nd pad", "self pad"},
    {"slice_scatter", "self src dim start end step"},
    {"select_scatter", "self src dim index"},
    {"prelu", "self weight"},
};

/// Kinds are looked up by base name; views of the same name in other namespaces may copy.
bool is_view(std::string_view type, const OpKind* kind) {
  return kind != nullptr && kind->view &&
         (type.starts_with("aten::") || type.starts_with("prims::") || type.ends_with("::wait_tensor"));
}

/// The value as an attribute of the traced graphs, which keep only what affects the cost; null otherwise.
json attribute(std::string_view type, std::string_view name, const AtenArg& value) {
  using ArgKind = AtenArg::Kind;
  static const std::unordered_set<std::string_view> kNever{
      "dtype",     "layout",      "device", "pin_memory", "memory_format", "size",
      "self_size", "input_sizes", "sizes",  "bias_sizes", "self_sym_sizes"};
  static const std::unordered_set<std::string_view> kInts{"dim",   "groups",      "start",       "end",
                                                          "index", "dim0",        "dim1",        "axis",
                                                          "step",  "padding_idx", "num_weights", "reduction"};
  static const std::unordered_set<std::string_view> kPerAxis{"kernel_size", "stride", "padding", "dilation",
                                                             "output_padding"};
  const bool window =
      type.find("conv") != std::string_view::npos || type.find("pool") != std::string_view::npos;
  if (name.empty() || kNever.contains(name) || (name == "stride" && !window)) return nullptr;
  if (value.kind == ArgKind::kBool) return value.number != 0 ? json(true) : json(nullptr);
  if (value.kind == ArgKind::kInt) {
    if (name == "alpha") return value.number != 1 ? json(value.number) : json(nullptr);
    if (window && kPerAxis.contains(name)) return json::array({value.number});
    if (!kInts.contains(name) || (name == "groups" && value.number == 1) ||
        (name == "end" && value.number > (std::int64_t{1} << 60)))
      return nullptr;
    return value.number;
  }
  if (value.kind != ArgKind::kList || value.items.empty()) return nullptr;
  json list = json::array();
  for (const AtenArg& item : value.items) {
    if (item.kind == ArgKind::kBool) {
      list.push_back(item.number != 0);
    } else if (item.kind == ArgKind::kInt) {
      list.push_back(item.number);
    } else {
      return nullptr;
    }
  }
  return list;
}

/// In the parameters of conv1d, conv2d and conv3d, groups is at the position of a convolution's `transposed`.
bool is_plain_convolution(std::string_view target) {
  for (const std::string_view name : {"conv1d", "conv2d", "conv3d"})
    if (const std::size_t at = target.find(name);
        at != std::string_view::npos && (at == 0 || target[at - 1] == '.' || target[at - 1] == ':'))
      return true;
  return false;
}
void name_arguments(AtenCall& call) {
  constexpr std::array<std::string_view, 7> kNames{"input",   "weight",   "bias",  "stride",
                                                   "padding", "dilation", "groups"};
  for (std::size_t k = 0; k < std::min(kNames.size(), call.args.size()); ++k)
    if (call.args[k].name.empty()) call.args[k].name = kNames[k];
}

}  // namespace

std::string_view base_name(std::string_view type) {
  return type.substr(std::min(type.size(), type.rfind(':') + 1));
}

std::string aten_type(std::string_view target) {
  if (target.find("::") != std::string_view::npos) return std::string{target};
  std::string_view space = "aten", name = target;
  for (const std::string_view prefix : {"torch.ops.", "torch._ops."})
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  const bool packet = name.size() != target.size() || name.starts_with("aten.") || name.starts_with("prims.");
  if (packet) {
    const std::size_t dot = std::min(name.find('.'), name.size());
    space = name.substr(0, dot);
    name.remove_prefix(std::min(dot + 1, name.size()));
    name = name.substr(0, name.find('.'));
  } else {
    name = name.substr(std::min(name.size(), name.rfind('.') + 1));
  }
  if (name.size() > 1 && name.ends_with('_') && !name.ends_with("__")) name.remove_suffix(1);
  if (space == "aten") {
    for (const std::string_view conv : {"conv1d", "conv2d", "conv3d"})
      if (name == conv) name = "convolution";
    for (const std::string_view conv : {"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"})
      if (name == conv) name = "conv_transpose";
  }
  return std::string{space}.append("::").append(name.empty() ? "unknown" : name);
}

bool is_in_place(std::string_view target) {
  if (target.starts_with("torch.ops.")) target.remove_prefix(10);
  const std::size_t first = target.find('.');
  std::string_view name = first == std::string_view::npos ? target : target.substr(first + 1);
  name = name.substr(0, name.find('.'));
  return name.size() > 1 && name.ends_with('_') && !name.ends_with("__");
}

std::string_view parameter_name(std::string_view type, std::size_t position) {
  static const RowsByType<ParameterRow> kByType{kParameters};
  const ParameterRow* row = kByType.find(base_name(type));
  if (row == nullptr) return {};
  std::string_view names = row->names;
  for (; position > 0; --position) {
    const std::size_t space = names.find(' ');
    if (space == std::string_view::npos) return {};
    names.remove_prefix(space + 1);
  }
  return names.substr(0, names.find(' '));
}

const AtenArg* find_arg(const AtenCall& call, std::string_view type, std::string_view name) {
  for (std::size_t k = 0; k < call.args.size(); ++k) {
    const AtenArg& one = call.args[k];
    if ((one.name.empty() ? parameter_name(type, k) : std::string_view{one.name}) == name)
      return one.kind == AtenArg::Kind::kNone ? nullptr : &one;
  }
  return nullptr;
}

namespace {

/// The kind of a type. Types of unknown libraries count by their name only if that names a product: a fused
/// op may be called like a part of it.
const OpKind* kind_of(std::string_view type) {
  std::string_view base = base_name(type);
  if (base.starts_with("_foreach_")) base.remove_prefix(9);
  const OpKind* kind = find_kind(Vocabulary::kAten, base);
  static constexpr std::array<std::string_view, 8> kKnown{"aten::",
                                                          "prims::",
                                                          "_c10d_functional::",
                                                          "c10d_functional::",
                                                          "emplace::",
                                                          "quantized_decomposed::",
                                                          "higher_order::",
                                                          "module::"};
  const bool known =
      std::any_of(kKnown.begin(), kKnown.end(), [&](auto one) { return type.starts_with(one); });
  return known || kind == nullptr || kind->work.formula != Formula::kNone ? kind : nullptr;
}

}  // namespace

bool describe_aten(AtenCall call, OpSpec& op) {
  if (is_plain_convolution(call.target)) name_arguments(call);
  op.type = aten_type(call.target);
  for (const AtenTensor& one : call.tensors) op.inputs.push_back(one.from);
  json attrs = json::object();
  for (std::size_t k = 0; k < call.args.size(); ++k) {
    const AtenArg& one = call.args[k];
    const std::string_view name = one.name.empty() ? parameter_name(op.type, k) : std::string_view{one.name};
    if (json value = attribute(op.type, name, one); !value.is_null())
      attrs[std::string{name}] = std::move(value);
  }
  // A conversion to the tensor's own type returns the tensor itself.
  const bool same = op.type == "aten::to" && call.tensors.size() == 1 && op.outputs.size() == 1 &&
                    call.tensors[0].spec.dtype == op.outputs[0].dtype;
  const OpKind* kind = kind_of(op.type);
  op.view = is_view(op.type, kind) || same;
  if (op.view) attrs["view"] = true;
  if (const AtenArg* groups = find_arg(call, op.type, "groups"); groups && groups->number > 0)
    op.conv_groups = groups->number;
  op.attrs_json = attrs.dump(-1, ' ', false, json::error_handler_t::replace);
  const auto work = op.view ? std::optional<std::int64_t>{0} : aten_flops(kind, op.type, call, op.outputs);
  op.flops = work.value_or(0);
  return work.has_value();
}

std::optional<std::int64_t> aten_work(const OpSpec& op, std::vector<AtenTensor> inputs) {
  if (op.view) return 0;
  AtenCall call;
  call.tensors = std::move(inputs);
  const auto value_of = [](const json& from) {
    AtenArg arg;
    arg.kind = from.is_boolean()          ? AtenArg::Kind::kBool
               : from.is_number_integer() ? AtenArg::Kind::kInt
               : from.is_number()         ? AtenArg::Kind::kFloat
                                          : AtenArg::Kind::kOther;
    if (from.is_boolean()) arg.number = from.get<bool>() ? 1 : 0;
    if (from.is_number_integer()) arg.number = from.get<std::int64_t>();
    if (from.is_string()) arg.text = from.get<std::string>();
    return arg;
  };
  const json attrs = json::parse(op.attrs_json, nullptr, /*allow_exceptions=*/false);
  if (attrs.is_object())
    for (const auto& [name, from] : attrs.items()) {
      AtenArg& arg = call.args.emplace_back(value_of(from));
      arg.name = name;
      if (!from.is_array()) continue;
      arg.kind = AtenArg::Kind::kList;
      for (const json& item : from) arg.items.push_back(value_of(item));
    }
  return aten_flops(kind_of(op.type), op.type, call, op.outputs);
}

Result<DType> aten_dtype(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, DType>, 12> kAs{{{"b8", DType::kBool},
                                                                           {"u16", DType::kI16},
                                                                           {"u32", DType::kI32},
                                                                           {"u64", DType::kI64},
                                                                           {"c32", DType::kF32},
                                                                           {"c64", DType::kF64},
                                                                           {"f8e4m3fn", DType::kF8},
                                                                           {"f8e5m2", DType::kF8},
                                                                           {"f8e4m3fnuz", DType::kF8},
                                                                           {"f8e5m2fnuz", DType::kF8},
                                                                           {"f8e8m0fnu", DType::kF8},
                                                                           {"f4e2m1fn_x2", DType::kI8}}};
  for (const auto& [known, dtype] : kAs)
    if (known == name) return dtype;
  if (auto dtype = parse_dtype(name)) return dtype;
  return invalid({}, "'" + printable(name, 40) + "' is not a known element type");
}

}  // namespace emplace
