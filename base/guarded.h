#pragma once
/// Annotations that say which lock guards what. clang checks them (-Wthread-safety, an error in every clang
/// build: cmake/toolchain.cmake); for g++ they are empty. base/mutex.h has the locks that they speak of.
/// What each means: clang's documentation, "Thread Safety Analysis".

#if defined(__clang__)
#define EMPLACE_THREAD_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define EMPLACE_THREAD_ATTRIBUTE(attribute)
#endif

/// A class that is a lock; `name` stands in clang's messages.
#define EMPLACE_CAPABILITY(name) EMPLACE_THREAD_ATTRIBUTE(capability(name))
/// A class that holds a lock from its construction to its destruction.
#define EMPLACE_SCOPED_CAPABILITY EMPLACE_THREAD_ATTRIBUTE(scoped_lockable)

/// A variable that is read and written only while `mutex` is held.
#define EMPLACE_GUARDED_BY(mutex) EMPLACE_THREAD_ATTRIBUTE(guarded_by(mutex))
/// A pointer whose target is read and written only while `mutex` is held.
#define EMPLACE_PT_GUARDED_BY(mutex) EMPLACE_THREAD_ATTRIBUTE(pt_guarded_by(mutex))

/// A function that the caller calls with the locks held; it leaves them held.
#define EMPLACE_REQUIRES(...) EMPLACE_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
/// A function that the caller calls without the locks, because it takes them itself.
#define EMPLACE_EXCLUDES(...) EMPLACE_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
/// A function that takes the locks, and returns with them held.
#define EMPLACE_ACQUIRE(...) EMPLACE_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
/// A function that gives the locks back.
#define EMPLACE_RELEASE(...) EMPLACE_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
