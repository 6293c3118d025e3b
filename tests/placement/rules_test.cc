// Goal: rules hold for the ops that they match, report the number of these ops, and are refused by name where
// they cannot hold. Method: a graph by hand with a forward and a backward pass and an update; every refusal
// is a file of its own.

#include "placement/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "placement/applied_rules.h"
#include "placement/placement.h"
#include "tests/support/sample_graphs.h"
#include "tests/support/scratch_folder.h"

namespace emplace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::sample_devices;

constexpr DeviceId kCpu{0}, kGpu0{1}, kGpu1{2};

/// 0 table, 1 encoder/lookup, 2 encoder/mm, 3 decoder/mm, 4 decoder/mm_grad, 5 encoder/table_grad, 6 step
OpGraph small_model() {
  OpGraphBuilder builder;
  const auto add = [&](std::string name, std::string type, std::string scope, std::vector<EdgeSpec> inputs,
                       Phase phase) {
    OpSpec op;
    op.name = std::move(name);
    op.type = std::move(type);
    op.group = std::move(scope);
    op.inputs = std::move(inputs);
    op.outputs = {{DType::kF32, {4}}};
    op.phase = phase;
    builder.add(std::move(op));
  };
  add("table", "Parameter", "encoder", {}, Phase::kForward);
  add("encoder/lookup", "Gather", "encoder", {{0, 0}}, Phase::kForward);
  add("encoder/mm", "MatMul", "encoder/layer0", {{1, 0}}, Phase::kForward);
  add("decoder/mm", "MatMul", "decoder/layer0", {{2, 0}}, Phase::kForward);
  add("decoder/mm_grad", "MatMulGrad", "decoder/layer0", {{3, 0}, {2, 0}}, Phase::kBackward);
  add("encoder/table_grad", "Scatter", "encoder", {{4, 0}, {0, 0}}, Phase::kBackward);
  add("step", "ApplyAdam", "", {{5, 0}, {0, 0}}, Phase::kUpdate);
  return *std::move(builder).build();
}

struct Ruled {
  AppliedRules applied;
  Constraints constraints;
};

Result<Ruled> ruled(std::string_view toml, const OpGraph& graph = small_model(),
                    const DeviceSet& devices = sample_devices(2, true, 1 << 20)) {
  const auto rules = parse_rules(toml, "rules.toml");
  if (!rules) return rules.error();
  auto applied = apply_rules(graph, devices, *rules);
  if (!applied) return applied.error();
  auto constraints = Constraints::make(graph, devices, *applied);
  if (!constraints) return constraints.error();
  return Ruled{*std::move(applied), *std::move(constraints)};
}

std::string refusal(std::string_view toml) {
  const auto made = ruled(toml);
  if (made.ok()) return "was not refused";
  EXPECT_EQ(made.error().code, Errc::kInvalid);
  EXPECT_EQ(made.error().context.find('\n'), std::string::npos);
  return made.error().context;
}

std::set<std::size_t> allowed(const Ruled& made, std::uint32_t op) {
  std::set<std::size_t> devices;
  for (std::size_t d = 0; d < 3; ++d)
    if (made.constraints.allows(OpId{op}, static_cast<DeviceId>(d))) devices.insert(d);
  return devices;
}

TEST(Rules, AreReadFromAFileAsWritten) {
  const testing::ScratchFolder folder{"rules"};
  const auto path = folder.path() / "mine.toml";
  std::ofstream{path} << R"(schema = "emplace.rules/1"
[[rule]]
match = { name = '^encoder/', type = "MatMul" }
pin = "gpu:1"
[[rule]]
match = { scope = "decoder", phase = "backward" }
allow = ["gpu:*", "cpu:0"]
optional = true
)";
  const auto rules = load_rules(path);
  ASSERT_TRUE(rules.ok()) << rules.error().context;
  ASSERT_EQ(rules->rules.size(), 2u);
  const Rule& pin = rules->rules[0];
  EXPECT_EQ(pin.where, "mine.toml:2");
  EXPECT_EQ(pin.described(), "mine.toml:2 (pin = \"gpu:1\")");
  EXPECT_EQ(pin.match.name, "^encoder/");
  EXPECT_EQ(pin.match.type, "MatMul");
  EXPECT_FALSE(pin.optional);
  const Rule& allow = rules->rules[1];
  EXPECT_EQ(allow.kind, RuleKind::kAllow);
  EXPECT_THAT(allow.devices, ElementsAre("gpu:*", "cpu:0"));
  EXPECT_TRUE(allow.optional);
  EXPECT_EQ(load_rules(folder.path() / "none.toml").error().code, Errc::kIo);
}

