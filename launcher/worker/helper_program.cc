#include "launcher/worker/helper_program.h"

#include <unistd.h>

#include <array>

#include "base/text/words.h"
#include "launcher/worker/torch_program.h"

namespace emplace::launcher {

std::span<const std::string_view> process_executor_kinds() {
  static constexpr std::array<std::string_view, 4> kKinds{"cpu", "cuda", "fake", "torch"};
  return kKinds;
}

std::filesystem::path helper_path(std::string_view kind) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  return self.parent_path() / ("emplace-exec-" + std::string{kind});
}

HelperCommand helper_command(std::string_view kind) {
  if (kind == "torch") return torch_command();
  return {helper_path(kind), {}, {}};
}

Result<std::string> helper_program(std::string_view kind) {
  if (kind == "torch") return torch_version(torch_command());
  const std::filesystem::path path = helper_path(kind);
  if (::access(path.c_str(), X_OK) == 0) return path.filename().string();
  const std::string cure = kind == "cpu"    ? "build with oneDNN (libdnnl-dev), or use sim"
                           : kind == "cuda" ? "build with the CUDA toolkit (nvcc), or use sim"
                                            : "build the target emplace-exec-fake, or use sim";
  return Error{Errc::kUnsupported, "executor '" + std::string{kind} + "': " + path.filename().string() +
                                       " is not in " + printable(path.parent_path().string()) + "; " + cure};
}

}  // namespace emplace::launcher
