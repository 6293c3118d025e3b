#pragma once
/// Ids are types, never `int`. They are dense indices from 0; `index(id)` is the number.

#include <cstddef>
#include <cstdint>

namespace emplace {

enum class OpId : std::uint32_t {};      ///< An op of one graph, in creation order.
enum class TensorId : std::uint32_t {};  ///< One output of one op; dense over the graph.
enum class TypeId : std::uint16_t {};    ///< An op type of one graph.
enum class DeviceId : std::uint8_t {};   ///< A device of one DeviceSet, which has at most 256.

inline constexpr OpId kNoOp{0xffffffffu};
inline constexpr std::uint32_t kNoIndex = 0xffffffffu;  ///< Marks a missing dense index.
inline constexpr std::size_t kMaxDevices = 256;

constexpr std::size_t index(OpId id) { return static_cast<std::size_t>(id); }
constexpr std::size_t index(TensorId id) { return static_cast<std::size_t>(id); }
constexpr std::size_t index(TypeId id) { return static_cast<std::size_t>(id); }
constexpr std::size_t index(DeviceId id) { return static_cast<std::size_t>(id); }

}  // namespace emplace