TEST(Rules, PinAndAllowByNameTypeScopeAndPhase) {
  const auto made = ruled(R"(
[[rule]]
match = { name = "^encoder/mm$" }
pin = "gpu:1"
[[rule]]
match = { type = "Grad$", scope = "^decoder/" }
allow = ["gpu:*"]
[[rule]]
match = { phase = "update" }
pin = "cpu:0"
)");
  ASSERT_TRUE(made.ok()) << made.error().context;
  EXPECT_THAT(made->applied.matched, ElementsAre(1, 1, 1));
  EXPECT_THAT(allowed(*made, 2), ElementsAre(2));
  EXPECT_THAT(allowed(*made, 4), ElementsAre(1, 2));
  EXPECT_THAT(allowed(*made, 6), ElementsAre(0));
  EXPECT_THAT(allowed(*made, 3), ElementsAre(0, 1, 2)) << "no rule matches it";
  EXPECT_EQ(made->applied.device_rule[2], 0u);
  EXPECT_EQ(made->applied.device_rule[4], 1u);
  EXPECT_EQ(made->applied.device_rule[3], kNoRule);
  EXPECT_EQ(made->applied.lines().at(1), "rules.toml:5 (allow = [\"gpu:*\"]) matches 1 op");
}

TEST(Rules, MatchTheDeviceThatTheFileRequests) {
  OpGraphBuilder builder;
  for (const auto& [name, attrs] : {std::pair{"a", R"({"device":"/device:CPU:0"})"},
                                    {"b", "{}"},
                                    {"c", R"({"text":"\"device\":\"/device:CPU:0\""})"}}) {
    OpSpec op;
    op.name = name;
    op.type = "Relu";
    op.attrs_json = attrs;
    builder.add(std::move(op));
  }
  const OpGraph graph = *std::move(builder).build();
  const auto made = ruled("[[rule]]\nmatch = { device = 'CPU:0$' }\npin = \"cpu:0\"\n", graph);
  ASSERT_TRUE(made.ok()) << made.error().context;
  EXPECT_EQ(allowed(*made, 0), (std::set<std::size_t>{0}));
  EXPECT_EQ(allowed(*made, 1).size(), 3u);
  EXPECT_EQ(allowed(*made, 2).size(), 3u) << "an attribute's text is no request";
  EXPECT_THAT(refusal("[[rule]]\nmatch = { device = 'GPU' }\npin = \"gpu:0\"\n"),
              HasSubstr("no op of the graph requests a device"));
}

TEST(Rules, AllRulesOfAnOpHold) {
  const auto made = ruled(R"(
[[rule]]
match = { type = "MatMul" }
allow = ["gpu:*"]
[[rule]]
match = { scope = "encoder" }
allow = ["cpu:0", "gpu:0"]
[[rule]]
match = { name = "^encoder/mm$" }
pin = "gpu:0"
)");
  ASSERT_TRUE(made.ok()) << made.error().context;
  EXPECT_THAT(allowed(*made, 2), ElementsAre(1));
  EXPECT_EQ(made->applied.device_rule[2], 2u) << "a pin is stricter than an allow";
  EXPECT_THAT(allowed(*made, 1), ElementsAre(0, 1));
  EXPECT_EQ(made->applied.device_rule[1], 1u);
}

TEST(Rules, EarlierRuleForFewerOpsIsAnException) {
  const auto made = ruled(R"(
[[rule]]
match = { name = "lookup" }
pin = "cpu:0"
[[rule]]
match = { scope = "encoder" }
pin = "gpu:0"
)");
  ASSERT_TRUE(made.ok()) << made.error().context;
  EXPECT_THAT(allowed(*made, 1), ElementsAre(0));
  EXPECT_THAT(allowed(*made, 2), ElementsAre(1));
  EXPECT_EQ(made->applied.device_rule[1], 0u);
  EXPECT_THAT(made->applied.matched, ElementsAre(1, 4));
}

