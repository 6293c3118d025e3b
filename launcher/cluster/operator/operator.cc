#include "launcher/cluster/operator/operator.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "actors/task.h"
#include "launcher/cluster/supervision/stop_watch.h"
#include "messages/roles.h"
#include "messages/run_control.h"
#include "runtime/context.h"
#include "runtime/node.h"

namespace emplace::launcher {
namespace {

constexpr std::chrono::seconds kTimeout{8};  // Time for the head to answer.
// The time doubles with each retry: a busy head must not get more and more requests.
constexpr std::chrono::milliseconds kRetry{500}, kLongestRetry{2000};

/// Requests the status from the view, with retries, and again after each interval.
class Watcher final : public runtime::Actor {
 public:
  using Show = std::function<void(const messages::StatusDelivered&)>;
  Watcher(Nanos every, Show show, std::function<void()> each_second)
      : every_{every}, show_{std::move(show)}, each_second_{std::move(each_second)} {}
  void on_start(runtime::Context& context) override {
    ask(context, 1);
    tick(context);
  }
  void on_message(runtime::Context& context, const runtime::Incoming& incoming) override {
    (void)incoming.match([&](const messages::StatusDelivered& status) {
      if (answered_ || status.request != request_) return;  // A further answer to a repeated request.
      answered_ = served_ = true;
      retry_ = kRetry;
      show_(status);
      if (every_ == Nanos{0}) return context.stop_node("");
      context.after(every_, [this, &context] { ask(context, request_ + 1); });
    });
  }

 private:
  void ask(runtime::Context& context, std::uint64_t request) {
    if (request != request_) asked_ = context.now();
    // A head that has answered before is busy or restarts. If it is gone, the node ends by itself.
    if (!served_ && context.now() - asked_ > kTimeout) return context.stop_node("the head does not answer");
    request_ = request;
    answered_ = false;
    context.send(actors::kView, messages::StatusRequested{request});
    context.after(std::exchange(retry_, std::min<Nanos>(2 * retry_, kLongestRetry)),
                  [this, &context, request] {
                    if (!answered_ && request == request_) ask(context, request);
                  });
  }

  void tick(runtime::Context& context) {
    each_second_();
    context.after(std::chrono::seconds{1}, [this, &context] { tick(context); });
  }

  const Nanos every_;
  const Show show_;
  const std::function<void()> each_second_;
  std::uint64_t request_ = 0;
  bool answered_ = false;
  bool served_ = false;  // Any request was answered.
  Nanos retry_ = kRetry;
  Nanos asked_{0};
};

/// Requests the end of the run until the head exits.
class Ender final : public runtime::Actor {
 public:
  void on_start(runtime::Context& context) override { ask(context); }
  void on_message(runtime::Context&, const runtime::Incoming&) override {}

 private:
  void ask(runtime::Context& context) {
    context.send(actors::kDispatcher, messages::StopRun{std::string{kEndedByOperator}});
    context.after(std::chrono::seconds{1}, [this, &context] { ask(context); });
  }
};

struct Visit {
  int signal = 0;
  std::string reason;  // Why the node ended.
  bool over = false;   // The head stated that the run is over.
};

/// Runs a node with one actor until the actor stops it.
Result<Visit> visit(const HeadAccess& head, const runtime::ActorFactory& make) {
  StopWatch watch{{.interrupt = true, .standard_input = false}};
  const SystemClock clock;
  runtime::NodeOptions options = operator_node(head, clock);
  options.first_timeout = kTimeout;
  EMPLACE_TRY_ASSIGN(auto node, runtime::Node::make(options, clock));
  EMPLACE_TRY(node->spawn(operator_actor(options), runtime::Home::kIoLoop, make));
  watch.guard(node.get());
  auto ended = node->run();
  watch.guard(nullptr);
  if (!ended) return ended.error();
  return Visit{watch.received(), *std::move(ended), node->run_is_over()};
}

}  // namespace

runtime::NodeOptions operator_node(const HeadAccess& head, const Clock& clock) {
  const auto number =
      std::to_string(static_cast<std::uint64_t>(clock.wall().count()) % 1'000'000'000'000 * 1'000 +
                     static_cast<std::uint64_t>(::getpid()) % 1'000);
  runtime::NodeOptions options;
  options.name = "operator-" + number;
  options.upstream = head.endpoint;
  options.keys = head.keys;
  options.insecure = head.insecure;
  options.known_type = &messages::is_known;
  options.rules = {&messages::may_announce, &messages::may_send};
  return options;
}

std::string operator_actor(const runtime::NodeOptions& options) {
  return "operator/" + options.name.substr(options.name.find('-') + 1);
}

Result<int> watch_status(const HeadAccess& head, Nanos every,
                         const std::function<void(const messages::StatusDelivered&)>& show,
                         const std::function<void()>& each_second) {
  bool shown = false, more = true;
  const auto note = [&](const messages::StatusDelivered& status) {
    shown = true;
    more = status.more_starts && status.progress.dispatch.ending != kEndedByOperator;
    show(status);
  };
  while (more) {
    const bool before = std::exchange(shown, false);
    const auto visited = visit(head, [&] { return std::make_unique<Watcher>(every, note, each_second); });
    if (!visited && before && visited.error().code == Errc::kPeerLost)
      return 0;  // The run ended without another start.
    if (!visited) return visited.error();
    if (!shown && visited->signal == 0) return Error{Errc::kPeerLost, head.endpoint + ": " + visited->reason};
    if (visited->signal != 0 || every == Nanos{0}) return visited->signal;
    if (visited->over) return 0;
  }
  return 0;
}

Result<int> end_run(const HeadAccess& head) {
  EMPLACE_TRY_ASSIGN(const auto visited, visit(head, [] { return std::make_unique<Ender>(); }));
  return visited.signal;
}

}  // namespace emplace::launcher
