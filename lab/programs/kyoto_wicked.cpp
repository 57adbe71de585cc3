// Kyoto Cabinet's cache in memory under random operations (Malthusian Locks §6.6). The operations and their frequencies
// are those of `kccachetest wicked`. That program makes a number of operations in each thread, on a range of keys that
// grows with the number of threads. As in the paper, this program runs for a given time, and the range of keys is
// fixed.
//
// One ninth each of the operations sets, adds, appends to, increments, compares and swaps, or removes a record. Two
// ninths read a record. One ninth moves the thread's cursor, and may change the record at the cursor. A tenth of the
// values have up to 1023 bytes; the others are the key. One operation of a hundred is in a transaction; one of a
// hundred is followed by an operation on up to nine records. kccachetest also calls `clear` or `synchronize` once in
// each thread; this is left out.
//
// Debian's library locks the database by a read-write lock, and each of 16 parts by a mutex. rwlock_as_mutex.so turns
// the read-write lock into a mutex, as in the paper.
#include <kccachedb.h>

#include <array>
#include <cstring>
#include <memory>
#include <thread>

#include "options.hpp"
#include "team.hpp"

namespace {

namespace kc = kyotocabinet;
using workloads::fail;

const std::array<char, 1024> long_value = [] {
  std::array<char, 1024> bytes{};
  bytes.fill('*');
  return bytes;
}();

class worker {
 public:
  worker(kc::CacheDB& db, unsigned long seed, unsigned long keys, unsigned long transactions)
      : db_(db), random_(seed), keys_(keys), transactions_(transactions), cursor_(db.cursor()) {}

  void operation() {
    const bool transaction = random_.below(1000) < transactions_ && begin();
    key_ = some_key();
    if (one_of(1000)) {
      key_.resize(1 + random_.below(64));
      for (char& byte : key_) byte = static_cast<char>(random_.below(256));
    }
    value_ = key_;
    if (one_of(10)) value_.assign(long_value.data(), some_length());
    do on_one_record();
    while (one_of(100));
    if (one_of(100)) on_several_records();
    if (transaction) {
      std::this_thread::yield();
      must(db_.end_transaction(!one_of(10)), kc::BasicDB::Error::SUCCESS, "end of a transaction");
    }
  }

 private:
  /// Changes the record at the cursor, removes it, or leaves it.
  class change : public kc::DB::Visitor {
   public:
    explicit change(worker& w) : worker_(w) {}

   private:
    const char* visit_full(const char*, std::size_t, const char*, std::size_t, std::size_t* size) override {
      switch (worker_.random_.below(3)) {
        case 0:
          *size = worker_.some_length();
          return long_value.data();
        case 1:
          return REMOVE;
        default:
          return NOP;
      }
    }
    worker& worker_;
  };

  bool one_of(unsigned long n) { return random_.below(n) == 0; }
  std::string some_key() { return std::to_string(1 + random_.below(keys_)); }
  std::size_t some_length() { return random_.below(long_value.size()) / (1 + random_.below(5)); }

  void must(bool done, kc::BasicDB::Error::Code allowed, const char* what) {
    if (!done && db_.error() != allowed) fail(std::string(what) + ": " + db_.error().name());
  }

  bool begin() {
    if (one_of(2)) {
      must(db_.begin_transaction(), kc::BasicDB::Error::SUCCESS, "begin of a transaction");
      return true;
    }
    const bool begun = db_.begin_transaction_try();
    must(begun, kc::BasicDB::Error::LOGIC, "begin of a transaction");
    return begun;
  }

  void on_one_record() {
    using error = kc::BasicDB::Error;
    switch (random_.below(9)) {
      case 0:
        must(db_.set(key_, value_), error::SUCCESS, "set");
        break;
      case 1:
        must(db_.add(key_, value_), error::DUPREC, "add");
        break;
      case 2:
        must(db_.append(key_, value_), error::SUCCESS, "append");
        break;
      case 3:
        if (one_of(2))
          must(db_.increment(key_, static_cast<std::int64_t>(random_.below(1000))) != kc::INT64MIN, error::LOGIC,
               "increment");
        else
          must(!kc::chknan(db_.increment_double(key_, 0.5, 0)), error::LOGIC, "increment");
        break;
      case 4:
        must(db_.cas(key_, key_, value_), error::LOGIC, "compare and swap");
        break;
      case 5:
        must(db_.remove(key_), error::NOREC, "remove");
        break;
      case 6:
        if (one_of(10)) {
          must(cursor_->jump(key_), error::NOREC, "jump");
        } else {
          change c(*this);
          must(cursor_->accept(&c, true, one_of(2)), error::NOREC, "accept");
          if (!one_of(5)) must(cursor_->step(), error::NOREC, "step");
        }
        break;
      default:
        must(db_.get(key_, &found_), error::NOREC, "get");
    }
  }

  void on_several_records() {
    const unsigned long n = random_.below(10), what = random_.below(4);
    const bool atomic = !one_of(4);
    std::vector<std::string> keys;
    for (unsigned long i = 0; i < n; ++i) keys.push_back(some_key());
    std::map<std::string, std::string> records;
    if (what == 0) {
      for (const std::string& k : keys) records[k] = key_;
      if (db_.set_bulk(records, atomic) < 0) fail("set of several records");
    } else if (what == 1) {
      if (db_.remove_bulk(keys, atomic) < 0) fail("removal of several records");
    } else if (db_.get_bulk(keys, &records, atomic) < 0) {
      fail("reading of several records");
    }
  }

  kc::CacheDB& db_;
  workloads::random_source random_;
  unsigned long keys_, transactions_;
  std::unique_ptr<kc::CacheDB::Cursor> cursor_;
  std::string key_, value_, found_;
};

}  // namespace

int main(int argc, char** argv) {
  long threads = 2, keys = 10'000'000, records = 0, transactions = 10;
  workloads::budget limit;
  workloads::options o("kyoto_wicked", "random operations on Kyoto Cabinet's cache in memory");
  o.number("threads", threads, 1, 4096, "threads (2)");
  o.real("seconds", limit.seconds, 0.01, 86400, "how long (2)");
  o.number("operations", limit.operations, 1, 1L << 40, "this many operations in all instead");
  o.number("keys", keys, 1, 1L << 31, "the range of the keys (10000000)");
  o.number("records", records, 0, 1L << 31, "that are set at random before the measured time (0)");
  o.number("transactions", transactions, 0, 1000, "of a thousand operations, those in a transaction (10)");
  o.parse(argc, argv);

  kc::CacheDB& db = *new kc::CacheDB;  // never freed: it has up to ten million records
  if (!db.open("*", kc::CacheDB::OWRITER | kc::CacheDB::OCREATE)) fail("open");
  workloads::random_source random(1);
  for (long i = 0; i < records; ++i) {
    const std::string key = std::to_string(1 + random.below(static_cast<unsigned long>(keys)));
    if (!db.set(key, key)) fail("set");
  }
  const workloads::team_result result =
      workloads::run_team(threads, limit, [&](long index, workloads::allowance& mine) {
        worker w(db, static_cast<unsigned long>(index) + 2, static_cast<unsigned long>(keys),
                 static_cast<unsigned long>(transactions));
        while (mine.another()) w.operation();
      });
  std::printf("throughput: %.0f operations/s\n", result.rate());
  std::printf("records: %ld\n", static_cast<long>(db.count()));
  return 0;
}
