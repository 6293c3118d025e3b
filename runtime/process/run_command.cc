#include "runtime/process/run_command.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <sstream>

#include "base/text/words.h"
#include "runtime/process/child_process.h"

namespace emplace::process {
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

/// Waits until the child ends, at most `limit`. Returns whether it ended.
bool ends_within(const ChildProcess& child, Nanos limit) {
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(limit).count();
  const int most_ms = static_cast<int>(std::min<std::int64_t>(wait, std::numeric_limits<int>::max()));
  pollfd fd{child.descriptor(), POLLIN, 0};
  int ready = 0;
  do ready = ::poll(&fd, 1, most_ms);
  while (ready < 0 && errno == EINTR);
  return ready != 0;
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

std::optional<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* const path = std::getenv("PATH");
  std::istringstream folders{path == nullptr ? "/usr/bin:/bin" : path};
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string at = folder + "/" + name;
    if (!folder.empty() && ::access(at.c_str(), X_OK) == 0) return at;
  }
  return std::nullopt;
}

Result<Ran> run_command(const std::string& program, const std::vector<std::string>& arguments,
                        const RunOptions& options) {
  const auto path = find_program(program);
  if (!path) return invalid(program, "is not installed");
  const File out{std::tmpfile(), &std::fclose}, err{std::tmpfile(), &std::fclose};
  if (!out || !err) return Error{Errc::kIo, program + ": cannot create a temporary file for its output"};
  const Descriptor in{
      ::open(options.input.empty() ? "/dev/null" : options.input.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!in.open()) return system_error(printable(options.input).c_str(), errno);
  ChildCommand command{*path, arguments, options.environment, {}, options.own_group};
  command.descriptors = {
      {in.get(), STDIN_FILENO}, {::fileno(out.get()), STDOUT_FILENO}, {::fileno(err.get()), STDERR_FILENO}};
  auto child = ChildProcess::start(command);
  if (!child) return Error{Errc::kInvalid, child.error().context};
  if (options.limit.count() > 0 && !ends_within(*child, options.limit))
    return Error{Errc::kDeadline,
                 program + ": no end after " +
                     std::to_string(std::chrono::ceil<std::chrono::seconds>(options.limit).count()) + " s"};
  const ChildEnd end = child->wait();
  Ran ran;
  ran.output = all_of(out);
  ran.errors = all_of(err);
  ran.status = end.signal == 0 ? end.status : 128 + end.signal;
  return ran;
}

}  // namespace emplace::process
