// Goal: a machine that joins a run imports only what its own command line names, whatever a head sends.
// Method: a malicious head in this process, whose config names code, and the real join.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <thread>

#include "actors/library.h"
#include "base/file.h"
#include "launcher/cluster/files/manifest.h"
#include "launcher/cluster/node/node_process.h"
#include "launcher/settings/config.h"
#include "messages/type_ids.h"
#include "runtime/node.h"
#include "tests/support/scratch_folder.h"

namespace emplace::launcher {
namespace {

using ::testing::HasSubstr;

/// A head that answers requests for its run with this config, until it is destroyed.
class Head {
 public:
  Head(const std::string& endpoint, Manifest manifest) {
    runtime::NodeOptions options;
    options.name = "head";
    options.listen = {endpoint};
    options.insecure = true;
    options.known_type = &messages::is_known;
    auto made = runtime::Node::make(options, clock_);
    EXPECT_TRUE(made.ok()) << made.error().context;
    node_ = *std::move(made);
    EXPECT_TRUE(node_
                    ->spawn<actors::Library>(actors::kLibrary, runtime::Home::kOwnLoop, manifest.facts,
                                             reader_of(manifest))
                    .ok());
    running_ = std::thread{[this] { (void)node_->run(); }};
  }
  ~Head() {
    node_->stop("the test is over");
    running_.join();
  }

 private:
  const SystemClock clock_;
  std::unique_ptr<runtime::Node> node_;
  std::thread running_;
};

class JoinTest : public ::testing::Test {
 protected:
  std::string at(const char* name) const { return (folder_.path() / name).string(); }
  /// A stand-in for emplace-exec-torch that records its arguments.
  void SetUp() override {
    std::ofstream{at("python")} << "#!/bin/sh\n"
                                   "echo \"$*\" >> " +
                                       at("words") +
                                       "\n"
                                       "echo 'emplace-exec-torch 0.1.0, torch 9.9'\n";
    std::filesystem::permissions(at("python"), std::filesystem::perms::owner_all);
    ASSERT_EQ(::setenv("EMPLACE_PYTHON", at("python").c_str(), 1), 0);
  }
  void TearDown() override { ::unsetenv("EMPLACE_PYTHON"); }

  /// The manifest of a malicious head: its config names code.
  Manifest manifest() const {
    RunConfig config;
    config.input.graph = EMPLACE_FIXTURES "/graphs/cifar10_cnn-bs4.json.gz";
    config.input.devices = "h100 x 2";
    config.executor.kind = "torch";
    config.executor.model = "code_of_the_head:make";
    auto made = make_manifest(config, {}, {}, {"scratch", {}});
    EXPECT_TRUE(made.ok()) << made.error().context;
    EXPECT_EQ(made->facts.config.find("code_of_the_head"), std::string::npos)
        << "an honest head does not send it";
    std::string& text = made->facts.config;
    const std::string empty = "\nmodel = \"\"\n";
    EXPECT_NE(text.find(empty), std::string::npos);
    text.replace(text.find(empty), empty.size(), "\nmodel = \"code_of_the_head:make\"\n");
    return *std::move(made);
  }
  JoinRequest request(const std::string& endpoint) const {
    JoinRequest request{.head = endpoint, .keys = {}, .cache = at("cache")};
    request.insecure = true;
    return request;
  }

  const emplace::testing::ScratchFolder folder_{"join"};
};

TEST_F(JoinTest, DoesNotImportWhatAHeadNames) {
  const std::string endpoint = "ipc://" + at("head");
  const Head head{endpoint, manifest()};
  const auto joined = join_run(request(endpoint));
  ASSERT_FALSE(joined.ok());
  EXPECT_EQ(joined.error().code, Errc::kInvalid);
  EXPECT_THAT(joined.error().context, HasSubstr("needs the function that makes the model"));
  EXPECT_FALSE(std::filesystem::exists(at("words"))) << "nothing was started";
}

TEST_F(JoinTest, RefusesAModelForAnotherKind) {
  const std::string endpoint = "ipc://" + at("head");
  Manifest other = manifest();
  std::string& text = other.facts.config;
  const std::string kind = "\nkind = \"torch\"\n";
  ASSERT_NE(text.find(kind), std::string::npos);
  text.replace(text.find(kind), kind.size(), "\nkind = \"sim\"\n");
  const Head head{endpoint, std::move(other)};
  JoinRequest asked = request(endpoint);
  asked.model = "my_module:make_step";
  const auto joined = join_run(asked);
  ASSERT_FALSE(joined.ok());
  EXPECT_THAT(joined.error().context, HasSubstr("--model: is only for the executor torch, not for sim"));
}

}  // namespace
}  // namespace emplace::launcher
