#pragma once

#include <atomic>
#include <cstdint>

extern "C" void sleep_in_library(std::atomic<std::uint32_t>* word);
extern "C" void wake_in_library(std::atomic<std::uint32_t>* word);
