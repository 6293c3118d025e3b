#pragma once
// A trace of a simulated run.

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "tests/runtime/sim/world.h"

namespace emplace::sim_test {

/// Receives one line of a trace.
using Trace = std::function<void(const std::string& line)>;

using runtime::ActorId;
using runtime::sim::Event;
using runtime::sim::Packet;

/// Writes a line for each event of a world: messages, actors, nodes and notes.
class Tracer final : public runtime::sim::Observer {
 public:
  Tracer(const runtime::sim::World& world, Trace trace) : world_{world}, trace_{std::move(trace)} {}
  /// Messages name actors by their id; this is the name to print.
  void name(const std::string& actor) { names_[runtime::actor_id(actor)] = actor; }
  void on_sent(const Packet& packet) override { line("sent     ", packet); }
  void on_refused(const Packet& packet) override { line("refused  ", packet); }
  void on_delivering(const Packet& packet) override { line("delivered", packet); }
  void on_actor(const std::string& actor, Event event) override;
  void on_node(const std::string& node, Event event) override;
  void on_note(std::string_view what) override { line("note     ", std::string{what}); }

 private:
  void line(const char* what, const std::string& text);
  void line(const char* what, const Packet& packet);

  const runtime::sim::World& world_;
  Trace trace_;
  std::map<ActorId, std::string> names_;
};

}  // namespace emplace::sim_test
