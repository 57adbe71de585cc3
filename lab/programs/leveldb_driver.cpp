// LevelDB under the three loads that the papers use (Debian has no db_bench): fill by one thread, readrandom,
// readwhilewriting. A value is a function of its key and a version. Every value that is read is verified: its version
// must lie between the last version finished before the read began and the last version started before it ended.
#include <leveldb/db.h>
#include <leveldb/write_batch.h>

#include <cinttypes>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "options.hpp"
#include "team.hpp"

namespace {

using workloads::fail;

std::string key_of(long number) {
  char text[32];
  std::snprintf(text, sizeof text, "%016ld", number);
  return text;
}

/// Returns a value: the version in clear text, then bytes that depend on the key and the version.
std::string value_of(long number, std::uint32_t version) {
  char text[16];
  std::snprintf(text, sizeof text, "%010" PRIu32 ":", version);
  std::string value = text;
  workloads::random_source bytes(static_cast<unsigned long>(number) * 0x100000001b3UL + version);
  while (value.size() < 100) {
    const unsigned long word = bytes.next();
    value.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  value.resize(100);
  return value;
}

std::uint32_t verified_version(long number, const std::string& value) {
  const auto version = static_cast<std::uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
  if (value != value_of(number, version)) fail("the value of key " + key_of(number) + " is wrong");
  return version;
}

class store {
 public:
  store(const std::string& directory, long keys)
      : keys_(keys), started_(static_cast<std::size_t>(keys)), finished_(static_cast<std::size_t>(keys)) {
    leveldb::Options options;
    options.create_if_missing = true;
    options.error_if_exists = true;
    options.write_buffer_size = 256 << 10;  // small, so that the background thread compacts also in short runs
    leveldb::DB* raw = nullptr;
    must(leveldb::DB::Open(options, directory, &raw), "open " + directory);
    db_.reset(raw);
  }

  long keys() const { return keys_; }

  /// Writes the next version of the key. Only one thread at a time may call this function.
  void write(long number) {
    const std::uint32_t version = ++started_[static_cast<std::size_t>(number)];
    must(db_->Put({}, key_of(number), value_of(number, version)), "put");
    finished_[static_cast<std::size_t>(number)] = version;
  }

  void read(long number) const {
    const std::uint32_t least = finished_[static_cast<std::size_t>(number)];
    std::string value;
    must(db_->Get({}, key_of(number), &value), "get");
    const std::uint32_t version = verified_version(number, value);
    if (version < least || version > started_[static_cast<std::size_t>(number)])
      fail("key " + key_of(number) + " has a version that was not current during the read");
  }

  /// Reads every key once, in order. Each value must have the version that was last written.
  void scan() const {
    std::unique_ptr<leveldb::Iterator> cursor(db_->NewIterator({}));
    long number = 0;
    for (cursor->SeekToFirst(); cursor->Valid(); cursor->Next(), ++number) {
      if (number == keys_ || cursor->key().ToString() != key_of(number)) fail("the scan found a wrong key");
      if (verified_version(number, cursor->value().ToString()) != finished_[static_cast<std::size_t>(number)])
        fail("the scan found an old value of key " + key_of(number));
    }
    must(cursor->status(), "scan");
    if (number != keys_) fail("the scan found " + std::to_string(number) + " keys of " + std::to_string(keys_));
  }

 private:
  static void must(const leveldb::Status& status, const std::string& what) {
    if (!status.ok()) fail(what + ": " + status.ToString());
  }

  long keys_;
  std::vector<std::atomic<std::uint32_t>> started_, finished_;
  std::unique_ptr<leveldb::DB> db_;
};

void report(const char* load, const workloads::team_result& result) {
  std::printf("%s: throughput: %.0f operations/s\n", load, result.rate());
}

void random_reads(const store& db, long index, workloads::allowance& mine) {
  workloads::random_source random(static_cast<unsigned long>(index) + 1);
  while (mine.another()) db.read(static_cast<long>(random.below(static_cast<unsigned long>(db.keys()))));
}

void fill(store& db) {
  workloads::budget once{db.keys(), 0};
  report("fill", workloads::run_team(1, once, [&](long, workloads::allowance& mine) {
           for (long number = 0; mine.another(); ++number) db.write(number);
         }));
}

void read_while_writing(store& db, long threads, const workloads::budget& limit) {
  std::atomic<bool> readers_done{false};
  long written = 0;
  std::thread writer([&] {
    workloads::random_source random(99);
    while (!readers_done && (limit.operations == 0 || written < limit.operations)) {
      db.write(static_cast<long>(random.below(static_cast<unsigned long>(db.keys()))));
      ++written;
    }
  });
  const workloads::team_result result = workloads::run_team(
      threads, limit, [&](long index, workloads::allowance& mine) { random_reads(db, index, mine); });
  readers_done = true;
  writer.join();
  report("readwhilewriting", result);
  std::printf("readwhilewriting: %.1f writes/s beside\n", static_cast<double>(written) / result.seconds);
}

}  // namespace

int main(int argc, char** argv) {
  long threads = 8, keys = 20000;
  workloads::budget limit;
  std::string directory;
  std::vector<std::string> loads = {"readrandom", "readwhilewriting"};
  workloads::options o("leveldb_driver", "LevelDB: fill, readrandom, readwhilewriting, every value verified");
  o.number("threads", threads, 1, 4096, "reading threads (8)");
  o.real("seconds", limit.seconds, 0.01, 86400, "how long each load runs (2)");
  o.number("operations", limit.operations, 1, 1L << 40, "this many operations in all a load instead");
  o.number("num", keys, 1, 1L << 30, "keys (20000)");
  o.text("dir", directory, "where to make the database, and leave it (a temporary place, removed)");
  o.list("loads", loads, "after the fill (readrandom,readwhilewriting)");
  o.parse(argc, argv);
  for (const std::string& load : loads)
    if (load != "readrandom" && load != "readwhilewriting") fail("unknown load '" + load + "'", 2);

  const bool temporary = directory.empty();
  if (temporary) {
    directory = (std::filesystem::temp_directory_path() / "usher-leveldb-XXXXXX").string();
    if (mkdtemp(directory.data()) == nullptr) fail("cannot make " + directory);
  }
  {
    store db(directory, keys);
    fill(db);
    for (const std::string& load : loads) {
      if (load == "readrandom")
        report("readrandom", workloads::run_team(threads, limit, [&](long index, workloads::allowance& mine) {
                 random_reads(db, index, mine);
               }));
      else
        read_while_writing(db, threads, limit);
    }
    db.scan();
    std::printf("checked: %ld keys\n", keys);
  }
  if (temporary) std::filesystem::remove_all(directory);
  return 0;
}
