#include "launcher/start/command.h"

#include <sys/wait.h>
#include <array>

#include <boost/process/args.hpp>
#include <boost/process/child.hpp>
#include <boost/process/exe.hpp>
#include <boost/process/io.hpp>
#include <boost/process/pipe.hpp>
#include <boost/process/search_path.hpp>

#include "base/text/words.h"

namespace emplace::launcher {

namespace bp = boost::process;

std::string Ran::last_line() const {
  std::size_t end = output.find_last_not_of(" \r\n\t");
  if (end == std::string::npos) return "";
  const std::size_t begin = output.rfind('\n', end);
  return output.substr(begin == std::string::npos ? 0 : begin + 1,
                       end - (begin == std::string::npos ? -1 : begin));
}

Result<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const auto found = bp::search_path(name);
  if (found.empty())
    return invalid(name, "is not installed here", "install it, or start the node another way");
  return found.string();
}

Result<Ran> run_command(const std::string& program, const std::vector<std::string>& arguments,
                        const std::string& input) {
  const auto path = find_program(program);
  if (!path) return path.error();
  bp::ipstream out;
  std::error_code failure;
  bp::child child{bp::exe = *path, bp::args = arguments, (bp::std_out & bp::std_err) > out,
                  bp::std_in < (input.empty() ? "/dev/null" : input), failure};
  if (failure) return invalid(program, "cannot be started: " + failure.message());
  Ran ran;
  std::array<char, 4096> block{};
  while (out.read(block.data(), block.size()) || out.gcount() > 0)
    ran.output.append(block.data(), static_cast<std::size_t>(out.gcount()));
  child.wait(failure);
  const int status = child.native_exit_code();
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ran;
}

}  // namespace emplace::launcher
