#include "lab/recordings/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <iterator>
#include <stdexcept>

#include "support/process/owned_descriptor.hpp"
#include "support/text/output_file.hpp"

namespace usher::recording {
namespace {

using contract::kind;
using contract::verb;

constexpr std::string_view magic = "usherrec";
constexpr std::uint64_t version = 2;

// Limits of single times in a file; chosen. Sums of times cannot overflow, because a file has fewer than 2^24 events.
constexpr std::uint64_t longest_time = std::uint64_t{1} << 38;  // ns, 4.6 minutes
constexpr std::uint64_t latest_begin = std::uint64_t{1} << 56;  // ns, two years
constexpr std::uint64_t most_threads = 1 << 20;
constexpr std::uint64_t most_objects = 1 << 22;
constexpr std::uint64_t most_windows = 1 << 16;
constexpr std::size_t most_streams = std::size_t{1} << 18;  // in all windows together
constexpr std::uint64_t longest_text = 256;

// The first byte of an event: the verb, and which fields follow.
constexpr unsigned verb_bits = 0x0f, has_away = 0x10, has_wait = 0x20, same_object = 0x40, has_aside = 0x80;
constexpr unsigned last_verb = static_cast<unsigned>(verb::end);
/// The kinds by their codes in a file. The codes of verbs are their values.
constexpr kind kinds_in_file[] = {kind::mutex,  kind::recursive_mutex, kind::condition, kind::semaphore,
                                  kind::rwlock, kind::barrier,         kind::thread};
unsigned code_of(kind k) {
  return static_cast<unsigned>(std::find(std::begin(kinds_in_file), std::end(kinds_in_file), k) - kinds_in_file);
}
// The first byte of a stream.
constexpr unsigned begins_in_call = 1, has_unfinished = 2;

constexpr bool has_object(verb a) {
  return a != verb::end;
}
constexpr bool has_other(verb a) {
  return a == verb::wait || a == verb::wait_timed_out;
}

// ---- writing -----------------------------------------------------------------------------------------------

class writer {
 public:
  void number(std::uint64_t n) {
    for (; n >= 0x80; n >>= 7) text_ += static_cast<char>(n | 0x80);
    text_ += static_cast<char>(n);
  }
  void byte(unsigned b) { text_ += static_cast<char>(b); }
  void text(std::string_view s) {
    s = s.substr(0, longest_text);
    number(s.size());
    text_ += s;
  }
  void real(double v) {
    const auto bits = std::bit_cast<std::uint64_t>(v);
    for (unsigned i = 0; i < 64; i += 8) byte(static_cast<unsigned>(bits >> i & 0xff));
  }
  std::string& content() { return text_; }

 private:
  std::string text_;
};

void write_event(writer& to, const event& e, std::uint32_t& last_object) {
  const bool same = has_object(e.what) && e.object == last_object;
  to.byte(static_cast<unsigned>(e.what) | (e.away != 0 ? has_away : 0) | (e.wait != 0 ? has_wait : 0) |
          (same ? same_object : 0) | (e.aside != 0 ? has_aside : 0));
  if (has_object(e.what) && !same) to.number(e.object);
  if (has_other(e.what)) to.number(e.other);
  to.number(e.work);
  if (e.away != 0) to.number(e.away);
  if (e.wait != 0) to.number(e.wait);
  if (e.aside != 0) to.number(e.aside);
  if (has_object(e.what)) last_object = e.object;
}

// ---- reading -----------------------------------------------------------------------------------------------

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw std::runtime_error(fmt::format(format, std::forward<Args>(args)...));
}

class reader {
 public:
  explicit reader(std::string_view content) : rest_(content) {}

