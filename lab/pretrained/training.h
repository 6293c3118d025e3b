#pragma once
/// Makes the weights of a scheduler policy from many graphs and machines: it repeats placements that searches
/// found, then its heads evolve by the step times of their own. A run with policy.method = "scheduler" learns
/// on from them by policy gradient.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/settings.h"
#include "policy/placers/scheduler_policy.h"

namespace emplace::lab {

/// A recipe, and everything that the result depends on. The same recipe gives the same weights, bit for bit,
/// on the same kind of processor.
struct TrainRecipe {
  std::vector<std::string> worlds;    ///< Patterns of graph files; "FILE @ MACHINE" if the file has none.
  std::vector<std::string> held_out;  ///< Likewise, only measured.
  std::uint32_t version = 1;          ///< Version that the weights get.
  std::uint64_t seed = 1;
  std::uint64_t search_evaluations = 3000;  ///< Placements that the search for each world's example measures.
  std::uint64_t max_ops = 6000;             ///< Larger graphs are left out of training.
  std::uint64_t max_choices = 1500;         ///< Choices of one placement in training.
  std::uint64_t imitation_updates = 0;      ///< First updates; they repeat the examples.
  std::uint64_t evolution_updates = 27;     ///< Updates after these; they only change the heads.
  std::uint64_t evolution_tries = 6;        ///< Changes of each head that one of these updates tries.
  std::uint64_t evolution_worlds = 80;      ///< Worlds on which each is tried.
  float evolution_deviation = 0.3f;
  float evolution_certainty = 1;
  float evolution_softness = 0.05f;
  std::uint64_t worlds_per_update = 4;
  float imitation_rate = 0.003f;
  float clip_norm = 1;
  std::uint64_t embedding = 32, code = 8, rounds = 3, founders = 8, improvers = 4;

  std::uint64_t updates() const { return imitation_updates + evolution_updates; }
  void list(Settings& settings) {
    settings.add("worlds", worlds, "Graph files or patterns; FILE @ MACHINE if a file contains no machine.");
    settings.add("held_out", held_out, "Worlds that are measured but not learned from.");
    settings.add("version", version, "Version number of the weights.");
    settings.add("seed", seed, "Seed of the initial weights, of the examples, and of the draws.");
    settings.add("search_evaluations", search_evaluations, at_least(1),
                 "Placements that the search for the example of a world measures.");
    settings.add("max_ops", max_ops, at_least(1), "Graphs with more ops are left out.");
    settings.add("max_choices", max_choices, at_least(2), "Largest number of choices of one placement.");
    settings.add("imitation_updates", imitation_updates, "First updates: they repeat the examples.");
    settings.add(
        "evolution_updates", evolution_updates,
        "Updates after these: weights of the heads are changed at random and whole placements compared.");
    settings.add("evolution_tries", evolution_tries, between(1, 1024), "Changes tried of each head.");
    settings.add("evolution_worlds", evolution_worlds, between(1, 100'000), "Worlds on which each is tried.");
    settings.add("evolution_deviation", evolution_deviation, at_least(0),
                 "Standard deviation of a change, plus this share of the weight.");
    settings.add("evolution_certainty", evolution_certainty, at_least(0),
                 "A change is kept if its mean gain is this many times its standard error.");
    settings.add("evolution_softness", evolution_softness, at_least(0.001f),
                 "Log ratio of step times at which the second best head counts a third of the best one.");
    settings.add("worlds_per_update", worlds_per_update, between(1, 1024), "Worlds of one update.");
    settings.add("imitation_rate", imitation_rate, at_least(0), "Learning rate while examples are repeated.");
    settings.add("clip_norm", clip_norm, at_least(0), "Largest norm of a gradient; 0: no limit.");
    settings.add("embedding", embedding, between(1, 1024), "Size of a unit's embedding.");
    settings.add("code", code, between(1, 1024), "Size of what the heads see of an embedding.");
    settings.add("rounds", rounds, between(0, 16), "Rounds of message passing.");
    settings.add("founders", founders, between(1, 64), "Heads that place from nothing.");
    settings.add("improvers", improvers, between(1, 64), "Heads that improve a placement.");
  }
};

/// Reads a recipe. Patterns are relative to its folder. Errors: kIo; kInvalid with file and line.
Result<TrainRecipe> load_recipe(const std::filesystem::path& path);

struct TrainEvents {
  std::function<void(const std::string&)> line;  ///< A line of progress.
  std::function<bool()> stopped;                 ///< Polled; true ends after the current update.
};

/// Trains. Examples are kept in the folder OUTPUT.examples and the state in OUTPUT.state, from which a later
/// call with the same recipe continues. Writes OUTPUT when it is done. Returns false if it was stopped.
/// Errors: those of the readers; kInvalid for a recipe without worlds or a state of another recipe.
Result<bool> train_scheduler(const TrainRecipe& recipe, const std::filesystem::path& output, unsigned threads,
                             const Clock& clock, const TrainEvents& events);

}  // namespace emplace::lab
