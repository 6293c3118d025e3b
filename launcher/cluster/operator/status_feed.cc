#include "launcher/cluster/operator/status_feed.h"

#include <memory>
#include <utility>

#include "actors/task.h"
#include "runtime/context.h"
#include "runtime/process/signals.h"

namespace emplace::launcher {
namespace {

constexpr std::chrono::seconds kEvery{1};
constexpr std::chrono::hours kWaitForHead{24 * 365};  // A head may come back at any time.

class Asker final : public runtime::Actor {
 public:
  Asker(std::function<bool()> wanted, StatusFeed::Show show)
      : wanted_{std::move(wanted)}, show_{std::move(show)} {}
  void on_start(runtime::Context& context) override { ask(context); }
  void on_message(runtime::Context&, const runtime::Incoming& incoming) override {
    (void)incoming.match([&](const messages::StatusDelivered& status) { show_(status); });
  }

 private:
  void ask(runtime::Context& context) {
    if (wanted_()) context.send(actors::kView, messages::StatusRequested{++request_});
    context.after(kEvery, [this, &context] { ask(context); });
  }

  const std::function<bool()> wanted_;
  const StatusFeed::Show show_;
  std::uint64_t request_ = 0;
};

}  // namespace

StatusFeed::StatusFeed(HeadAccess head, Show show, std::function<void()> on_over)
    : head_{std::move(head)}, show_{std::move(show)}, on_over_{std::move(on_over)} {
  const process::SignalsBlocked blocked;
  thread_ = std::jthread{[this] { run(); }};
}

StatusFeed::~StatusFeed() {
  const MutexLock lock{mutex_};
  ending_ = true;
  if (node_ != nullptr) node_->stop("the page is closed");
}

void StatusFeed::run() {
  for (;;) {
    runtime::NodeOptions options = operator_node(head_, clock_);
    options.first_timeout = options.upstream_timeout = kWaitForHead;
    auto node = runtime::Node::make(options, clock_);
    if (!node) return;  // The endpoint is unusable, as `ps` would report; the progress lines remain.
    const auto asker = [this] { return std::make_unique<Asker>([this] { return wanted(); }, show_); };
    if (!(*node)->spawn(operator_actor(options), runtime::Home::kIoLoop, asker)) return;
    {
      const MutexLock lock{mutex_};
      if (ending_) return;
      node_ = node->get();
    }
    const auto ended = (*node)->run();
    {
      const MutexLock lock{mutex_};
      node_ = nullptr;
      if (ending_ || !ended) return;
    }
    if ((*node)->run_is_over()) return on_over_();
  }
}

}  // namespace emplace::launcher
