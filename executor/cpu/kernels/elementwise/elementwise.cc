#include <fmt/core.h>

#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/elementwise/elementwise_kernel.h"

namespace emplace::cpu {
namespace {

const std::array<std::span<const ElementwiseForm>, 4>& all_forms() {
  static const std::array kAll{unary_forms(), binary_forms(), gradient_forms(), ternary_forms()};
  return kAll;
}

/// The form selected by an attribute (`type~word`), else the type's own form.
Made make(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(auto word, read(signature, [](auto& of) {
                       return of.word("approximate", of.word("rounding_mode", ""));
                     }));
  if (!signature.outputs.empty() && signature.outputs[0].dtype == DType::kBool) word = "bool";
  const ElementwiseForm* form =
      word.empty() ? nullptr : elementwise_form(std::string{signature.type}.append("~").append(word));
  return make_elementwise(signature, form != nullptr ? *form : *elementwise_form(signature.type));
}

/// The bias has one value per channel: dimension 1, or the last one if the attributes select it.
Made add_bias(const Signature& signature) {
  EMPLACE_TRY_ASSIGN(const auto format,
                     read(signature, [](auto& of) { return of.word("data_format", "NCHW"); }));
  Signature widened = signature;
  if (format != "NHWC" && widened.inputs.size() == 2 && widened.inputs[1].shape.size() == 1) {
    for (std::size_t d = 2; d < widened.inputs[0].shape.size(); ++d) {
      widened.inputs[1].shape.push_back(1);
      widened.inputs[1].strides.push_back(0);
    }
  }
  return make_elementwise(widened, *elementwise_form("Add"));
}

template <bool largest>
Made extreme(const Signature& signature) {
  return make_variadic(signature, largest ? "Maximum" : "Minimum");
}
Made add_all(const Signature& signature) { return make_variadic(signature, "Add"); }

}  // namespace

const ElementwiseForm* elementwise_form(std::string_view type) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const ElementwiseForm*> all;
    for (const auto forms : all_forms()) {
      for (const ElementwiseForm& form : forms)
        for (const std::string_view word : words_in(form.types)) all.emplace(word, &form);
    }
    return all;
  }();
  const auto it = table.find(type);
  return it == table.end() ? nullptr : it->second;
}

Made make_variadic(const Signature& signature, std::string_view type, bool mean) {
  const std::size_t count = signature.inputs.size();
  EMPLACE_TRY(expect(signature, {1}));
  const Operand& out = signature.outputs[0];
  const auto link = [&](std::string_view name, std::vector<Operand> operands, std::string attrs) {
    return make_elementwise({signature.type, std::move(attrs), std::move(operands), {out}},
                            *elementwise_form(name));
  };
  if (count == 1) return link("Cast", signature.inputs, "{}");
  std::vector<std::unique_ptr<Kernel>> links;  // All but the first work in place.
  for (std::size_t k = 1; k < count; ++k) {
    EMPLACE_TRY_ASSIGN(auto made,
                       link(type, {k == 1 ? signature.inputs[0] : out, signature.inputs[k]}, "{}"));
    links.push_back(std::move(made));
  }
  if (mean) {
    const double share = 1.0 / static_cast<double>(count);
    EMPLACE_TRY_ASSIGN(auto made, link("aten::mul", {out}, fmt::format(R"({{"other":{:.17g}}})", share)));
    links.push_back(std::move(made));
  }
  if (links.size() == 1) return std::move(links.front());
  return kernel_of([links = std::move(links), count](const Pointers& memory) {
    const std::byte* pair[] = {memory.inputs[0], nullptr};
    for (std::size_t k = 0; k < links.size(); ++k, pair[0] = memory.outputs[0]) {
      if (k + 1 < count) pair[1] = memory.inputs[k + 1];
      links[k]->run({std::span{pair}.first(k + 1 < count ? 2 : 1), memory.outputs, memory.scratch});
    }
  });
}

std::span<const KernelEntry> elementwise_kernels() {
  static const auto table = [] {
    std::vector<KernelEntry> entries{
        {"AddN", add_all}, {"BiasAdd", add_bias}, {"Max", extreme<true>}, {"Min", extreme<false>}};
    for (const auto forms : all_forms()) {
      for (const ElementwiseForm& form : forms) {
        if (form.types.find('~') == std::string_view::npos) entries.push_back({form.types, make});
      }
    }
    return entries;
  }();
  return table;
}

}  // namespace emplace::cpu
