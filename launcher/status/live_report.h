#pragma once
/// The report of a run in progress, refreshed as often as it may cost.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/mutex.h"
#include "launcher/status/http.h"

namespace boost::asio {
class thread_pool;
}

namespace emplace::launcher {

/// When a report is read again: after something changed, and not before
///   earliest = end + max(kLeast, kShare · cost, bytes / kBytesPerS)
/// cost: processor time of the last reading; bytes: its compressed size. Pure; one thread.
class RefreshPacer {
 public:
  static constexpr std::chrono::seconds kLeast{2};
  static constexpr int kShare = 200;                ///< A reading costs at most 1/200 of a core.
  static constexpr double kBytesPerS = 40 * 1'024;  ///< To each browser.

  /// `changes`: a value that differs once the run has changed.
  bool due(std::uint64_t changes, Nanos now) const {
    return now >= earliest_ && (!read_ || changes != changes_);
  }
  void finished(std::uint64_t changes, Nanos now, Nanos cost, std::size_t bytes) {
    changes_ = changes;
    read_ = true;
    const Nanos sending{static_cast<std::int64_t>(1e9 * static_cast<double>(bytes) / kBytesPerS)};
    earliest_ = now + std::max({Nanos{kLeast}, kShare * cost, sending});
  }

 private:
  Nanos earliest_{0};
  std::uint64_t changes_ = 0;
  bool read_ = false;
};

/// A report as the page fetches it.
struct LiveFragment {
  bool last = false;                        ///< Read after the run had ended, by read_last().
  std::uint64_t version = 0;                ///< 0: there is none yet.
  std::shared_ptr<const std::string> json;  ///< As record::report_fragment(), with "version".
  std::shared_ptr<const std::string> gzip;  ///< The same, compressed.
};

/// Reads the report of a run on a thread of low priority.
class LiveReport {
 public:
  /// `status`: returns the object of /status.json, for the page that people save. Called on the thread.
  LiveReport(std::filesystem::path directory, std::function<std::string()> status);
  ~LiveReport();
  LiveReport(const LiveReport&) = delete;
  LiveReport& operator=(const LiveReport&) = delete;

  /// Reads the report again if it is due; `done` receives why it could not be read, or "". Thread: one.
  void refresh(std::uint64_t changes, std::function<void(const std::string&)> done);
  /// Reads the report once more, whatever it costs. Thread: any.
  void read_last(std::function<void(const std::string&)> done);
  /// The newest report. Thread: any.
  LiveFragment fragment() const;
  /// Renders the page to save, and answers with it. Thread: that of refresh().
  void page(Respond respond);

 private:
  std::string read(std::uint64_t changes, bool last);

  const std::filesystem::path directory_;
  const std::function<std::string()> status_;
  const SystemClock clock_;
  mutable Mutex mutex_;
  LiveFragment fragment_ EMPLACE_GUARDED_BY(mutex_);
  RefreshPacer pacer_ EMPLACE_GUARDED_BY(mutex_);
  std::atomic<bool> reading_ = false;
  std::atomic<int> pages_ = 0;
  const std::unique_ptr<boost::asio::thread_pool> thread_;  // One thread.
};

}  // namespace emplace::launcher
