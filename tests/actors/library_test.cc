// Goal: a run's files arrive whole or not at all, whatever the network does, and existing files are not
// fetched again. Method: library and borrower in the simulated world, files in memory; a seed decides which
// messages are lost, repeated and delayed.
#include "actors/library.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <optional>

#include "base/hash.h"
#include "tests/runtime/sim/world.h"

namespace emplace::actors {
namespace {

using messages::FileFacts;
using messages::ManifestDelivered;

Bytes file_of(std::size_t size, int salt) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 31 + i / 997 + salt) & 0xff);
  return bytes;
}

/// The files of a head.
struct Shelf {
  ManifestDelivered manifest;
  std::map<std::string, Bytes> files;
  std::uint64_t reads = 0;
  void add(const std::string& path, Bytes bytes) {
    const std::string sha256 = sha256_hex(bytes);
    manifest.files.push_back({path, sha256, bytes.size()});
    files[sha256] = std::move(bytes);
  }
  FileReader reader() {
    return [this](const FileFacts& file) -> Result<Bytes> {
      ++reads;
      return files.at(file.sha256);
    };
  }
};

/// The files of a node.
class Memory final : public FileStore {
 public:
  std::map<std::string, Bytes> parts, whole;
  std::uint64_t appended = 0;
  bool has(const FileFacts& file) override { return whole.contains(file.sha256); }
  std::uint64_t received(const FileFacts& file) override { return parts[file.sha256].size(); }
  Result<Unit> append(const FileFacts& file, std::span<const std::byte> bytes) override {
    parts[file.sha256].insert(parts[file.sha256].end(), bytes.begin(), bytes.end());
    appended += bytes.size();
    return Unit{};
  }
  Result<Unit> finish(const FileFacts& file) override {
    Bytes bytes = std::move(parts[file.sha256]);
    parts.erase(file.sha256);
    if (sha256_hex(bytes) != file.sha256) return invalid(file.path, "damaged");
    whole[file.sha256] = std::move(bytes);
    return Unit{};
  }
};

struct Loan {
  std::optional<Result<ManifestDelivered>> outcome;
  Borrower::Done done() {
    return [this](Result<ManifestDelivered> result) { outcome = std::move(result); };
  }
};

class LibraryTest : public ::testing::Test {
 protected:
  LibraryTest() {
    shelf_.manifest.start = "scratch";
    shelf_.manifest.config = "[run]\n";
    shelf_.add("files/0/graph.json", file_of(3 * messages::kFileChunkBytes + 17, 1));
    shelf_.add("files/devices.toml", file_of(100, 2));
    shelf_.add("files/empty", {});
  }
  std::uint64_t total() const {
    return std::accumulate(shelf_.manifest.files.begin(), shelf_.manifest.files.end(), std::uint64_t{0},
                           [](std::uint64_t sum, const FileFacts& file) { return sum + file.bytes; });
  }
  void lend(runtime::sim::World& world, Loan& loan, bool library = true) {
    if (library) world.spawn<Library>(kLibrary, shelf_.manifest, shelf_.reader());
    world.spawn_factory("node/1", [this, &loan] {
      return std::make_unique<Borrower>(BorrowerOptions{"far", "1"}, &store_, loan.done());
    });
    world.advance(std::chrono::minutes{5}, [&] { return loan.outcome.has_value(); });
  }
  void expect_all_here() {
    for (const FileFacts& file : shelf_.manifest.files)
      EXPECT_EQ(store_.whole[file.sha256], shelf_.files[file.sha256]) << file.path;
  }

  Shelf shelf_;
  Memory store_;
};

TEST_F(LibraryTest, EveryFileArrivesWholeAndOnce) {
  runtime::sim::World world;
  Loan loan;
  lend(world, loan);
  ASSERT_TRUE(loan.outcome && loan.outcome->ok());
  EXPECT_EQ((*loan.outcome)->config, "[run]\n");
  expect_all_here();
  EXPECT_EQ(store_.appended, total());
}

TEST_F(LibraryTest, ExistingFilesAreNotFetchedAgain) {
  {
    runtime::sim::World world;
    Loan loan;
    lend(world, loan);
  }
  store_.appended = 0;
  const std::uint64_t reads = shelf_.reads;
  runtime::sim::World world;
  Loan loan;
  lend(world, loan);
  ASSERT_TRUE(loan.outcome && loan.outcome->ok());
  EXPECT_EQ(store_.appended, 0u);
  EXPECT_EQ(shelf_.reads, reads);
}

