#!/usr/bin/env python3
"""Goal: clang refuses an access to a guarded member without its lock, with the flags of our clang builds and base/mutex.h.
Method: small sources, one fault each, compiled by clang++; skipped where there is none."""

import re
import shutil
import subprocess
import unittest

from made_up_tree import ROOT

QUEUE = """
#include "base/mutex.h"
class Queue {
 public:
  void push(int value) { const emplace::MutexLock lock{mutex_}; last_ = value; ++size_; filled_.notify_one(); }
  int pop() {
    const emplace::MutexLock lock{mutex_};
    while (size_ == 0) filled_.wait(mutex_);
    return take();
  }
  BODY
 private:
  int take() EMPLACE_REQUIRES(mutex_) { --size_; return last_; }
  emplace::Mutex mutex_;
  emplace::Condition filled_;
  int size_ EMPLACE_GUARDED_BY(mutex_) = 0;
  int last_ EMPLACE_GUARDED_BY(mutex_) = 0;
};
int main() { Queue queue; queue.push(1); return queue.pop(); }
"""


def flags():
    """The flags that cmake/toolchain.cmake gives to clang alone."""
    return re.search(r"LANG_AND_ID:CXX,Clang>:([^>]*)>", (ROOT / "cmake" / "toolchain.cmake").read_text())[1].split(";")


@unittest.skipUnless(shutil.which("clang++"), "no clang++ here")
class Guarded(unittest.TestCase):
    def compile(self, body):
        command = ["clang++", "-std=c++20", "-fsyntax-only", *flags(), f"-I{ROOT}", "-x", "c++", "-"]
        done = subprocess.run(command, input=QUEUE.replace("BODY", body), capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    def refuses(self, body, *words):
        status, errors = self.compile(body)
        self.assertNotEqual(status, 0, body)
        for word in words:
            self.assertIn(word, errors)

    def test_accesses_under_the_lock_pass(self):
        self.assertEqual(self.compile(""), (0, ""))

    def test_refuses_a_read_or_write_without_the_lock(self):
        self.refuses("int size() const { return size_; }", "reading variable 'size_' requires holding mutex 'mutex_'")
        self.refuses("void clear() { size_ = 0; }", "writing variable 'size_' requires holding mutex 'mutex_'")

    def test_refuses_a_call_without_the_required_lock(self):
        self.refuses("int steal() { return take(); }", "calling function 'take' requires holding mutex 'mutex_'")

    def test_refuses_a_wait_without_the_lock(self):
        self.refuses("void wait() { filled_.wait(mutex_); }", "requires holding mutex 'mutex_'")

    def test_refuses_a_lock_taken_twice_or_never_released(self):
        self.refuses("void twice() { const emplace::MutexLock one{mutex_}; push(1); const emplace::MutexLock two{mutex_}; }", "already held")
        self.refuses("void keep() { mutex_.lock(); }", "still held at the end of function")


if __name__ == "__main__":
    unittest.main()
