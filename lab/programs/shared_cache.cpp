// A cache in front of a slow source, as in servers written in C++: a hash table under a std::shared_mutex. Readers look
// up entries under a shared lock; a missing entry is filled in, and another evicted, under an exclusive lock. Every
// value is verified.
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "options.hpp"
#include "team.hpp"

namespace {

class cache {
 public:
  cache(long keys, long capacity) : capacity_(static_cast<std::size_t>(capacity)) {
    entries_.reserve(capacity_);
    for (long key = 0; key < keys && entries_.size() < capacity_; ++key) fill(key);
  }

  /// Returns whether the key was there.
  bool look_up(long key) const {
    const std::shared_lock<std::shared_mutex> shared(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end()) return false;
    if (found->second != value_of(key)) workloads::fail("the value of key " + std::to_string(key) + " is wrong");
    return true;
  }

  void fill(long key) {
    std::string value = value_of(key);  // the source
    const std::unique_lock<std::shared_mutex> exclusive(mutex_);
    if (!entries_.emplace(key, std::move(value)).second) return;
    in_order_.push_back(key);
    if (entries_.size() <= capacity_) return;
    entries_.erase(in_order_[oldest_]);
    in_order_[oldest_] = in_order_.back();
    in_order_.pop_back();
    oldest_ = (oldest_ + 1) % capacity_;
  }

 private:
  static std::string value_of(long key) { return "value of " + std::to_string(key) + std::string(64, 'x'); }

  const std::size_t capacity_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<long, std::string> entries_;
  std::vector<long> in_order_;  // a ring once it is full
  std::size_t oldest_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  long threads = 8, keys = 10000, misses = 10;
  workloads::budget limit;
  workloads::options o("shared_cache", "a cache under a std::shared_mutex");
  o.number("threads", threads, 1, 4096, "(8)");
  o.real("seconds", limit.seconds, 0.01, 86400, "how long (2)");
  o.number("operations", limit.operations, 1, 1L << 40, "this many in all instead");
  o.number("keys", keys, 10, 1L << 24, "in the cache (10000)");
  o.number("misses", misses, 0, 1000, "look-ups in a thousand of keys that are not in the first working set (10)");
  o.parse(argc, argv);

  cache values(keys, keys);
  const auto result = workloads::run_team(threads, limit, [&](long index, workloads::allowance& mine) {
    workloads::random_source random(static_cast<unsigned long>(index) + 1);
    while (mine.another()) {
      const bool rare = static_cast<long>(random.below(1000)) < misses;
      const long key = static_cast<long>(random.below(static_cast<unsigned long>(keys))) + (rare ? keys : 0);
      if (!values.look_up(key)) values.fill(key);
    }
  });
  std::printf("throughput: %.0f operations/s\n", result.rate());
  return 0;
}