  unsigned byte(const char* what) {
    if (rest_.empty()) fail("it ends within {}", what);
    const auto b = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    return b;
  }
  std::uint64_t number(const char* what, std::uint64_t most) {
    std::uint64_t n = 0;
    for (unsigned shift = 0;; shift += 7) {
      const unsigned b = byte(what);
      if (shift == 63 && b > 1) fail("{} is too large", what);
      n |= std::uint64_t{b & 0x7f} << shift;
      if ((b & 0x80) == 0) break;
      if (shift == 63) fail("{} is too large", what);
    }
    if (n > most) fail("{} is {}, more than {}", what, n, most);
    return n;
  }
  std::uint32_t number32(const char* what, std::uint64_t most) {
    return static_cast<std::uint32_t>(number(what, most));
  }
  /// Reads a count of elements. Each element takes at least `least` bytes of the file, so a larger count is refused.
  std::size_t count(const char* what, std::uint64_t most, std::size_t least) {
    const std::uint64_t n = number(what, most);
    if (n > rest_.size() / least) fail("{} is {}, and the file ends before", what, n);
    return n;
  }
  std::string text(const char* what) {
    const std::size_t length = count(what, longest_text, 1);
    std::string s(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return s;
  }
  double real(const char* what) {
    std::uint64_t bits = 0;
    for (unsigned i = 0; i < 64; i += 8) bits |= std::uint64_t{byte(what)} << i;
    const auto v = std::bit_cast<double>(bits);
    if (!(v >= 0 && v <= 1e9)) fail("{} is no number of nanoseconds", what);
    return v;
  }
  std::string_view rest() const { return rest_; }
  void skip(std::size_t n) { rest_.remove_prefix(n); }

 private:
  std::string_view rest_;
};

event read_event(reader& from, const std::vector<object>& objects, std::uint32_t& last_object) {
  const unsigned first = from.byte("an event");
  const unsigned what = first & verb_bits;
  static_assert(last_verb == verb_bits);  // so there is no unknown verb
  event e;
  e.what = static_cast<verb>(what);
  if (has_object(e.what)) {
    e.object = (first & same_object) != 0 ? last_object : from.number32("an event's object", most_objects);
    if (e.object >= objects.size()) fail("an event has object {} of {}", e.object, objects.size());
    if (!fits(e.what, objects[e.object].kind)) fail("an event's verb does not fit the kind of object {}", e.object);
    last_object = e.object;
  }
  if (has_other(e.what)) {
    e.other = from.number32("a wait's mutex", most_objects);
    if (e.other >= objects.size()) fail("a wait has mutex {} of {}", e.other, objects.size());
    if (!is_mutex(objects[e.other].kind)) fail("a wait's mutex is object {}, which is none", e.other);
  }
  e.work = from.number("an event's work", longest_time);
  if ((first & has_away) != 0) e.away = from.number("an event's time off the CPU", longest_time);
  if ((first & has_wait) != 0) e.wait = from.number("an event's wait", longest_time);
  if ((first & has_aside) != 0) e.aside = from.number("an event's time aside", longest_time);
  return e;
}

/// How many events and streams the rest of the file may still have.
struct room {
  std::size_t events = most_events, streams = most_streams;
};

stream read_stream(reader& from, const std::vector<object>& objects, room& left) {
  stream s;
  const unsigned flags = from.byte("a stream");
  if (flags > (begins_in_call | has_unfinished)) fail("a stream has the unknown flags {}", flags);
  s.begins_in_call = (flags & begins_in_call) != 0;
  s.thread = from.number32("a stream's thread", most_threads - 1);
  s.begins = from.number("a stream's beginning", longest_time);
  const std::size_t n = from.count("a stream's number of events", most_events, 2);
  if (n > left.events) fail("there are more than {} events", most_events);
  left.events -= n;
  s.events.reserve(n);
  std::uint32_t last_object = no_thread;
  for (std::size_t i = 0; i < n; i++) s.events.push_back(read_event(from, objects, last_object));
  if ((flags & has_unfinished) != 0) s.unfinished.push_back(read_event(from, objects, last_object));
  return s;
}

window read_window(reader& from, const std::vector<object>& objects, room& left) {
  window w;
  w.begins = from.number("a window's beginning", latest_begin);
  w.length = from.number("a window's length", longest_time);
  w.lost = from.number("a window's lost events", ~std::uint64_t{0});
  const std::size_t n = from.count("a window's number of streams", most_threads, 4);
  if (n > left.streams) fail("there are more than {} streams", most_streams);
  left.streams -= n;
  w.streams.reserve(n);
  std::vector<std::uint32_t> threads;
  for (std::size_t i = 0; i < n; i++) {
    w.streams.push_back(read_stream(from, objects, left));
    threads.push_back(w.streams.back().thread);
  }
  std::sort(threads.begin(), threads.end());
  if (const auto twice = std::adjacent_find(threads.begin(), threads.end()); twice != threads.end())
    fail("a window has two streams of thread {}", *twice);
  return w;
}

std::string content_of(const std::filesystem::path& file) {
  // O_NONBLOCK: to open a FIFO without a writer would block.
  const support::owned_descriptor from(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!from.is_open()) fail("{}", std::strerror(errno));
  std::string content;
  for (;;) {
    constexpr std::size_t step = 1 << 20;
    const std::size_t before = content.size();
    content.resize(before + step);
    const ssize_t n = read(from.get(), content.data() + before, step);
    if (n < 0 && errno != EINTR) fail("{}", std::strerror(errno));
    content.resize(before + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (n == 0) return content;
    if (content.size() > largest_file) fail("it is larger than {} MiB", largest_file >> 20);
  }
}

}  // namespace

std::string encoded(const recording& r) {
  writer to;
  to.content() = magic;
  to.number(version);
  to.number(r.machine.cpus);
  for (const std::string* s : {&r.machine.processor, &r.machine.c_library, &r.machine.lock}) to.text(*s);
  for (const double v : {r.machine.call_ns, r.machine.between_ns, r.machine.transfer_ns, r.machine.wake_ns}) to.real(v);
  to.number(r.objects.size());
  for (const object& o : r.objects) {
    to.byte(code_of(o.kind));
    to.number(o.site);
    to.text(o.name);
    if (o.kind == kind::thread) to.number(o.thread == no_thread ? 0 : std::uint64_t{o.thread} + 1);
  }
  to.number(r.roles.size());
  for (const thread_role& t : r.roles) {
    to.number(t.thread);
    to.text(t.role);
  }
  to.number(r.windows.size());
  for (const window& w : r.windows) {
    for (const std::uint64_t n : {w.begins, w.length, w.lost}) to.number(n);
    to.number(w.streams.size());
    for (const stream& s : w.streams) {
      to.byte((s.begins_in_call ? begins_in_call : 0) | (s.unfinished.empty() ? 0 : has_unfinished));
      to.number(s.thread);
      to.number(s.begins);
      to.number(s.events.size());
      std::uint32_t last_object = no_thread;
      for (const event& e : s.events) write_event(to, e, last_object);
      if (!s.unfinished.empty()) write_event(to, s.unfinished.front(), last_object);
    }
  }
  return std::move(to.content());
}

recording decoded(std::string_view content) {
  if (content.size() > largest_file) fail("it is larger than {} MiB", largest_file >> 20);
  if (!content.starts_with(magic)) fail("it is no recording of usher record");
  reader from(content);
  from.skip(magic.size());
  if (const std::uint64_t v = from.number("the version", ~std::uint64_t{0}); v != version)
    fail("its version is {}, and this usher reads version {}", v, version);
  recording r;
  r.machine.cpus = from.number32("the number of CPUs", 1 << 20);
  r.machine.processor = from.text("the processor's name");
  r.machine.c_library = from.text("the C library's name");
  r.machine.lock = from.text("the lock's name");
  r.machine.call_ns = from.real("the cost of a call");
  r.machine.between_ns = from.real("the cost between calls");
  r.machine.transfer_ns = from.real("the time of a transfer");
  r.machine.wake_ns = from.real("the time of a wake-up");
  const std::size_t objects = from.count("the number of objects", most_objects, 3);
  r.objects.resize(objects);
  for (object& o : r.objects) {
    const unsigned code = from.byte("an object");
    if (code >= std::size(kinds_in_file)) fail("an object has the unknown kind {}", code);
    o.kind = kinds_in_file[code];
    o.site = from.number32("an object's site", most_objects);
    o.name = from.text("an object's name");
    if (o.kind == kind::thread)
      if (const std::uint32_t n = from.number32("an object's thread", most_threads); n != 0) o.thread = n - 1;
  }
  const std::size_t roles = from.count("the number of roles", most_threads, 2);
  r.roles.resize(roles);
  for (thread_role& t : r.roles) {
    t.thread = from.number32("a role's thread", most_threads - 1);
    t.role = from.text("a role's name");
  }
  const std::size_t windows = from.count("the number of windows", most_windows, 4);
  r.windows.reserve(windows);
  room left;
  for (std::size_t i = 0; i < windows; i++) r.windows.push_back(read_window(from, r.objects, left));
  if (!from.rest().empty()) fail("{} bytes follow its end", from.rest().size());
  return r;
}

recording read_recording(const std::filesystem::path& file) {
  try {
    return decoded(content_of(file));
  } catch (const std::runtime_error& e) {
    fail("cannot read the recording {}: {}", file.string(), e.what());
  }
}

void write_recording(const recording& r, const std::filesystem::path& file) {
  support::output_file to;
  if (!to.open(file.string()) || !to.write(encoded(r))) fail("the recording {} was not written", file.string());
}

}  // namespace usher::recording
