#include "launcher/status/live_report.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/file.h"
#include "base/mutex.h"
#include "launcher/session/report.h"
#include "record/report/live_page.h"
#include "record/report/report_page.h"
#include "runtime/process/signals.h"

namespace emplace::launcher {
namespace {

namespace asio = boost::asio;

constexpr int kNice = 10;
constexpr int kMaxPages = 2;  // Pages to save that are being rendered or wait for it.

Nanos thread_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds{time.tv_sec} + Nanos{time.tv_nsec};
}

}  // namespace

class LiveReport::Worker {
 public:
  Worker(std::filesystem::path directory, std::function<std::string()> status)
      : directory_{std::move(directory)}, status_{std::move(status)}, work_{io_.get_executor()} {
    const process::SignalsBlocked blocked;
    thread_ = std::thread{[this] {
      ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice);
      io_.run();
    }};
  }
  ~Worker() {
    io_.stop();
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void refresh(std::uint64_t changes, std::function<void(const std::string&)> done) {
    if (reading_.load()) return;
    {
      const MutexLock lock{mutex_};
      if (!pacer_.due(changes, clock_.now())) return;
    }
    reading_ = true;
    asio::post(io_, [this, changes, done = std::move(done)] {
      done(read(changes, false));
      reading_ = false;
    });
  }
  void read_last(std::function<void(const std::string&)> done) {
    asio::post(io_, [this, done = std::move(done)] { done(read(0, true)); });
  }

  LiveFragment fragment() const {
    const MutexLock lock{mutex_};
    return fragment_;
  }

  void page(Respond respond) {
    if (pages_.load() >= kMaxPages) return respond(line_reply(503, "the report is being made; try again"));
    ++pages_;
    asio::post(io_, [this, respond = std::move(respond)] {
      auto report = read_report(directory_, clock_);
      if (report) report->data.status_json = status_();
      respond(report ? reply(200, "text/html; charset=utf-8", record::render_report(report->data))
                     : line_reply(503, report.error().context));
      --pages_;
    });
  }

 private:
  /// Returns why the report cannot be read; empty: it was read.
  std::string read(std::uint64_t changes, bool last) {
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

  const std::filesystem::path directory_;
  const std::function<std::string()> status_;
  const SystemClock clock_;
  mutable Mutex mutex_;
  LiveFragment fragment_ EMPLACE_GUARDED_BY(mutex_);
  RefreshPacer pacer_ EMPLACE_GUARDED_BY(mutex_);
  std::atomic<bool> reading_ = false;
  std::atomic<int> pages_ = 0;
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  std::thread thread_;
};

LiveReport::LiveReport(std::filesystem::path directory, std::function<std::string()> status)
    : worker_{std::make_unique<Worker>(std::move(directory), std::move(status))} {}
LiveReport::~LiveReport() = default;
void LiveReport::refresh(std::uint64_t changes, std::function<void(const std::string&)> done) {
  worker_->refresh(changes, std::move(done));
}
void LiveReport::read_last(std::function<void(const std::string&)> done) {
  worker_->read_last(std::move(done));
}
LiveFragment LiveReport::fragment() const { return worker_->fragment(); }
void LiveReport::page(Respond respond) { worker_->page(std::move(respond)); }

}  // namespace emplace::launcher
