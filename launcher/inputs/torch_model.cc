#include "launcher/inputs/torch_model.h"

#include <cstddef>

#include "base/text/words.h"

namespace emplace::launcher {

Result<Unit> check_model(std::string_view model) {
  constexpr const char* kUse = "use --model my_module:make_step (in a config: executor.model)";
  if (model.empty())
    return invalid("executor 'torch'", "needs the function that makes the model whose step it executes",
                   kUse);
  const std::size_t colon = model.rfind(':');
  const bool whole = colon != std::string_view::npos && colon > 0 && colon + 1 < model.size();
  if (!whole || printable(model, model.size()) != model)
    return invalid("--model '" + printable(model, 80) + "'", "is not MODULE:NAME", kUse);
  return Unit{};
}

Result<Unit> check_torch_only(std::string_view model, std::uint64_t threads, std::string_view kind) {
  if (kind == "torch" || (model.empty() && threads == 0)) return Unit{};
  return invalid(model.empty() ? "--threads" : "--model",
                 "is only for the executor torch, not for " + printable(kind, 40),
                 "remove it, or use --executor torch");
}

std::string_view model_file(std::string_view model) {
  const std::size_t colon = model.rfind(':');
  const std::string_view file = model.substr(0, colon == std::string_view::npos ? 0 : colon);
  return file.ends_with(".py") ? file : std::string_view{};
}

}  // namespace emplace::launcher
