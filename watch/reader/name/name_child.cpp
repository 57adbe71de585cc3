#include "watch/reader/name/name_child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include "watch/reader/name/confinement.hpp"
#include "watch/reader/name/name_messages.hpp"

namespace usher::reader {
namespace {

/// The child's end of the channel. If the parent has closed its end, a read or write ends the child.
class served_channel {
 public:
  explicit served_channel(int fd) : fd_(fd) {}
  void add(std::string_view message) {
    constexpr std::size_t enough = 1 << 16;
    waiting_ += message;
    if (waiting_.size() >= enough) flush();
  }
  void flush() {
    std::string_view rest = waiting_;
    while (!rest.empty()) {
      const ssize_t n = write(fd_, rest.data(), rest.size());
      if (n <= 0) _exit(0);
      rest.remove_prefix(static_cast<std::size_t>(n));
    }
    waiting_.clear();
  }
  void read_all(void* to, std::size_t size) {
    for (std::size_t have = 0; have < size;) {
      const ssize_t n = read(fd_, static_cast<char*>(to) + have, size - have);
      if (n <= 0) _exit(0);
      have += static_cast<std::size_t>(n);
    }
  }

 private:
  int fd_;
  std::string waiting_;
};

[[noreturn]] void answer_queries(served_channel& channel, symbols& names) {
  for (;;) {
    std::uint32_t count = 0;
    channel.read_all(&count, sizeof count);
    std::vector<query> queries(std::min<std::size_t>(count, most_queries));
    channel.read_all(queries.data(), queries.size() * sizeof(query));
    for (const query& q : queries) {
      answer a;
      if (q.kind == query::what::code)
        a.frames = names.resolve(q.process, q.address).frames;
      else
        a.object = names.object_at(q.process, q.address);
      channel.add(encode(q.kind, a));
    }
    channel.flush();
  }
}

}  // namespace

void serve_names(int descriptor, pid_t parent, const process_place& place, contract::view record,
                 const std::set<std::string>& left_out) {
  try {
    served_channel channel(descriptor);
    file_reading how;
    how.left_out = left_out;
    const std::string error = confine(place, descriptor, {}, parent);
    channel.add(encode_text(message_kind::ready, error));
    channel.flush();
    if (!error.empty()) _exit(1);
    how.entered = [&channel, last = std::string()](const std::string& path) mutable {
      if (path == last) return;
      last = path;
      channel.add(encode_text(message_kind::entered, path));
      channel.flush();
    };
    how.denied = [&channel](const std::string& path) { channel.add(encode_text(message_kind::denied, path)); };
    symbols names(record, std::move(how));
    answer_queries(channel, names);
  } catch (...) {
    _exit(1);
  }
}

name_child::name_child(const std::function<void(int channel)>& body) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  pid_ = fork();
  if (pid_ == 0) {
    // If the command was started with closed standard streams, the channel's end may have one of their numbers. So it
    // is moved to 3 or above.
    const int channel = fcntl(ends[1], F_DUPFD_CLOEXEC, 3);
    if (channel >= 0) body(channel);
    _exit(1);
  }
  close(ends[1]);
  channel_ = ends[0];
  fcntl(channel_, F_SETFL, O_NONBLOCK);
  if (pid_ < 0) close(std::exchange(channel_, -1));
}

name_child::~name_child() {
  if (channel_ >= 0) close(channel_);
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  // A file system of the recorded program (FUSE) may block the child in a call that even SIGKILL does not interrupt. So
  // the child is awaited for at most 200 ms.
  const deadline until = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  constexpr timespec pause{0, 200'000};
  while (waitpid(pid_, nullptr, WNOHANG) == 0 && std::chrono::steady_clock::now() < until) nanosleep(&pause, nullptr);
}

bool name_child::send_all(const void* from, std::size_t size, deadline until) const {
  for (std::size_t sent = 0; sent < size;) {
    const ssize_t n = send(channel_, static_cast<const char*>(from) + sent, size - sent, MSG_NOSIGNAL);
    if (n > 0)
      sent += static_cast<std::size_t>(n);
    else if (!is_ready(POLLOUT, until))
      return false;
  }
  return true;
}

bool name_child::receive_all(void* to, std::size_t size, deadline until) const {
  for (std::size_t have = 0; have < size;) {
    const ssize_t n = recv(channel_, static_cast<char*>(to) + have, size - have, 0);
    if (n == 0) return false;
    if (n > 0)
      have += static_cast<std::size_t>(n);
    else if (!is_ready(POLLIN, until))
      return false;
  }
  return true;
}

/// Called after a failed send or receive: waits until it can be repeated. False if the failure is permanent.
bool name_child::is_ready(short event, deadline until) const {
  if (channel_ < 0 || (errno != EAGAIN && errno != EINTR)) return false;
  constexpr std::int64_t slice = 100;  // ms, between two checks for signals
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
    if (left <= 0 || is_to_end()) return false;
    pollfd p{channel_, event, 0};
    if (poll(&p, 1, static_cast<int>(std::min(left, slice))) > 0) return true;
  }
}

bool is_to_end() {
  sigset_t pending;
  if (sigpending(&pending) != 0) return false;
  for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
    if (sigismember(&pending, s) == 1) return true;
  return false;
}

}  // namespace usher::reader
