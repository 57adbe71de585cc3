// Work that may block for as long as another process likes: it runs in a child, which is killed at a limit.
//
// Reading another process's memory can wait for that process (userfaultfd, a file system of its own), and then heeds no signal but
// SIGKILL. In a child it keeps the observer neither from ^C nor from its end.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace usher::cli::stat {

/// Runs `work` in a child and returns its result; nothing if that took longer than `limit`, if `interrupted` returned true (it is called
/// every few milliseconds), or if the child died. The child dies with the observer.
std::optional<std::string> in_child(const std::function<std::string()>& work, std::chrono::milliseconds limit,
                                    const std::function<bool()>& interrupted);

}  // namespace usher::cli::stat
