#include "tests/executor/cpu/kernel_case.h"

#include <sodium/utils.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/check.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define EMPLACE_POISON(begin, bytes) ASAN_POISON_MEMORY_REGION(begin, bytes)
#define EMPLACE_UNPOISON(begin, bytes) ASAN_UNPOISON_MEMORY_REGION(begin, bytes)
#else
#define EMPLACE_POISON(begin, bytes) (void)(begin), (void)(bytes)
#define EMPLACE_UNPOISON(begin, bytes) (void)(begin), (void)(bytes)
#endif

namespace emplace::testing {
namespace {

using nlohmann::json;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kAlignment = 64, kGuard = 64;
constexpr std::byte kGuardByte{0xa5};

json read_json(const std::string& name) {
  std::ifstream file{std::string{EMPLACE_FIXTURES} + "/kernels/" + name + ".json"};
  EMPLACE_CHECK(file.good(), "tests/fixtures/kernels/" + name + ".json is not there");
  return json::parse(file);
}

Bytes from_base64(const std::string& text) {
  Bytes bytes(text.size());
  std::size_t size = 0;
  const int failed =
      sodium_base642bin(reinterpret_cast<unsigned char*>(bytes.data()), bytes.size(), text.data(),
                        text.size(), nullptr, &size, nullptr, sodium_base64_VARIANT_ORIGINAL);
  EMPLACE_CHECK(failed == 0, "a fixture's data is not base64");
  bytes.resize(size);
  return bytes;
}

std::vector<std::int64_t> row_major(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

Operand operand(const json& tensor) {
  Operand operand;
  operand.dtype = *parse_dtype(tensor.at("dtype").get<std::string>());
  tensor.at("shape").get_to(operand.shape);
  if (tensor.contains("strides")) {
    tensor.at("strides").get_to(operand.strides);
  } else {
    operand.strides = row_major(operand.shape);
  }
  return operand;
}

std::size_t packed_bytes(const Operand& operand) {
  std::int64_t n = element_bytes(operand.dtype);
  for (const std::int64_t dim : operand.shape) n *= dim;
  return static_cast<std::size_t>(n);
}

KernelCase case_of(const json& entry) {
  KernelCase result;
  result.name = entry.at("name");
  result.signature.type = entry.at("type");
  result.signature.attrs_json = entry.at("attrs").dump();
  for (const json& tensor : entry.at("inputs")) {
    result.signature.inputs.push_back(operand(tensor));
    result.inputs.push_back(from_base64(tensor.at("data")));
  }
  result.tolerance = entry.value("tolerance", result.tolerance);
  result.scale = entry.value("scale", result.scale);
  for (const json& tensor : entry.at("outputs")) {
    result.signature.outputs.push_back(operand(tensor));
    result.outputs.push_back(from_base64(tensor.at("data")));
  }
  return result;
}

template <class T>
std::vector<T> elements(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

std::string difference_of_floats(const std::vector<float>& got, const std::vector<float>& wanted,
                                 double tolerance, double scale) {
  for (const float value : wanted) scale = std::max(scale, static_cast<double>(std::abs(value)));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double off = std::abs(static_cast<double>(got[i]) - static_cast<double>(wanted[i]));
    if (off <= tolerance * scale) continue;  // False for NaN too.
    return "element " + std::to_string(i) + " is " + std::to_string(got[i]) + ", not " +
           std::to_string(wanted[i]) + " (off by " + std::to_string(off / scale) + " of the largest)";
  }
  return {};
}

}  // namespace

const std::vector<KernelCase>& kernel_cases() {
  static const std::vector<KernelCase> cases = [] {
    std::vector<KernelCase> all;
    for (const char* family : {"matmul", "convolution", "pooling", "normalisation", "softmax", "elementwise",
                               "reduction", "movement", "lookup", "creation", "others"}) {
      for (const json& entry : read_json(family)) all.push_back(case_of(entry));
    }
    return all;
  }();
  return cases;
}

std::vector<std::string> kinds_in_shared_graphs(const std::string& folder) {
  return read_json("kinds").at(folder).get<std::vector<std::string>>();
}

GuardedBytes::GuardedBytes(std::size_t bytes, std::byte fill, std::size_t shift)
    : memory_(bytes + 2 * kGuard + kAlignment + shift, kGuardByte), bytes_{bytes} {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory_.data()) + kGuard;
  const std::size_t to_boundary = (kAlignment - begin % kAlignment) % kAlignment;
  start_ = memory_.data() + kGuard + to_boundary + shift;
  std::fill_n(start_, bytes_, fill);
  EMPLACE_POISON(memory_.data(), static_cast<std::size_t>(start_ - memory_.data()));
  EMPLACE_POISON(start_ + bytes_,
                 memory_.size() - static_cast<std::size_t>(start_ + bytes_ - memory_.data()));
}

void GuardedBytes::open() {
  if (!memory_.empty()) EMPLACE_UNPOISON(memory_.data(), memory_.size());
}

bool GuardedBytes::guards_are_whole() {
  open();
  const auto is_guard = [](std::byte byte) { return byte == kGuardByte; };
  return std::all_of(memory_.data(), start_, is_guard) &&
         std::all_of(start_ + bytes_, memory_.data() + memory_.size(), is_guard);
}

KernelRun run_kernel(const cpu::Kernel& kernel, const KernelCase& of, std::byte garbage,
                     std::size_t overwritten) {
  KernelRun run;
  std::vector<GuardedBytes> inputs, outputs;
  inputs.reserve(of.inputs.size()), outputs.reserve(of.signature.outputs.size());
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  for (std::size_t i = 0; i < of.inputs.size(); ++i) {
    const Operand& operand = of.signature.inputs[i];
    const auto shift = operand.is_packed() ? 0 : static_cast<std::size_t>(element_bytes(operand.dtype));
    inputs.emplace_back(of.inputs[i].size(), std::byte{}, shift);
    std::copy(of.inputs[i].begin(), of.inputs[i].end(), inputs.back().data());
    in.push_back(inputs.back().data());
  }
  for (const Operand& operand : of.signature.outputs) {
    outputs.emplace_back(packed_bytes(operand), garbage);
    out.push_back(outputs.back().data());
  }
  if (overwritten != kNone) out[0] = inputs[overwritten].data();
  GuardedBytes scratch{kernel.scratch_bytes(), garbage};
  kernel.run({in, out, scratch.data()});

  for (std::size_t k = 0; k < outputs.size(); ++k) {
    const bool moved = k == 0 && overwritten != kNone;
    run.outputs.push_back(moved ? inputs[overwritten].copy() : outputs[k].copy());
    if (!outputs[k].guards_are_whole()) run.complaint += "wrote beside output " + std::to_string(k) + "; ";
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].guards_are_whole()) run.complaint += "wrote beside input " + std::to_string(i) + "; ";
    if (i != overwritten && inputs[i].copy() != of.inputs[i])
      run.complaint += "wrote input " + std::to_string(i) + "; ";
  }
  if (!scratch.guards_are_whole()) run.complaint += "wrote beside its scratch; ";
  return run;
}

std::string difference(const KernelCase& of, const std::vector<Bytes>& outputs) {
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    std::string text;
    if (of.signature.outputs[k].dtype == DType::kF32) {
      text = difference_of_floats(elements<float>(outputs[k]), elements<float>(of.outputs[k]), of.tolerance,
                                  of.scale);
    } else if (outputs[k] != of.outputs[k]) {
      text = "its integers differ";
    }
    if (!text.empty()) return "output " + std::to_string(k) + ": " + text;
  }
  return {};
}

}  // namespace emplace::testing
