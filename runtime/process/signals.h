#pragma once
/// Which signals a process of ours ignores, and which its starter wants to be ignored.

namespace emplace::process {

/// For the main function of each program, before any thread. A file-size limit becomes an error of the write,
/// as a full disk does (SIGXFSZ is ignored). Children that have ended are kept until they are reaped, even if
/// SIGCHLD was ignored when this program was started. Standard descriptors that are closed stay unusable:
/// no file that is opened later gets one of their numbers.
void prepare_process();

/// A write into a closed pipe becomes an error of the write. For programs that go on without their reader.
void ignore_broken_pipes();

/// True if SIGHUP was ignored when this program was started, as nohup does: then it must stay so, here and in
/// every child.
bool hangups_are_ignored();

/// Children that have ended are kept until they are reaped: their numbers belong to nobody else until then.
void keep_ended_children();

}  // namespace emplace::process
