#pragma once
/// Families of graphs on which a placer learns to place graphs that it has never seen.
///                                                    Paper: Placeto 2019, sections 3.1 and 4.2  [PLA-FAMILY]

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/op_graph.h"

namespace emplace::models {

enum class Family : std::uint8_t {
  kCifar10,  ///< Image classifiers of convolutional cells with random wiring, as architecture search tries
             ///< them.
  kPtb,      ///< Language models of recurrent cells with random wiring, unrolled.
  kNmt,      ///< Encoder-decoders with attention of varied layers, length, hidden size, batch and vocabulary.
};

/// What a family is, apart from its graphs.
struct FamilyFacts {
  Family family;
  std::string_view name;     ///< As on the command line.
  std::string_view summary;  ///< One line.
  std::size_t groups;        ///< To how many groups its graphs are merged before they are placed.
};
std::span<const FamilyFacts> all_families();
const FamilyFacts& facts(Family family);
/// Errors (kInvalid): unknown, with the nearest name.
Result<Family> find_family(std::string_view name);

/// The paper's number of graphs per family. A seed names a family of any size: graph i is the same in all.
inline constexpr std::uint32_t kFamilySize = 32;

/// Graph `index` of the family that `seed` names: a whole training step, called "cifar10-s1-07". A pure
/// function of its arguments. Its meta has family, seed, index and the number of groups. About 2,000 to
/// 20,000 ops. Errors: none in practice; those of OpGraphBuilder::build. Any thread.
Result<OpGraph> family_graph(Family family, std::uint64_t seed, std::uint32_t index);

/// Which indices are learned from and which are kept for the test; each ascending, every index in one of
/// them.
struct FamilySplit {
  std::vector<std::uint32_t> train, test;
};
/// Three quarters of `count` at random for training (24 of 32), at least one graph in each part.
/// @pre count >= 2.
FamilySplit split_family(Family family, std::uint64_t seed, std::uint32_t count = kFamilySize);

}  // namespace emplace::models
