#pragma once
/// Converts calls of torch operators to ops with the type, attributes and work of the traced training graphs.
/// Shared by the readers of FX text and of exported programs.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace {

struct OpKind;

/// An argument of a call.
struct AtenArg {
  enum class Kind : std::uint8_t { kNone, kBool, kInt, kFloat, kOther, kTensor, kList };
  Kind kind = Kind::kNone;
  std::string name;            ///< Name of the parameter; empty for a positional argument.
  std::int64_t number = 0;     ///< kBool: 0 or 1; kInt: the value; kTensor: index into AtenCall::tensors.
  std::vector<AtenArg> items;  ///< Elements of a kList.
  std::string text;            ///< kOther: a text, such as the equation of an einsum.
};

struct AtenTensor {
  EdgeSpec from;
  TensorSpec spec;
};

struct AtenCall {
  std::string target;  ///< Spelled as "torch.ops.aten.mm.default", "aten.mm.default", "torch.relu",
                       ///< "aten::mm" or "view".
  std::vector<AtenArg> args;
  std::vector<AtenTensor> tensors;  ///< Tensors that the arguments read, in order, with repeats.
};

/// Normalises any spelling of AtenCall to "aten::mm": drops the overload, the trailing underscore of an
/// in-place form, and the dimension in a convolution's name. Other namespaces stay ("prims::iota").
std::string aten_type(std::string_view target);
/// Returns "mm" for "aten::mm".
std::string_view base_name(std::string_view type);
/// Returns whether the op writes into its first argument ("add_", "copy_").
bool is_in_place(std::string_view target);

/// The argument for a parameter, found by name or position; null if it is missing or None.
const AtenArg* find_arg(const AtenCall& call, std::string_view type, std::string_view name);
/// The parameter at argument `position` of an op of this type; empty if unknown.
std::string_view parameter_name(std::string_view type, std::size_t position);

/// Counts floating-point operations from shapes by the formula of `kind` (graph/op_kind.h), which is the kind
/// of `type` or null; a multiply-add counts as two, integer work and data movement as 0. `outputs` are those
/// of the call. Returns nothing if there is no rule. Shapes of the wrong rank give 0; sums saturate at 2^60.
/// Pure; any thread.
std::optional<std::int64_t> aten_flops(const OpKind* kind, std::string_view type, const AtenCall& call,
                                       const std::vector<TensorSpec>& outputs);

/// Sets type, inputs, attrs_json, view, conv_groups and flops of `op`; its outputs must be set already.
/// Returns whether the op's work is known; if not, flops is 0. Pure; any thread.
bool describe_aten(AtenCall call, OpSpec& op);

/// Counts the work of an op from its type, the shapes that it reads and makes, and its attributes, which are
/// named as the parameters of torch's op; a view has none. Returns nothing if there is no rule. Pure; any
/// thread.
std::optional<std::int64_t> aten_work(const OpSpec& op, std::vector<AtenTensor> inputs);

/// Parses a dtype as torch prints it ("f32", "b8", "i64"). A type that graphs do not support maps to another
/// one of the same width; c128 has none. Errors (kInvalid, without a place): an unknown name.
Result<DType> aten_dtype(std::string_view name);

}  // namespace emplace
