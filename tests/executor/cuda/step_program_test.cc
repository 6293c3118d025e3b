// Goal: whatever the streams do within the order of events, each task finds its operands, no memory is
// overwritten while a task uses it, and one task at a time uses a workspace. Method: thousands of seeded
// random graphs, placements and machines, enqueued on functions that record; happens-before is rebuilt from
// the record, every pair of tasks that touch the same memory must be ordered, and every read must find its
// writer.
#include "executor/cuda/program/step_program.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/rng.h"
#include "executor/cuda/stream/step_stream.h"
#include "executor/sim/simulator.h"
#include "tests/executor/cuda/enqueued.h"
#include "tests/support/sample_graphs.h"

namespace emplace::cuda {
namespace {

using testing::Enqueued;
using testing::RecordedWork;

/// The last write to each stretch of memory.
class Contents {
 public:
  /// `offset`: position in `what` of the first byte [B].
  void write(const std::byte* begin, std::int64_t bytes, std::uint64_t what, std::int64_t offset = 0) {
    if (bytes > 0) written_.push_back({begin, begin + bytes, what, offset});
  }
  /// True if the last writes to the stretch wrote `what` from `offset` on, all of it.
  bool holds(const std::byte* begin, std::int64_t bytes, std::uint64_t what, std::int64_t offset = 0) const {
    return holds(begin, begin + bytes, what, begin - offset, written_.size());
  }

 private:
  bool holds(const std::byte* begin, const std::byte* end, std::uint64_t what, const std::byte* origin,
             std::size_t before) const {
    if (begin >= end) return true;
    while (before-- > 0) {
      const Write& last = written_[before];
      if (last.begin >= end || begin >= last.end) continue;
      return last.what == what && last.begin - last.offset == origin &&
             holds(begin, std::min(end, last.begin), what, origin, before) &&
             holds(std::max(begin, last.end), end, what, origin, before);
    }
    return false;
  }
  struct Write {
    const std::byte *begin, *end;
    std::uint64_t what;
    std::int64_t offset;
  };
  std::vector<Write> written_;
};

void expect_sound(const Enqueued& enqueued, std::uint64_t seed) {
  const StepProgram& program = *enqueued.program;
  const TaskPlan& plan = *enqueued.plan;
  const auto& works = enqueued.recording.works();
  ASSERT_EQ(enqueued.recording.complaint(), "") << "seed " << seed;
  ASSERT_EQ(works.size(), program.instructions().size());
  ASSERT_EQ(testing::find_race(works), "") << "seed " << seed;
  const LoweredGraph& lowered = plan.lowered();
  Contents contents;
  constexpr std::uint64_t kCopied = std::uint64_t{1} << 40;
  for (std::uint32_t s = 0; s < plan.slots().size(); ++s)
    if (plan.slots()[s].resident && index(plan.slots()[s].buffer) != TaskPlan::kNone)
      contents.write(program.memory(s), plan.slots()[s].bytes, index(plan.slots()[s].buffer));
  std::vector<std::int64_t> left(plan.tasks().size(), 0), arrived(left);  // Bytes of staged copies.
  for (const Instruction& instruction : program.instructions()) {
    const TaskPlan::Task& task = plan.tasks()[instruction.task];
    const BufferId buffer{task.what};
    const std::uint64_t copied = kCopied + task.what;
    if (instruction.kind == Instruction::Kind::kKernel) {
      const OpId op{task.what};
      for (const BufferId read : lowered.reads(op)) {
        const bool copy = plan.reads_copy(op, read);
        const std::uint64_t wanted = copy ? kCopied + index(read) : index(lowered.base(read));
        ASSERT_TRUE(contents.holds(program.memory(plan.read_slot(op, read)), lowered.bytes(read), wanted))
            << "seed " << seed << ": op " << task.what << " reads a tensor that is not there";
      }
      for (std::uint32_t b = lowered.first_owned(op); b < lowered.end_owned(op); ++b)
        if (lowered.base(BufferId{b}) == BufferId{b})
          contents.write(program.memory(plan.home_slot(BufferId{b})), lowered.bytes(BufferId{b}), b);
      continue;
    }
    if (instruction.kind == Instruction::Kind::kFromHost) {
      ASSERT_TRUE(contents.holds(instruction.from, instruction.bytes, copied, arrived[instruction.task]))
          << "seed " << seed;
    } else {
      ASSERT_TRUE(contents.holds(program.memory(plan.home_slot(buffer)), lowered.bytes(buffer),
                                 index(lowered.base(buffer))))
          << "seed " << seed << ": copied too late or too early";
    }
    auto& done = (instruction.kind == Instruction::Kind::kFromHost ? arrived : left)[instruction.task];
    contents.write(instruction.to, instruction.bytes, copied, done);
    done += instruction.bytes;
  }
}

TEST(StepProgram, HasNoRacesAndEveryReadFindsItsWriter) {
  std::size_t copies = 0, waits = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const std::size_t logical = 1 + rng.below(4);
    const int gpus = 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(logical)));
    const OpGraph graph = testing::random_graph(rng, 8 + rng.below(40));
    // In little memory, blocks are reused soon.
    const DeviceSet devices = testing::sample_devices(logical, false, seed % 2 == 0 ? 1 << 26 : 1 << 14,
                                                      {1e9, 1e-6, seed % 5 == 0});
    // Chunks of a few bytes divide most staged copies.
    Enqueued enqueued{graph, devices, testing::random_placement(rng, graph.num_ops(), logical),
                      gpus,  false,   seed % 3 == 0 ? 64 : 0};
    if (enqueued.program->out_of_memory()) continue;
    SystemClock clock;
    StepStream stream{enqueued.session, *enqueued.group, clock};
    ASSERT_TRUE(stream.prepare(*enqueued.program));
    ASSERT_TRUE(stream.step(*enqueued.program));
    ASSERT_NO_FATAL_FAILURE(expect_sound(enqueued, seed));
    for (const Instruction& instruction : enqueued.program->instructions()) {
      copies += instruction.kind != Instruction::Kind::kKernel;
      waits += instruction.num_waits;
    }
    enqueued.recording.forget_works();
    ASSERT_TRUE(stream.step(*enqueued.program)) << "a second step";
    ASSERT_EQ(testing::find_race(enqueued.recording.works()), "") << seed;
  }
  EXPECT_GT(copies, 10000u);
  EXPECT_GT(waits, 10000u);
}

