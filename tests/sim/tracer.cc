#include "tests/sim/tracer.h"

#include <array>
#include <chrono>
#include <cstdio>

#include "messages/all.h"

namespace emplace::sim_test {
namespace {

const char* word(Event event) {
  constexpr std::array kWords{"started  ", "threw    ", "crashed  ", "paused   ", "resumed  "};
  return kWords.at(static_cast<std::size_t>(event));
}

std::string details(const Packet& packet) {
  if (const auto proposal = messages::decode_body<messages::PlacementProposed>(packet.body);
      proposal && packet.envelope.type == messages::PlacementProposed::kType)
    return "  episode " + std::to_string(proposal->episode) + " placement " +
           std::to_string(proposal->placement_id);
  if (const auto lease = messages::decode_body<messages::LeaseGranted>(packet.body);
      lease && packet.envelope.type == messages::LeaseGranted::kType)
    return "  placement " + std::to_string(lease->placement_id) + " lease " +
           std::to_string(lease->lease_epoch);
  if (const auto measured = messages::decode_body<messages::PlacementMeasured>(packet.body);
      measured && packet.envelope.type == messages::PlacementMeasured::kType)
    return "  lease " + std::to_string(measured->lease_epoch);
  if (const auto beat = messages::decode_body<messages::Heartbeat>(packet.body);
      beat && packet.envelope.type == messages::Heartbeat::kType) {
    std::string held = "  holds";
    for (const std::uint64_t lease : beat->leases) held += " " + std::to_string(lease);
    return held;
  }
  if (const auto now = messages::decode_body<messages::DispatchProgress>(packet.body);
      now && packet.envelope.type == messages::DispatchProgress::kType) {
    std::string flight = "  " + std::to_string(now->in_flight) + " in flight";
    for (const auto& use : now->executors)
      flight += ", " + std::to_string(use.in_flight) + " at " + use.executor;
    return flight + ", " + std::to_string(now->leases.expired) + " leases expired";
  }
  return "";
}

}  // namespace

void Tracer::on_actor(const std::string& actor, Event event) { line(word(event), actor); }

void Tracer::on_node(const std::string& node, Event event) { line(word(event), "node " + node); }

void Tracer::line(const char* what, const std::string& text) {
  std::array<char, 40> head;
  std::snprintf(head.data(), head.size(), "%14.6f s  ", std::chrono::duration<double>(world_.now()).count());
  trace_(head.data() + std::string{what} + "  " + text);
}

void Tracer::line(const char* what, const Packet& packet) {
  line(what, "#" + std::to_string(packet.number) + " " + messages::type_name(packet.envelope.type) + "  " +
                 names_[packet.envelope.from] + " -> " + names_[packet.envelope.to] + details(packet));
}

}  // namespace emplace::sim_test
