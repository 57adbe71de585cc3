// Runs work that another process can block for any time in a child, which is killed at a time limit.
//
// A read of another process's memory may wait for that process (userfaultfd, a file system of its own), and only
// SIGKILL ends such a wait. In a child it prevents the observer neither from handling ^C nor from ending.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace usher::reader {

/// Runs `work` in a child and returns its result; nothing if it took longer than `limit`, if `interrupted`, which is
/// called every few milliseconds, returned true, or if the child died. The child dies with the observer.
std::optional<std::string> in_child(const std::function<std::string()>& work, std::chrono::milliseconds limit,
                                    const std::function<bool()>& interrupted);

}  // namespace usher::reader
