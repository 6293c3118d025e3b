#include "launcher/cluster/run_command.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>

#include "base/text/words.h"
#include "runtime/process/child_process.h"

namespace emplace::launcher {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

std::string all_of(const File& file) {
  std::rewind(file.get());
  std::string text;
  std::array<char, 4096> block{};
  for (std::size_t n = 0; (n = std::fread(block.data(), 1, block.size(), file.get())) > 0;)
    text.append(block.data(), n);
  return text;
}

}  // namespace

std::string Ran::last_line() const {
  for (const std::string& text : {errors, output}) {
    const std::size_t end = text.find_last_not_of(" \r\n\t");
    if (end == std::string::npos) continue;
    const std::size_t newline = text.rfind('\n', end);
    const std::size_t begin = newline == std::string::npos ? 0 : newline + 1;
    return text.substr(begin, end + 1 - begin);
  }
  return "";
}

Result<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* const path = std::getenv("PATH");
  std::istringstream folders{path == nullptr ? "/usr/bin:/bin" : path};
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string at = folder + "/" + name;
    if (!folder.empty() && ::access(at.c_str(), X_OK) == 0) return at;
  }
  return invalid(name, "is not installed", "install it, or use another start for the node");
}

Result<Ran> run_command(const std::string& program, const std::vector<std::string>& arguments,
                        const std::string& input) {
  EMPLACE_TRY_ASSIGN(const auto path, find_program(program));
  const File out{std::tmpfile(), &std::fclose}, err{std::tmpfile(), &std::fclose};
  if (!out || !err) return Error{Errc::kIo, program + ": cannot create a temporary file for its output"};
  const process::Descriptor in{::open(input.empty() ? "/dev/null" : input.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!in.open()) return process::system_error(printable(input).c_str(), errno);
  process::ChildCommand command{path, arguments, {}, {}, false};
  command.descriptors = {
      {in.get(), STDIN_FILENO}, {::fileno(out.get()), STDOUT_FILENO}, {::fileno(err.get()), STDERR_FILENO}};
  auto child = process::ChildProcess::start(command);
  if (!child) return Error{Errc::kInvalid, child.error().context};
  const process::ChildEnd end = child->wait();
  Ran ran;
  ran.output = all_of(out);
  ran.errors = all_of(err);
  ran.status = end.signal == 0 ? end.status : 128 + end.signal;
  return ran;
}

}  // namespace emplace::launcher