TEST(Rules, ContradictoryOnesAreBothNamedWithTheOp) {
  // The wider rule first; the same ops; some ops in common: none of these is an exception.
  EXPECT_THAT(refusal("[[rule]]\nmatch = { scope = \"encoder\" }\npin = \"gpu:0\"\n"
                      "[[rule]]\nmatch = { name = \"lookup\" }\npin = \"cpu:0\"\n"),
              AllOf(HasSubstr("rules.toml:4 (pin = \"cpu:0\"): contradicts rules.toml:1 (pin = \"gpu:0\")"),
                    HasSubstr("op 'encoder/lookup'")));
  EXPECT_THAT(refusal("[[rule]]\nmatch = { type = \"Gather\" }\npin = \"gpu:0\"\n"
                      "[[rule]]\nmatch = { name = \"lookup\" }\nallow = [\"cpu:*\", \"gpu:1\"]\n"),
              AllOf(HasSubstr("rules.toml:4 (allow = [\"cpu:*\", \"gpu:1\"]): contradicts rules.toml:1"),
                    HasSubstr("op 'encoder/lookup'")));
  EXPECT_THAT(refusal("[[rule]]\nmatch = { scope = \"encoder\" }\npin = \"gpu:0\"\n"
                      "[[rule]]\nmatch = { type = \"MatMul\" }\npin = \"gpu:1\"\n"),
              AllOf(HasSubstr("rules.toml:4"), HasSubstr("rules.toml:1"), HasSubstr("op 'encoder/mm'")));
}

TEST(Rules, LabelTiesItsOps) {
  const auto made = ruled(R"(
[[rule]]
match = { name = "^table$" }
colocate = "embedding"
[[rule]]
match = { name = "lookup|table_grad" }
colocate = "embedding"
[[rule]]
match = { name = "lookup" }
pin = "gpu:1"
)");
  ASSERT_TRUE(made.ok()) << made.error().context;
  const Constraints& constraints = made->constraints;
  EXPECT_EQ(constraints.class_of(OpId{0}), constraints.class_of(OpId{1}));
  EXPECT_EQ(constraints.class_of(OpId{0}), constraints.class_of(OpId{5}));
  EXPECT_EQ(constraints.num_classes(), 5u);
  EXPECT_THAT(allowed(*made, 5), ElementsAre(2)) << "all are on the device of one";
  EXPECT_EQ(made->applied.colocation_rule[5], 1u);
}

TEST(Rules, KeepGradientsAndUpdatesWithTheirOps) {
  const auto made = ruled("[[rule]]\nmatch = { phase = \"backward|update\" }\ncolocate_with = \"forward\"\n");
  ASSERT_TRUE(made.ok()) << made.error().context;
  const Constraints& constraints = made->constraints;
  EXPECT_THAT(made->applied.matched, ElementsAre(3));
  EXPECT_EQ(constraints.class_of(OpId{4}), constraints.class_of(OpId{3})) << "it reads decoder/mm first";
  EXPECT_EQ(constraints.class_of(OpId{5}), constraints.class_of(OpId{0}));
  EXPECT_EQ(constraints.class_of(OpId{6}), constraints.class_of(OpId{0}));
  EXPECT_NE(constraints.class_of(OpId{2}), constraints.class_of(OpId{3}));

  const auto chain = ruled("[[rule]]\nmatch = { type = \"MatMul$\" }\ncolocate_with = \"input\"\n");
  ASSERT_TRUE(chain.ok()) << chain.error().context;
  EXPECT_EQ(chain->constraints.class_of(OpId{3}), chain->constraints.class_of(OpId{1}));
}

TEST(Rules, OnesThatSplitAClassAreBothNamed) {
  EXPECT_THAT(refusal(R"([[rule]]
match = { name = "^table$" }
pin = "cpu:0"
[[rule]]
match = { name = "^step$" }
pin = "gpu:0"
[[rule]]
match = { phase = "update" }
colocate_with = "forward"
)"),
              AllOf(HasSubstr("op 'step'"), HasSubstr("op 'table'"),
                    HasSubstr("rules.toml:1 (pin = \"cpu:0\")"), HasSubstr("rules.toml:4 (pin = \"gpu:0\")"),
                    HasSubstr("tied by rules.toml:7 (colocate_with = \"forward\")")));
}