TEST_F(LibraryTest, ContinuesAPartialFile) {
  const FileFacts& graph = shelf_.manifest.files[0];
  const Bytes& bytes = shelf_.files[graph.sha256];
  store_.parts[graph.sha256].assign(bytes.begin(), bytes.begin() + 1'500'000);
  runtime::sim::World world;
  Loan loan;
  lend(world, loan);
  ASSERT_TRUE(loan.outcome && loan.outcome->ok());
  expect_all_here();
  EXPECT_EQ(store_.appended, total() - 1'500'000);
}

TEST_F(LibraryTest, DamagedPartialFileIsFetchedFromItsStart) {
  const FileFacts& graph = shelf_.manifest.files[0];
  store_.parts[graph.sha256] = file_of(1'000'000, 9);
  runtime::sim::World world;
  Loan loan;
  lend(world, loan);
  ASSERT_TRUE(loan.outcome && loan.outcome->ok());
  expect_all_here();
}

TEST_F(LibraryTest, FileThatChangedAtTheHeadIsAnError) {
  shelf_.files[shelf_.manifest.files[1].sha256] = file_of(100, 3);
  runtime::sim::World world;
  Loan loan;
  lend(world, loan);
  ASSERT_TRUE(loan.outcome.has_value());
  EXPECT_FALSE(loan.outcome->ok());
}

TEST_F(LibraryTest, ManifestWithoutAHashIsRefused) {
  shelf_.manifest.files[0].sha256 = "../../etc/passwd";
  runtime::sim::World world;
  Loan loan;
  lend(world, loan);
  ASSERT_TRUE(loan.outcome.has_value());
  ASSERT_FALSE(loan.outcome->ok());
  EXPECT_EQ(loan.outcome->error().code, Errc::kInvalid);
  EXPECT_TRUE(store_.whole.empty() && store_.parts.empty());
}

TEST_F(LibraryTest, GivesUpOnALibraryThatNeverAnswers) {
  runtime::sim::World world;
  Loan loan;
  lend(world, loan, false);
  ASSERT_TRUE(loan.outcome.has_value());
  ASSERT_FALSE(loan.outcome->ok());
  EXPECT_EQ(loan.outcome->error().code, Errc::kPeerLost);
}

TEST_F(LibraryTest, ToleratesLostRepeatedAndLateMessages) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    store_ = Memory{};
    runtime::sim::World world{{.seed = seed, .shuffle = true}};
    world.on_send([](const runtime::sim::Packet&, Rng& rng) {
      runtime::sim::Fate fate;
      fate.drop = rng.uniform_double() < 0.2;
      fate.duplicate = rng.uniform_double() < 0.2;
      fate.delay = Nanos{static_cast<std::int64_t>(rng.uniform_double() * 2e8)};
      return fate;
    });
    Loan loan;
    lend(world, loan);
    ASSERT_TRUE(loan.outcome.has_value()) << "seed " << seed;
    if (!loan.outcome->ok()) {
      EXPECT_EQ(loan.outcome->error().code, Errc::kPeerLost) << "seed " << seed;
      continue;
    }
    expect_all_here();
  }
}

// Answers that wait in queues hold their file; asking for two files in turn must not make copies of both.
TEST_F(LibraryTest, FilesThatAnswersHoldAreNotReadAgain) {
  Shelf shelf;
  shelf.add("a", file_of(3 << 20, 1));
  shelf.add("b", file_of(3 << 20, 2));
  runtime::sim::World world;
  const auto library = world.spawn<Library>(kLibrary, shelf.manifest, shelf.reader());
  for (int k = 0; k < 20; ++k)
    world.deliver(library,
                  messages::FileRequested{shelf.manifest.files[static_cast<std::size_t>(k % 2)].sha256, 0});
  EXPECT_EQ(world.sent<messages::FileDelivered>().size(), 20u);
  EXPECT_EQ(shelf.reads, 2u) << "the world holds what was sent, as a queue does";
}

}  // namespace
}  // namespace emplace::actors
