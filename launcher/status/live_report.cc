#include "launcher/status/live_report.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <ctime>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"
#include "launcher/session/report.h"
#include "record/report/live_page.h"
#include "record/report/report_page.h"
#include "runtime/process/signals.h"

namespace emplace::launcher {
namespace {

namespace asio = boost::asio;

constexpr int kNice = 10;
constexpr int kMaxPages = 2;  // Pages to save that are being rendered or wait for it.

std::unique_ptr<asio::thread_pool> one_thread() {
  const process::SignalsBlocked blocked;
  return std::make_unique<asio::thread_pool>(1);
}

Nanos thread_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds{time.tv_sec} + Nanos{time.tv_nsec};
}

}  // namespace

LiveReport::LiveReport(std::filesystem::path directory, std::function<std::string()> status)
    : directory_{std::move(directory)}, status_{std::move(status)}, thread_{one_thread()} {
  asio::post(*thread_, [] { ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice); });
}

LiveReport::~LiveReport() = default;

void LiveReport::refresh(std::uint64_t changes, std::function<void(const std::string&)> done) {
  if (reading_.load()) return;
  {
    const MutexLock lock{mutex_};
    if (!pacer_.due(changes, clock_.now())) return;
  }
  reading_ = true;
  asio::post(*thread_, [this, changes, done = std::move(done)] {
    done(read(changes, false));
    reading_ = false;
  });
}

void LiveReport::read_last(std::function<void(const std::string&)> done) {
  asio::post(*thread_, [this, done = std::move(done)] { done(read(0, true)); });
}

LiveFragment LiveReport::fragment() const {
  const MutexLock lock{mutex_};
  return fragment_;
}

void LiveReport::page(Respond respond) {
  if (pages_.load() >= kMaxPages) return respond(line_reply(503, "the report is being made; try again"));
  ++pages_;
  asio::post(*thread_, [this, respond = std::move(respond)] {
    auto report = read_report(directory_, clock_);
    if (report) report->data.status_json = status_();
    respond(report ? reply(200, "text/html; charset=utf-8", record::render_report(report->data))
                   : line_reply(503, report.error().context));
    --pages_;
  });
}

/// Returns why the report cannot be read; empty: it was read.
std::string LiveReport::read(std::uint64_t changes, bool last) {
  const Nanos before = thread_time();
  const auto report = read_report(directory_, clock_);
  if (!report) {
    const MutexLock lock{mutex_};
    pacer_.finished(changes, clock_.now(), thread_time() - before, 0);
    return report.error().context;
  }
  std::string text = record::report_fragment(report->data);
  const std::uint64_t version = fragment().version + 1;
  // The fragment is an object; the version becomes its first member.
  text.replace(0, 1, "{\"version\":" + std::to_string(version) + ",");
  const Bytes packed = compress_gzip(std::as_bytes(std::span{text}));
  const MutexLock lock{mutex_};
  fragment_ = {
      last, version, std::make_shared<const std::string>(std::move(text)),
      std::make_shared<const std::string>(reinterpret_cast<const char*>(packed.data()), packed.size())};
  pacer_.finished(changes, clock_.now(), thread_time() - before, packed.size());
  return {};
}

}  // namespace emplace::launcher
