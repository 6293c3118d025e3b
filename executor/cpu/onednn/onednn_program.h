#pragma once
/// Between the files onednn*.cc: how a primitive becomes a Program. Not for others: it brings oneDNN's types.

#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <vector>

#include "executor/cpu/onednn/onednn.h"

namespace emplace::cpu::onednn {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

dnnl::engine& engine();
/// Throws dnnl::error (unimplemented) for a dtype that oneDNN has not.
dnnl::memory::data_type data_type(DType dtype);
/// The operand as it lies.
Desc described(const Operand& operand);
/// Row-major.
Desc packed_desc(Dims dims, DType dtype);
Desc row_major(const Desc& desc);  ///< Of the same dimensions and dtype.
/// Whatever layout the primitive likes best.
Desc any_layout(const Desc& desc);
/// Attributes that let the caller own the scratchpad.
dnnl::primitive_attr user_scratchpad();

/// One argument of a primitive: as it is given and as the primitive takes it.
struct Argument {
  int id = 0;  ///< DNNL_ARG_…
  Desc given, taken;
};

/// A primitive whose arguments are reordered where `given` and `taken` differ.
Program make_program(dnnl::primitive primitive, const Desc& scratchpad, const std::string& implementation,
                     std::vector<Argument> inputs, std::vector<Argument> outputs);

/// Calls `make`, which returns a Program; what oneDNN throws becomes the error.
template <class Make>
Result<Program> guarded(Make make) {
  try {
    return make();
  } catch (const dnnl::error& error) {
    const bool memory = error.status == dnnl_out_of_memory;
    return Error{memory ? Errc::kOutOfMemory : Errc::kUnsupported, std::string{"oneDNN: "} + error.what()};
  }
}

}  // namespace emplace::cpu::onednn