TEST(Rules, CombineWithTheDevicesOfTheGraph) {
  // Ops 0, 4 and 8 may only be on gpu:1.
  const OpGraph graph = testing::restricted_graph();
  const auto torn = ruled("[[rule]]\nmatch = { name = \"^op4$\" }\npin = \"gpu:0\"\n", graph);
  ASSERT_FALSE(torn.ok());
  EXPECT_THAT(torn.error().context, AllOf(HasSubstr("op 'op4'"), HasSubstr("rules.toml:1 (pin = \"gpu:0\")"),
                                          HasSubstr("the devices that the graph allows")));
  const auto tied = ruled("[[rule]]\nmatch = { name = \"^op[45]$\" }\ncolocate = \"x\"\n", graph);
  ASSERT_TRUE(tied.ok()) << tied.error().context;
  EXPECT_THAT(allowed(*tied, 5), ElementsAre(2));
}

TEST(Rules, OnesThatMatchNothingAreRefusedWithTheNearestName) {
  const auto rule = [](std::string match, std::string more = "") {
    return "[[rule]]\nmatch = { " + match + " }\npin = \"gpu:0\"\n" + more;
  };
  EXPECT_THAT(refusal(rule("name = '^encodr/.*'")),
              AllOf(HasSubstr("rules.toml:1: the rule for name = '^encodr/.*' matches no op"),
                    HasSubstr("'encoder/'"), HasSubstr("optional = true")));
  EXPECT_THAT(refusal(rule("type = 'MatMull'")), HasSubstr("'MatMul'"));
  EXPECT_THAT(refusal(rule("scope = 'decoder/layr0'")), HasSubstr("'decoder/layer0'"));
  EXPECT_THAT(refusal(rule("phase = 'forwards'")), HasSubstr("'forward'"));
  EXPECT_THAT(refusal(rule("type = 'Gather', scope = 'decoder'")), HasSubstr("no op matches all"));
  const auto permitted = ruled(rule("name = 'absent'", "optional = true\n"));
  ASSERT_TRUE(permitted.ok()) << permitted.error().context;
  EXPECT_THAT(permitted->applied.matched, ElementsAre(0));
}

TEST(Rules, InvalidOnesAreRefusedWithTheirLine) {
  const std::string match = "[[rule]]\nmatch = { name = \"mm\" }\n";
  EXPECT_THAT(refusal(match + "optinal = true\npin = \"gpu:0\"\n"),
              HasSubstr("rules.toml:3: unknown key 'optinal'; did you mean 'optional'?"));
  EXPECT_THAT(refusal("[[rule]]\nmatch = { nmae = \"mm\", type = \"M\" }\npin = \"gpu:0\"\n"),
              HasSubstr("did you mean 'name'?"));
  EXPECT_THAT(refusal("[[rules]]\n"), HasSubstr("did you mean 'rule'?"));
  EXPECT_THAT(refusal(match), HasSubstr("needs one of pin, allow"));
  EXPECT_THAT(refusal(match + "pin = \"gpu:0\"\nallow = [\"gpu:1\"]\n"),
              HasSubstr("rules.toml:1: a rule needs one of"));
  EXPECT_THAT(refusal(match + "pin = \"gpu:*\"\n"), HasSubstr("must name one device"));
  EXPECT_THAT(refusal(match + "pin = \"gpu:7\"\n"), HasSubstr("rules.toml:1: device 'gpu:7'"));
  EXPECT_THAT(refusal(match + "allow = [\"tpu:*\"]\n"), HasSubstr("no device name starts with 'tpu:'"));
  EXPECT_THAT(refusal(match + "allow = []\n"), HasSubstr("could not run"));
  EXPECT_THAT(refusal(match + "colocate_with = \"backward\"\n"),
              HasSubstr("must be \"forward\" or \"input\""));
  EXPECT_THAT(refusal("[[rule]]\npin = \"gpu:0\"\n"), HasSubstr("a rule needs 'match'"));
  EXPECT_THAT(refusal("[[rule]]\nmatch = {}\npin = \"gpu:0\"\n"),
              HasSubstr("rules.toml:2: 'match' has no pattern"));
  EXPECT_THAT(refusal("[[rule]]\nmatch = { nme = \"fc\" }\npin = \"gpu:0\"\n"),
              HasSubstr("rules.toml:2: unknown key 'nme'; did you mean 'name'?"));
  EXPECT_THAT(
      refusal(match + "require = [\"gpu:0\"]\n"),
      HasSubstr("rules.toml:3: unknown key 'require'; known keys: match, pin, allow, forbid, colocate"));
  EXPECT_THAT(refusal("[[rule]]\nmatch = { name = \"a(b\" }\npin = \"gpu:0\"\n"),
              HasSubstr("rules.toml:2: 'name' is not a regular expression: missing )"));
  EXPECT_THAT(refusal("schema = \"emplace.rules/9\"\n" + match + "pin = \"gpu:0\"\n"),
              HasSubstr("emplace.rules/1"));
  EXPECT_THAT(refusal("# nothing\n"), HasSubstr("has no [[rule]]"));
}

