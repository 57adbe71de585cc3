// A cache that many threads read and few change: a read-write lock with the interface of std::shared_mutex.
//
// usher::bravo lets readers enter without writing to a word that they share, as long as no writer comes. A reader that
// finds a value missing becomes the writer if it is the only reader; otherwise it locks again.
#include <cstdio>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

#include <usher/shared_mutex.hpp>

class cache {
 public:
  std::string get(int key) {
    {
      std::shared_lock reading(mutex_);
      if (const auto found = values_.find(key); found != values_.end()) return found->second;
      if (mutex_.try_upgrade()) {  // the only reader: it has the lock for writing now
        reading.release();
        const std::unique_lock writing(mutex_, std::adopt_lock);
        return insert(key);
      }
    }
    const std::unique_lock writing(mutex_);
    return insert(key);
  }

  std::size_t size() {
    const std::shared_lock reading(mutex_);
    return values_.size();
  }

 private:
  const std::string& insert(int key) { return values_.try_emplace(key, "value " + std::to_string(key)).first->second; }

  usher::shared_mutex<usher::bravo> mutex_;
  std::map<int, std::string> values_;
};

int main() {
  constexpr int keys = 50, threads = 4;
  cache values;
  {
    std::vector<std::jthread> team;
    for (int t = 0; t < threads; t++)
      team.emplace_back([&values, t] {
        for (int i = 0; i < 20 * keys; i++) values.get((i * 7 + t) % keys);
      });
  }
  const bool right = values.size() == keys && values.get(7) == "value 7";
  std::printf("%zu values, %s\n", values.size(), right ? "right" : "wrong");
  return right ? 0 : 1;
}
