// Goal: messages of the runtime never fill the queue of actors' messages.  Method: one link between two
// sockets of a process.
#include "runtime/zmq/links/link.h"

#include <gtest/gtest.h>

#include "runtime/zmq/links/session_messages.h"
#include "runtime/zmq/loops/own_loop.h"

namespace emplace::runtime {
namespace {

// Ten thousand names in one Beat exceed a batch and travel as their own message. Counted as a message of an
// actor, it made the queue's length wrap around, and nothing passed any more.
TEST(Link, LargeBeatDoesNotBlockTheQueue) {
  zmq::context_t context;
  zmq::socket_t in{context, zmq::socket_type::pair}, out{context, zmq::socket_type::pair};
  in.bind("inproc://link");
  out.connect("inproc://link");
  NodeCounters counters;
  Link link{{.items = 4, .bytes = 1u << 20, .batch_bytes = 64u << 10}, /*numbered=*/true, counters};
  Beat beat;
  for (int i = 0; i < 10'000; ++i) beat.joined.push_back("executor/" + std::to_string(i));
  for (int again = 0; again < 3; ++again) {
    ASSERT_TRUE(push_message(link, beat));
    ASSERT_EQ(link.flush(out, {}), Link::Flush::kDone);
    EXPECT_EQ(link.waiting(), 0u);
    Received received;
    ASSERT_TRUE(receive(in, nullptr, received));
    EXPECT_TRUE(each_message(
        received, [&](const Incoming& incoming) { EXPECT_EQ(incoming.as<Beat>()->joined.size(), 10'000u); }));
  }
}

}  // namespace
}  // namespace emplace::runtime
