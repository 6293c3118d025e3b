#include "executor/cpu/onednn/onednn.h"

#include <fmt/core.h>

#include <array>

#include "base/check.h"
#include "executor/cpu/onednn/onednn_program.h"

namespace emplace::cpu::onednn {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kMaxArguments = 12;

/// One CPU stream per thread; it executes immediately on the calling thread.
dnnl::stream& stream() {
  thread_local dnnl::stream own{engine()};
  return own;
}

/// Arguments of an execution: memory objects over the caller's pointers, created for each run (0.15 us
/// each).
class ArgumentList {
 public:
  ArgumentList() = default;
  ArgumentList(const ArgumentList&) = delete;
  ArgumentList& operator=(const ArgumentList&) = delete;
  ~ArgumentList() {
    for (std::size_t k = 0; k < count_; ++k) dnnl_memory_destroy(arguments_[k].memory);
  }
  void add(int id, const Desc& desc, const void* data) {
    if (desc.data.ndims == 0) return;  // Empty scratchpad.
    EMPLACE_CHECK(count_ < kMaxArguments, "too many arguments of a primitive");
    dnnl_memory_t memory = nullptr;
    const auto status = dnnl_memory_create(&memory, &desc.data, engine().get(), const_cast<void*>(data));
    EMPLACE_CHECK(status == dnnl_success, "creating a memory object cannot fail");
    arguments_[count_++] = {id, memory};
  }
  void execute(const dnnl::primitive& primitive) const {
    const auto status =
        dnnl_primitive_execute(primitive.get(), stream().get(), static_cast<int>(count_), arguments_.data());
    EMPLACE_CHECK(status == dnnl_success, "executing a created primitive cannot fail");
  }

 private:
  std::array<dnnl_exec_arg_t, kMaxArguments> arguments_;
  std::size_t count_ = 0;
};

Desc row_major_desc(const Dims& dims, dnnl::memory::data_type type) {
  Dims strides(dims.size(), 1);
  for (std::size_t d = dims.size(); d-- > 1;) strides[d - 1] = strides[d] * dims[d];
  return Desc{dims, type, strides};
}

}  // namespace

/// An argument; if its layout differs from the given one, the reorder and its position in the scratch.
struct Step {
  Argument argument;
  std::optional<dnnl::reorder> reorder;
  Desc reorder_scratchpad;
  std::size_t place = 0;  // Offset in the scratch [B].
};

struct Program::Steps {
  dnnl::primitive primitive;
  Desc scratchpad;
  std::vector<Step> inputs, outputs;
  std::size_t scratchpad_place = 0, scratch_bytes = 0;
  bool reference = false;
};

Program::Program(std::shared_ptr<const Steps> steps) : steps_{std::move(steps)} {}
std::size_t Program::scratch_bytes() const { return steps_->scratch_bytes; }
bool Program::is_reference() const { return steps_->reference; }

std::string version() {
  const dnnl_version_t& loaded = *dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", loaded.major, loaded.minor, loaded.patch);
}

void Program::run(const Pointers& memory) const {
  std::byte* const scratch = memory.scratch;
  const auto reorder = [&](const Step& step, const Desc& from, const void* source, const Desc& to,
                           void* target) {
    ArgumentList list;
    list.add(DNNL_ARG_FROM, from, source);
    list.add(DNNL_ARG_TO, to, target);
    list.add(DNNL_ARG_SCRATCHPAD, step.reorder_scratchpad, scratch + steps_->scratchpad_place);
    list.execute(*step.reorder);
  };
  ArgumentList list;
  for (std::size_t k = 0; k < steps_->inputs.size(); ++k) {
    const Step& step = steps_->inputs[k];
    const auto& [id, given, taken] = step.argument;
    if (step.reorder) reorder(step, given, memory.inputs[k], taken, scratch + step.place);
    list.add(id, taken, step.reorder ? scratch + step.place : memory.inputs[k]);
  }
  for (std::size_t k = 0; k < steps_->outputs.size(); ++k) {
    const Step& step = steps_->outputs[k];
    list.add(step.argument.id, step.argument.taken, step.reorder ? scratch + step.place : memory.outputs[k]);
  }
  list.add(DNNL_ARG_SCRATCHPAD, steps_->scratchpad, scratch + steps_->scratchpad_place);
  list.execute(steps_->primitive);
  for (std::size_t k = 0; k < steps_->outputs.size(); ++k) {
    const Step& step = steps_->outputs[k];
    const auto& [id, given, taken] = step.argument;
    if (step.reorder) reorder(step, taken, scratch + step.place, given, memory.outputs[k]);
  }
}

