#include "runtime/log.h"

#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/spdlog.h>

#include <array>
#include <atomic>
#include <memory>

#include "base/mutex.h"

namespace emplace::runtime {
namespace {

Mutex g_mutex;
std::shared_ptr<spdlog::logger> g_logger EMPLACE_GUARDED_BY(g_mutex);
std::atomic<bool> g_open{false};

constexpr std::size_t kMaxBytes = 8u << 20, kMaxFiles = 4;
constexpr std::array kLevels{spdlog::level::info, spdlog::level::warn, spdlog::level::err};

std::string harmless(std::string_view text) {
  std::string safe{text};
  for (char& c : safe)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return safe;
}

}  // namespace

Result<Unit> open_log(const std::string& file) {
  try {
    auto sink = std::make_shared<spdlog::sinks::rotating_file_sink_mt>(file, kMaxBytes, kMaxFiles);
    auto logger = std::make_shared<spdlog::logger>("emplace", std::move(sink));
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
    logger->flush_on(spdlog::level::info);
    const MutexLock lock{g_mutex};
    g_logger = std::move(logger);
    g_open = true;
  } catch (const spdlog::spdlog_ex& failure) {
    return Error{Errc::kIo, file + ": " + failure.what() + "; choose a writable run directory"};
  }
  return Unit{};
}

void close_log() {
  const MutexLock lock{g_mutex};
  g_open = false;
  g_logger.reset();
}

void log(LogLevel level, std::string_view actor, std::string_view text) {
  if (!g_open) return;
  std::shared_ptr<spdlog::logger> logger;
  {
    const MutexLock lock{g_mutex};
    logger = g_logger;
  }
  if (logger)
    logger->log(kLevels.at(static_cast<std::size_t>(level)), harmless(actor) + ": " + harmless(text));
}

}  // namespace emplace::runtime
