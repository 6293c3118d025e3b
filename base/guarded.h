#pragma once
/// Annotations that declare which lock guards what. clang checks them (-Wthread-safety, an error in every
/// clang build: cmake/toolchain.cmake); for g++ they are empty. base/mutex.h has the annotated locks.
/// Reference: clang's documentation, "Thread Safety Analysis".

#if defined(__clang__)
#define EMPLACE_THREAD_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define EMPLACE_THREAD_ATTRIBUTE(attribute)
#endif

/// A class that is a lock; clang's messages show `name`.
#define EMPLACE_CAPABILITY(name) EMPLACE_THREAD_ATTRIBUTE(capability(name))
/// A class that holds a lock from construction to destruction.
#define EMPLACE_SCOPED_CAPABILITY EMPLACE_THREAD_ATTRIBUTE(scoped_lockable)

/// A variable that is accessed only while `mutex` is held.
#define EMPLACE_GUARDED_BY(mutex) EMPLACE_THREAD_ATTRIBUTE(guarded_by(mutex))

/// A function that must be called with the locks held and keeps them held.
#define EMPLACE_REQUIRES(...) EMPLACE_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
/// A function that acquires the locks and returns with them held.
#define EMPLACE_ACQUIRE(...) EMPLACE_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
/// A function that releases the locks.
#define EMPLACE_RELEASE(...) EMPLACE_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
