// The place of a thread in the table of visible readers (read_write_bias.hpp). The lock uses it, and so does the fork
// handler, which keeps the ids of the thread that forked.
#pragma once

#include "usher/core/cxx20.hpp"

#include <bit>
#include <cstdint>

namespace usher::inline v2 {

/// The index of the slot in which a thread puts a lock's id.
template <std::uint32_t Slots>
constexpr std::uint32_t visible_slot_of(std::uint32_t reader_tag, std::uint32_t salt) {
  return (reader_tag * 0x9e3779b1u ^ salt * 0x85ebca6bu) >> (32 - std::countr_zero(Slots));
}

}  // namespace usher::inline v2