TEST(StepStream, ThreadsOfSeveralGpusWaitForEachOthersEvents) {
  std::size_t across = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const int gpus = 2 + static_cast<int>(rng.below(2));
    const std::size_t logical = static_cast<std::size_t>(gpus) + rng.below(2);
    const OpGraph graph = testing::random_graph(rng, 30);
    const DeviceSet devices = testing::sample_devices(logical, false, 1 << 26, {1e9, 1e-6});
    Enqueued enqueued{graph, devices, testing::random_placement(rng, graph.num_ops(), logical), gpus};
    SystemClock clock;
    StepStream stream{enqueued.session, *enqueued.group, clock};
    ASSERT_TRUE(stream.prepare(*enqueued.program));
    enqueued.recording.delay(static_cast<int>(seed % static_cast<std::uint64_t>(gpus)));
    // In later steps an event may also be that of the previous step.
    for (int step = 0; step < 3; ++step) {
      enqueued.recording.forget_works();
      ASSERT_TRUE(stream.step(*enqueued.program));
      ASSERT_EQ(enqueued.recording.works().size(), enqueued.program->instructions().size()) << seed;
      ASSERT_EQ(testing::find_race(enqueued.recording.works()), "") << "seed " << seed << ", step " << step;
      ASSERT_EQ(enqueued.recording.complaint(), "") << seed;
    }
    const auto gpu_of = [&](const Instruction& of) {
      return (*enqueued.group)[of.stream / kStreamsPerDevice].gpu();
    };
    for (const Instruction& instruction : enqueued.program->instructions())
      for (const std::uint32_t other : enqueued.program->waits(instruction))
        across += gpu_of(enqueued.program->instructions()[other]) != gpu_of(instruction);
  }
  EXPECT_GT(across, 1000u);
}

TEST(StepProgram, CheckerDetectsAMissingWait) {
  std::size_t seen = 0, tried = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Rng rng{seed, Purpose::kTest};
    const OpGraph graph = testing::random_graph(rng, 30);
    const DeviceSet devices = testing::sample_devices(2, false, 1 << 26, {1e9, 1e-6});
    Enqueued enqueued{graph, devices, testing::random_placement(rng, graph.num_ops(), 2), 1};
    SystemClock clock;
    StepStream stream{enqueued.session, *enqueued.group, clock};
    ASSERT_TRUE(stream.prepare(*enqueued.program));
    ASSERT_TRUE(stream.step(*enqueued.program));
    std::vector<RecordedWork> works = enqueued.recording.works();
    for (std::size_t i = 0; i < works.size(); ++i) {
      if (enqueued.program->instructions()[i].num_waits == 0) continue;
      const auto kept = works[i].clock;  // Its stream has not waited, except for its own past.
      for (std::size_t s = 0; s < kept.size(); ++s)
        if (s != works[i].stream) works[i].clock[s] = 0;
      ++tried;
      seen += !testing::find_race(works).empty();
      works[i].clock = kept;
    }
  }
  EXPECT_GT(tried, 100u);
  EXPECT_EQ(seen, tried) << "some waits are not needed";
}

TEST(StepProgram, DoesNotEnqueueWhatDoesNotFit) {
  const OpGraph graph =
      testing::sample_graph({{"a", {}, {4000}}, {"b", {{0, 0}}, {4000}}, {"c", {{1, 0}}, {4000}}});
  const DeviceSet devices = testing::sample_devices(1, false, 6000);
  Enqueued enqueued{graph, devices, Placement(3, DeviceId{0}), 1};
  ASSERT_TRUE(enqueued.program->out_of_memory());
  EXPECT_EQ(enqueued.program->out_of_memory()->op, OpId{1});
  EXPECT_EQ(enqueued.program->out_of_memory()->asked, 4000);
  EXPECT_LT(enqueued.program->out_of_memory()->free, 4000);
  EXPECT_TRUE(enqueued.recording.works().empty());
}

TEST(HostStages, TakeSixtyFourMebibytesForAnyNumberOfDevices) {
  for (std::size_t devices = 1; devices <= 255; ++devices) {
    const HostStages stages = stages_for(devices);
    EXPECT_LE(stages.total_bytes(devices), std::int64_t{64} << 20) << devices;
    EXPECT_GE(stages.count, 2u) << devices;
    EXPECT_GT(stages.chunk_bytes, 0) << devices;
    EXPECT_EQ(stages.chunk_bytes % 4096, 0) << devices;
  }
}

}  // namespace
}  // namespace emplace::cuda
