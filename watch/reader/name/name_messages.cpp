#include "watch/reader/name/name_messages.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace usher::reader {
namespace {

/// Writes numbers in this machine's byte order: sender and receiver are the same program.
class encoder {
 public:
  template <class T>
  void number(T n) {
    bytes_.append(reinterpret_cast<const char*>(&n), sizeof n);
  }
  void text(std::string_view t) {
    t = t.substr(0, longest_text);
    number(static_cast<std::uint32_t>(t.size()));
    bytes_.append(t);
  }
  void whole_frame(const frame& f) {
    text(f.function);
    text(f.file);
    text(f.module);
    number(static_cast<std::uint32_t>(f.line));
    number(f.offset);
    number(static_cast<std::uint8_t>(f.is_inlined));
  }
  std::string message(message_kind kind) const {
    const message_head head{static_cast<std::uint32_t>(bytes_.size()), kind};
    std::string all(reinterpret_cast<const char*>(&head), sizeof head);
    return all += bytes_;
  }

 private:
  std::string bytes_;
};

/// Reads a message. After an error all further values are meaningless, and is_done() is false.
class decoder {
 public:
  explicit decoder(std::string_view bytes) : rest_(bytes) {}
  template <class T>
  T number() {
    T n{};
    if (rest_.size() < sizeof n) {
      fail();
    } else {
      std::memcpy(&n, rest_.data(), sizeof n);
      rest_.remove_prefix(sizeof n);
    }
    return n;
  }
  std::uint32_t number_up_to(std::size_t most) {
    const auto n = number<std::uint32_t>();
    if (n > most) fail();
    return n <= most ? n : 0;
  }
  std::string text() {
    const std::uint32_t n = number_up_to(longest_text);
    if (n > rest_.size()) fail();
    std::string t(rest_.substr(0, n));
    rest_.remove_prefix(std::min<std::size_t>(n, rest_.size()));
    return t;
  }
  bool flag() {
    const auto n = number<std::uint8_t>();
    if (n > 1) fail();
    return n == 1;
  }
  frame whole_frame() {
    frame f;
    f.function = text();
    f.file = text();
    f.module = text();
    f.line = number<std::uint32_t>();
    f.offset = number<std::uint64_t>();
    f.is_inlined = flag();
    return f;
  }
  bool has_failed() const { return failed_; }
  bool is_done() const { return !failed_ && rest_.empty(); }

 private:
  void fail() {
    failed_ = true;
    rest_ = {};
  }
  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace

std::string encode_text(message_kind kind, std::string_view text) {
  encoder e;
  e.text(text);
  return e.message(kind);
}

std::string encode(query::what kind, const answer& a) {
  encoder e;
  if (kind == query::what::data) {
    e.number(static_cast<std::uint8_t>(a.object.has_value()));
    if (a.object) {
      e.text(a.object->symbol);
      e.text(a.object->module);
      for (const std::uint64_t n : {a.object->offset, a.object->size, a.object->module_offset}) e.number(n);
    }
    return e.message(message_kind::data);
  }
  std::size_t count = std::min(a.frames.size(), most_frames), bytes = 0;
  for (std::size_t i = 0; i < count; i++) {
    constexpr std::size_t numbers = 64;  // more than the numbers of a frame need
    bytes += a.frames[i].function.size() + a.frames[i].file.size() + a.frames[i].module.size() + numbers;
    if (bytes > longest_message / 2 && i > 0) count = i;
  }
  e.number(static_cast<std::uint32_t>(count));
  for (std::size_t i = 0; i < count; i++) e.whole_frame(a.frames[i]);
  return e.message(message_kind::code);
}

std::optional<std::string> decode_text(std::string_view payload) {
  decoder d(payload);
  std::string t = d.text();
  return d.is_done() ? std::optional(std::move(t)) : std::nullopt;
}

std::optional<answer> decode(query::what kind, std::string_view payload) {
  decoder d(payload);
  answer a;
  if (kind == query::what::data) {
    if (d.flag()) {
      symbols::static_object& o = a.object.emplace();
      o.symbol = d.text();
      o.module = d.text();
      o.offset = d.number<std::uint64_t>();
      o.size = d.number<std::uint64_t>();
      o.module_offset = d.number<std::uint64_t>();
    }
  } else {
    const std::uint32_t count = d.number_up_to(most_frames);
    for (std::uint32_t i = 0; i < count && !d.has_failed(); i++) a.frames.push_back(d.whole_frame());
    if (a.frames.empty()) return std::nullopt;  // an address has at least one frame
  }
  return d.is_done() ? std::optional(std::move(a)) : std::nullopt;
}

}  // namespace usher::reader
