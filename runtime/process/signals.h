#pragma once
/// Signals that a process ignores by itself or by request of its parent.

namespace emplace::process {

/// Call first in main(), before any thread starts. Ignores SIGXFSZ, so that a file-size limit becomes a write
/// error like a full disk. Keeps ended children until they are reaped, even if SIGCHLD was ignored at start.
/// Occupies closed standard descriptors with /dev/null, so that no file opened later gets their numbers.
void prepare_process();

/// Turns a write to a closed pipe into a write error. For programs that continue without their reader.
void ignore_broken_pipes();

/// Whether SIGHUP was ignored when this program started (nohup). It must then stay ignored, here and in every
/// child.
bool hangups_are_ignored();

/// Keeps ended children as zombies until they are reaped, so that their pids are not reused.
void keep_ended_children();

}  // namespace emplace::process
