#include "tests/system/process.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include "base/check.h"

namespace emplace::testing {
namespace {

struct Ends {
  int ours = -1, theirs = -1;
};

Ends make_pipe() {
  std::array<int, 2> fds{};
  EMPLACE_CHECK(::pipe2(fds.data(), O_CLOEXEC) == 0, "pipe");
  return {fds[0], fds[1]};
}

Ends make_terminal() {
  Ends ends;
  EMPLACE_CHECK(::openpty(&ends.ours, &ends.theirs, nullptr, nullptr, nullptr) == 0, "openpty");
  ::fcntl(ends.ours, F_SETFD, FD_CLOEXEC);
  ::fcntl(ends.theirs, F_SETFD, FD_CLOEXEC);
  return ends;
}

Ends open_file(const std::string& path) {
  const Ends ends{-1, ::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
  EMPLACE_CHECK(ends.theirs >= 0, "open " + path);
  return ends;
}

}  // namespace

Process::Process(const std::vector<std::string>& arguments, const Where& where) {
  std::vector<std::string> words = where.prefix;
  words.emplace_back(EMPLACE_PROGRAM);
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const Ends out = !where.out_file.empty() ? open_file(where.out_file)
                   : where.out_is_terminal ? make_terminal()
                                           : make_pipe();
  const Ends err = make_pipe();
  pid_ = ::fork();
  EMPLACE_CHECK(pid_ >= 0, "fork");
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // An ended test leaves no process.
    ::dup2(out.theirs, STDOUT_FILENO);
    ::dup2(err.theirs, STDERR_FILENO);
    for (const std::string& variable : where.environment) ::putenv(const_cast<char*>(variable.c_str()));
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(out.theirs);
  ::close(err.theirs);
  out_fd_ = out.ours;
  err_fd_ = err.ours;
}

Process::~Process() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (out_fd_ >= 0) ::close(out_fd_);
  if (err_fd_ >= 0) ::close(err_fd_);
}

bool Process::read_some() {
  std::array<pollfd, 2> ends{
      {{out_fd_, POLLIN, 0}, {err_fd_, POLLIN, 0}}};  // poll() ignores a closed end (-1).
  if (out_fd_ < 0 && err_fd_ < 0) return false;
  if (::poll(ends.data(), ends.size(), -1) < 0) return errno == EINTR;
  const auto drain = [](const pollfd& end, int& fd, std::string& text) {
    if (end.revents == 0) return;
    std::array<char, 65536> bytes;
    const ssize_t got = ::read(fd, bytes.data(), bytes.size());
    if (got > 0) {
      text.append(bytes.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || errno != EINTR) {  // A terminal answers EIO once its other end is closed.
      ::close(fd);
      fd = -1;
    }
  };
  drain(ends[0], out_fd_, seen_.out);
  drain(ends[1], err_fd_, seen_.err);
  return true;
}

bool Process::wait_for_error_text(std::string_view text) {
  while (seen_.err.find(text) == std::string::npos) {
    if (!read_some()) return false;
  }
  return true;
}

bool Process::wait_for_out_text(std::string_view text) {
  std::size_t at = std::string::npos;
  while ((at = seen_.out.find(text, found_)) == std::string::npos) {
    if (!read_some()) return false;
  }
  found_ = at + text.size();
  return true;
}

void Process::send(int signal) { ::kill(pid_, signal); }

Finished Process::finish() {
  while (read_some()) {
  }
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  seen_.killed = WIFSIGNALED(status);
  seen_.status = seen_.killed ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return seen_;
}

Finished run(const std::vector<std::string>& arguments, const Process::Where& where) {
  return Process{arguments, where}.finish();
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "emplace-test-XXXXXX").string();
  EMPLACE_CHECK(::mkdtemp(name.data()) != nullptr, "mkdtemp");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::file(std::string_view name, std::string_view content) const {
  std::ofstream out{path_ / name, std::ios::binary};
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  return at(name);
}

std::string shipped(std::string_view path) { return EMPLACE_SOURCE_DIR "/" + std::string{path}; }

std::vector<std::string> small_run(const std::string& directory, const std::vector<std::string>& more) {
  std::vector<std::string> arguments{
      "run",       shipped("configs/quickstart.toml"),
      "--run-dir", directory,
      "--set",     "input.graph=" + shipped("tests/fixtures/graphs/cifar10_cnn-bs128.json"),
      "--set",     "compare.methods=[\"single-gpu\", \"expert\", \"contiguous\", \"scotch\"]",
      "--set",     "policy.groups=8",
      "--set",     "policy.hierarchical.hidden=8",
      "--set",     "policy.sequence.hidden=8",
      "--set",     "policy.placeto.hidden=8"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string read_proc(pid_t pid, const char* name) {
  std::string text(65'536, '\0');
  const int fd = ::open(("/proc/" + std::to_string(pid) + "/" + name).c_str(), O_RDONLY | O_CLOEXEC);
  const ssize_t got = fd < 0 ? 0 : ::read(fd, text.data(), text.size());
  if (fd >= 0) ::close(fd);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

pid_t head_of(const std::string& directory) {
  for (const auto& entry : std::filesystem::directory_iterator{"/proc"}) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::string words = read_proc(std::stoi(name), "cmdline");
    if (words.find(std::string{"node\0--config", 13}) != std::string::npos &&
        words.find(directory) != std::string::npos)
      return std::stoi(name);
  }
  return 0;
}

std::vector<std::string> keys(const nlohmann::ordered_json& object) {
  std::vector<std::string> names;
  for (const auto& item : object.items()) names.push_back(item.key());
  return names;
}

}  // namespace emplace::testing
