#pragma once
/// Families of graphs on which a placer learns to generalise to unseen graphs.
/// Paper: Placeto 2019, sections 3.1 and 4.2  [PLA-FAMILY]

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace::models {

enum class Family : std::uint8_t {
  kCifar10,  ///< Image classifiers of randomly wired convolutional cells, as in architecture search.
  kPtb,      ///< Language models of randomly wired recurrent cells, unrolled.
  kNmt,      ///< Encoder-decoders with attention; layers, length, hidden size, batch and vocabulary vary.
};

/// Properties of a family.
struct FamilyFacts {
  Family family;
  std::string_view name;     ///< Name on the command line.
  std::string_view summary;  ///< Description in one line.
  std::size_t groups;        ///< Number of groups that its graphs are merged into before placement.
};
std::span<const FamilyFacts> all_families();
const FamilyFacts& facts(Family family);
/// Errors (kInvalid): unknown, with the nearest name.
Result<Family> find_family(std::string_view name);

/// The paper's number of graphs per family. Graph i of a seed is the same for every family size.
inline constexpr std::uint32_t kFamilySize = 32;

/// Builds graph `index` of the family with seed `seed`, a whole training step, called "cifar10-s1-07". A pure
/// function of its arguments. Its meta has family, seed, index and the number of groups. It has about 2,000
/// to 20,000 ops. Errors: none in practice; those of OpGraphBuilder::build. Any thread.
Result<OpGraph> family_graph(Family family, std::uint64_t seed, std::uint32_t index);

/// The indices for training and for testing; each list ascending, every index in exactly one.
struct FamilySplit {
  std::vector<std::uint32_t> train, test;
};
/// Assigns a random three quarters of `count` to training (24 of 32), with at least one graph in each part.
/// @pre count >= 2.
FamilySplit split_family(Family family, std::uint64_t seed, std::uint32_t count = kFamilySize);

}  // namespace emplace::models