dnnl::engine& engine() {
  static dnnl::engine only{dnnl::engine::kind::cpu, 0};
  return only;
}

dnnl::memory::data_type data_type(DType dtype) {
  using Type = dnnl::memory::data_type;
  switch (dtype) {
    case DType::kF32:
      return Type::f32;
    case DType::kBF16:
      return Type::bf16;
    case DType::kF16:
      return Type::f16;
    case DType::kI32:
      return Type::s32;
    case DType::kI8:
      return Type::s8;
    case DType::kU8:
      return Type::u8;
    case DType::kF64:
      throw dnnl::error{dnnl_unimplemented, "dtype f64 is not supported"};
    case DType::kF8:
      throw dnnl::error{dnnl_unimplemented, "dtype f8 is not supported"};
    default:
      throw dnnl::error{dnnl_unimplemented, "64-bit integers are not supported"};
  }
}

Desc described(const Operand& operand) {
  if (operand.is_packed()) return packed_desc(operand.shape, operand.dtype);
  return Desc{operand.shape, data_type(operand.dtype), operand.strides};
}

Desc packed_desc(const Dims& dims, DType dtype) { return row_major_desc(dims, data_type(dtype)); }
Desc row_major(const Desc& desc) { return row_major_desc(desc.dims(), desc.data_type()); }

Desc any_layout(const Desc& desc) {
  return Desc{desc.dims(), desc.data_type(), dnnl::memory::format_tag::any};
}

dnnl::primitive_attr user_scratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

Program make_program(dnnl::primitive primitive, const Desc& scratchpad, const std::string& implementation,
                     const std::vector<Argument>& inputs, const std::vector<Argument>& outputs) {
  auto steps = std::make_shared<Program::Steps>();
  std::size_t end = 0, scratchpad_bytes = scratchpad.get_size();
  const auto place = [&end](std::size_t bytes) {
    return std::exchange(end, end + (bytes + kAlignment - 1) / kAlignment * kAlignment);
  };
  const auto add = [&](const Argument& argument, bool is_input) {
    Step step{argument, {}, {}, 0};
    const auto& [id, given, taken] = step.argument;
    if (given != taken) {
      const dnnl::reorder::primitive_desc desc{engine(), is_input ? given : taken, engine(),
                                               is_input ? taken : given, user_scratchpad()};
      step.reorder = dnnl::reorder{desc};
      step.reorder_scratchpad = desc.scratchpad_desc();
      scratchpad_bytes = std::max(scratchpad_bytes, step.reorder_scratchpad.get_size());
      step.place = place(taken.get_size());
    }
    (is_input ? steps->inputs : steps->outputs).push_back(std::move(step));
  };
  for (const Argument& argument : inputs) add(argument, /*is_input=*/true);
  for (const Argument& argument : outputs) add(argument, /*is_input=*/false);
  steps->primitive = std::move(primitive);
  steps->scratchpad = scratchpad;
  steps->scratchpad_place = place(scratchpad_bytes);
  steps->scratch_bytes = end;
  steps->reference = implementation.starts_with("ref") || implementation.starts_with("simple_nchw");
  return Program{std::move(steps)};
}

}  // namespace emplace::cpu::onednn
