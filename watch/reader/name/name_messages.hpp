// The messages between `usher stat` and the child that reads symbols and debug information.
//
// The attacker is the child, since a crafted file may give an attacker control of it. So every length, number and count
// in its messages is checked against a limit before its use, and each message is decoded to its last byte or rejected.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "watch/reader/name/symbols.hpp"

namespace usher::reader {

/// The answer to a query. For a return address: its frames, without addresses. For an address of data: the object
/// there.
struct answer {
  std::vector<frame> frames;
  std::optional<symbols::static_object> object;
};

enum class message_kind : std::uint32_t {
  ready,    ///< text: why the child cannot serve; empty if it can
  entered,  ///< text: the path of the file that is read next
  denied,   ///< text: the path of a file that may not be opened
  code,     ///< an answer
  data,
};

/// Precedes each message.
struct message_head {
  std::uint32_t length;  ///< bytes that follow
  message_kind kind;
};

/// The sender shortens longer texts and omits outer inlined functions. The receiver rejects messages beyond these
/// limits.
inline constexpr std::size_t longest_text = 8192;
inline constexpr std::size_t most_frames = 64;
inline constexpr std::size_t longest_message = std::size_t{1} << 20;

std::string encode_text(message_kind kind, std::string_view text);
std::string encode(query::what kind, const answer& a);

/// Decodes a message. Nothing unless it is exactly one message of the expected kind.
std::optional<std::string> decode_text(std::string_view payload);
std::optional<answer> decode(query::what kind, std::string_view payload);

}  // namespace usher::reader
