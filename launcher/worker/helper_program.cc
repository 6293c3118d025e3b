#include "launcher/worker/helper_program.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/text/words.h"
#include "runtime/process/run_command.h"

namespace emplace::launcher {
namespace {

constexpr const char* kTorchProgram = "emplace-exec-torch";
constexpr const char* kTorchModule = "emplace.torch_executor";
constexpr const char* kTorchCure =
    "pip install 'PATH/emplace_placement-….whl[torch]' (scripts/wheel.sh makes the wheel)";
constexpr Nanos kVersionLimit = std::chrono::seconds{60};  // A cold disk may take some seconds.

/// A program that Python runs; its interpreter would take a typed signal as its own.
HelperCommand python_program(std::string path, std::vector<std::string> leading_words = {}) {
  return {std::move(path), {}, {}, std::move(leading_words), true};
}
HelperCommand package_in(std::string python) {
  return python_program(std::move(python), {"-m", kTorchModule});
}

/// The interpreter that the environment names; empty: none.
std::string chosen_python() {
  const char* const python = std::getenv(kPythonVariable);
  return python == nullptr ? "" : python;
}

Error no_torch(const std::string& what, const std::string& before_install = "") {
  const bool names_cure = what.find("; pip ") != std::string::npos;
  return {Errc::kUnsupported,
          "executor 'torch': " + what + (names_cure ? "" : "; " + before_install + kTorchCure)};
}

HelperCommand torch_command() {
  if (std::string python = chosen_python(); !python.empty()) return package_in(std::move(python));
  if (const auto beside = helper_path("torch"); ::access(beside.c_str(), X_OK) == 0)
    return python_program(beside.string());
  if (auto installed = process::find_program(kTorchProgram)) return python_program(*std::move(installed));
  return package_in(python_path());
}

/// Starts the program to ask for its version. Errors: kUnsupported.
Result<std::string> torch_version(const HelperCommand& command) {
  const std::string absent = std::string{kTorchProgram} + " is neither in " +
                             printable_path(helper_path("torch").parent_path()) + " nor in PATH";
  if (command.program.empty()) return no_torch(absent + ", and there is no python3");
  std::vector<std::string> words = command.leading_words;
  words.emplace_back("--version");
  process::RunOptions options;
  options.limit = kVersionLimit;
  options.own_group = true;
  const auto ran = process::run_command(command.program.string(), words, options);
  const std::string where = printable_path(command.program);
  if (!ran) return no_torch(where + " cannot be started: " + ran.error().context);
  std::string last = printable(ran->last_line(), 200);
  if (ran->status == 0 && last.starts_with(kTorchProgram)) return last;
  if (const auto fault = package_fault(ran->errors); ran->status != 0 && fault) {
    const std::string which =
        chosen_python().empty() ? absent + ", and " + where : where + " (" + kPythonVariable + ")";
    return no_torch(which + " " + fault->what, fault->before_install);
  }
  if (constexpr std::string_view kMark = "error: "; last.starts_with(kMark)) last.erase(0, kMark.size());
  return no_torch(last.empty() ? where + " ended with status " + std::to_string(ran->status) : last);
}

}  // namespace

std::string python_path() {
  std::string python = chosen_python();
  return python.empty() ? process::find_program("python3").value_or("") : python;
}

std::optional<PackageFault> package_fault(std::string_view errors) {
  // Python quotes the name, except that of a module that a package lacks.
  constexpr std::string_view kWords = "No module named ";
  const auto at = errors.find(kWords);
  if (at == std::string_view::npos) return std::nullopt;
  std::string_view missing = errors.substr(at + kWords.size());
  if (missing.starts_with('\'')) missing.remove_prefix(1);
  if (missing.starts_with("emplace."))
    return PackageFault{"has a stranger's package emplace", "pip uninstall emplace, then "};
  if (missing.starts_with("emplace")) return PackageFault{"lacks the package emplace", ""};
  return std::nullopt;
}

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