TEST(Rules, EmptyRulesKeepTheConstraints) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const OpGraph graph = testing::random_graph(seed, 30);
    const DeviceSet devices = sample_devices(2, true, 1 << 20);
    const Constraints without = Constraints::make(graph, devices).value();
    const Constraints with =
        Constraints::make(graph, devices, apply_rules(graph, devices, {}).value()).value();
    EXPECT_TRUE(std::equal(without.classes().begin(), without.classes().end(), with.classes().begin()));
  }
}

TEST(Rules, ForbidIsTheComplementOfAllow) {
  const auto made = ruled(R"(
[[rule]]
match = { scope = '^decoder' }
forbid = ["gpu:0"]
[[rule]]
match = { scope = '^encoder' }
forbid = ["gpu:*"]
[[rule]]
match = { name = '^decoder/mm$' }
allow = ["gpu:*"]
)");
  ASSERT_TRUE(made.ok()) << made.error().context;
  EXPECT_EQ(allowed(*made, 3), (std::set<std::size_t>{2})) << "forbid and allow both apply";
  EXPECT_EQ(allowed(*made, 4), (std::set<std::size_t>{0, 2}));
  EXPECT_EQ(allowed(*made, 2), (std::set<std::size_t>{0}));
  EXPECT_EQ(allowed(*made, 6), (std::set<std::size_t>{0, 1, 2}));
  EXPECT_THAT(made->applied.lines()[0], HasSubstr("rules.toml:2 (forbid = [\"gpu:0\"]) matches 2 ops"));
}

TEST(Rules, ForbidThatCannotHoldIsRefused) {
  const std::string forbid = "[[rule]]\nmatch = { name = '^decoder/mm$' }\nforbid = ";
  EXPECT_THAT(refusal(forbid + "[]\n"), HasSubstr("'forbid' is empty"));
  EXPECT_THAT(refusal(forbid + "['*']\n"), HasSubstr("forbids every device of this machine"));
  EXPECT_THAT(refusal(forbid + "['gpu:7']\n"), HasSubstr("gpu:7"));
  EXPECT_THAT(refusal(forbid + "['tpu:*']\n"), HasSubstr("no device name starts with 'tpu:'"));
  EXPECT_THAT(refusal(forbid + "['gpu:0']\npin = 'gpu:0'\n"),
              HasSubstr("one of pin, allow, forbid, colocate"));
  EXPECT_THAT(refusal(forbid + "['gpu:0']\n[[rule]]\nmatch = { name = '^decoder/mm$' }\npin = 'gpu:0'\n"),
              AllOf(HasSubstr("rules.toml:4 (pin = \"gpu:0\")"),
                    HasSubstr("contradicts rules.toml:1 (forbid = [\"gpu:0\"])")));
  EXPECT_THAT(refusal(forbid + "['gpu:*']\n[[rule]]\nmatch = { name = '^decoder/mm$' }\nallow = ['gpu:*']\n"),
              HasSubstr("contradicts"));
}

}  // namespace
}  // namespace emplace
