#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "executor/cpu/kernel.h"
#include "executor/cpu/kernels/elementwise/elementwise_kernel.h"
#include "executor/kernel/attributes.h"

namespace emplace::cpu {
namespace {

const std::array<std::span<const ElementwiseForm>, 4>& all_forms() {
  static const std::array kAll{unary_forms(), binary_forms(), gradient_forms(), ternary_forms()};
  return kAll;
}

/// The form selected by an attribute (`type~word`), else the type's own form.
Result<std::unique_ptr<Kernel>> make(const Signature& signature) {
  Attributes attributes{signature};
  std::string word = attributes.word("approximate", attributes.word("rounding_mode", ""));
  if (attributes.fault()) return *attributes.fault();
  if (!signature.outputs.empty() && signature.outputs[0].dtype == DType::kBool) word = "bool";
  const ElementwiseForm* form =
      word.empty() ? nullptr : elementwise_form(std::string{signature.type}.append("~").append(word));
  return make_elementwise(signature, form != nullptr ? *form : *elementwise_form(signature.type));
}

/// The bias has one value per channel: dimension 1, or the last one if the attributes select it.
Result<std::unique_ptr<Kernel>> add_bias(const Signature& signature) {
  Attributes attributes{signature};
  const bool last = attributes.word("data_format", "NCHW") == "NHWC";
  if (attributes.fault()) return *attributes.fault();
  Signature widened = signature;
  if (!last && widened.inputs.size() == 2 && widened.inputs[1].shape.size() == 1) {
    for (std::size_t d = 2; d < widened.inputs[0].shape.size(); ++d) {
      widened.inputs[1].shape.push_back(1);
      widened.inputs[1].strides.push_back(0);
    }
  }
  return make_elementwise(widened, *elementwise_form("Add"));
}

/// Consecutive loops; all but the first work in place.
class Chain final : public Kernel {
 public:
  explicit Chain(std::vector<std::unique_ptr<Kernel>> links, bool scales)
      : links_{std::move(links)}, scales_{scales} {}

  void run(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
           std::byte* scratch) const override {
    const std::size_t adds = links_.size() - (scales_ ? 1 : 0);
    for (std::size_t k = 0; k < adds; ++k) {
      const std::byte* pair[] = {k == 0 ? inputs[0] : outputs[0], inputs[k + 1 < inputs.size() ? k + 1 : 0]};
      links_[k]->run(inputs.size() == 1 ? std::span{pair}.first(1) : std::span{pair}, outputs, scratch);
    }
    if (scales_) {
      const std::byte* sum = outputs[0];
      links_.back()->run({&sum, 1}, outputs, scratch);
    }
  }

  bool may_overwrite(std::size_t input) const override {
    // A later loop may read the input again.
    return links_.size() == 1 && links_.front()->may_overwrite(input);
  }

 private:
  std::vector<std::unique_ptr<Kernel>> links_;
  bool scales_;
};

Result<std::unique_ptr<Kernel>> add_all(const Signature& signature) {
  return make_variadic(signature, "Add");
}
Result<std::unique_ptr<Kernel>> largest(const Signature& signature) {
  return make_variadic(signature, "Maximum");
}
Result<std::unique_ptr<Kernel>> smallest(const Signature& signature) {
  return make_variadic(signature, "Minimum");
}

}  // namespace

const ElementwiseForm* elementwise_form(std::string_view type) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const ElementwiseForm*> all;
    for (const auto forms : all_forms()) {
      for (const ElementwiseForm& form : forms) all.emplace(form.type, &form);
    }
    return all;
  }();
  const auto it = table.find(type);
  return it == table.end() ? nullptr : it->second;
}

Result<std::unique_ptr<Kernel>> make_variadic(const Signature& signature, std::string_view type, bool mean) {
  const std::vector<Operand>& inputs = signature.inputs;
  if (inputs.empty() || signature.outputs.size() != 1)
    return unsupported(signature, "expected at least one input and one output");
  std::vector<std::unique_ptr<Kernel>> links;
  const Operand& out = signature.outputs[0];
  const auto link = [&](std::string_view name, std::vector<Operand> operands, std::string attrs) {
    const ElementwiseForm* form = elementwise_form(name);
    return make_elementwise({signature.type, std::move(attrs), std::move(operands), {out}}, *form);
  };
  for (std::size_t k = 1; k < std::max<std::size_t>(inputs.size(), 2); ++k) {
    EMPLACE_TRY_ASSIGN(auto made, inputs.size() == 1
                                      ? link("Cast", inputs, "{}")
                                      : link(type, {k == 1 ? inputs[0] : out, inputs[k]}, "{}"));
    links.push_back(std::move(made));
  }
  if (mean) {
    const double share = 1.0 / static_cast<double>(inputs.size());
    EMPLACE_TRY_ASSIGN(auto made, link("aten::mul", {out}, fmt::format(R"({{"other":{:.17g}}})", share)));
    links.push_back(std::move(made));
  }
  return std::unique_ptr<Kernel>{std::make_unique<Chain>(std::move(links), mean)};
}

std::span<const KernelEntry> elementwise_kernels() {
  static const auto table = [] {
    std::vector<KernelEntry> entries{
        {"AddN", add_all}, {"BiasAdd", add_bias}, {"Max", largest}, {"Min", smallest}};
    for (const auto forms : all_forms()) {
      for (const ElementwiseForm& form : forms) {
        if (form.type.find('~') == std::string_view::npos) entries.push_back({form.type, make});
      }
    }
    return entries;
  }();
  return table;
}

}  // namespace emplace::cpu
