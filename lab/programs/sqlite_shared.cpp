// One SQLite connection shared by N threads: a contended recursive mutex (the connection's) and several smaller
// mutexes, as in any program that opens a database once and uses it everywhere.
//
// Every update is one statement that moves an amount between two accounts, so the sum never changes and each update
// adds exactly two to the sum of the versions. The sums show a lost or torn update afterwards.
#include <sqlite3.h>

#include <atomic>
#include <string>

#include "options.hpp"
#include "team.hpp"

namespace {

using workloads::fail;

constexpr long first_balance = 1000;

/// Owns one prepared statement.
class statement {
 public:
  statement(sqlite3* db, const char* sql) {
    if (sqlite3_prepare_v2(db, sql, -1, &handle_, nullptr) != SQLITE_OK)
      fail(std::string("cannot prepare '") + sql + "': " + sqlite3_errmsg(db));
  }
  statement(const statement&) = delete;
  statement& operator=(const statement&) = delete;
  ~statement() { sqlite3_finalize(handle_); }

  template <class... Values>
  statement& bind(Values... values) {
    int place = 0;
    if (((sqlite3_bind_int64(handle_, ++place, values) != SQLITE_OK) || ...)) fail("cannot bind a parameter");
    return *this;
  }
  /// Executes a statement that returns no rows.
  void run() {
    const int status = sqlite3_step(handle_);
    if (status != SQLITE_DONE) fail(std::string("a statement failed: ") + sqlite3_errstr(status));
    sqlite3_reset(handle_);
  }
  /// Returns a column of the first row as a number. Ends the program if the result has no row.
  sqlite3_int64 number(int column = 0) {
    const int status = sqlite3_step(handle_);
    if (status != SQLITE_ROW) fail(std::string("a query gave no row: ") + sqlite3_errstr(status));
    const sqlite3_int64 value = sqlite3_column_int64(handle_, column);
    sqlite3_reset(handle_);
    return value;
  }
  std::string text() {
    if (sqlite3_step(handle_) != SQLITE_ROW) fail("a query gave no row");
    const unsigned char* value = sqlite3_column_text(handle_, 0);
    std::string copy = value ? reinterpret_cast<const char*>(value) : "";
    sqlite3_reset(handle_);
    return copy;
  }

 private:
  sqlite3_stmt* handle_ = nullptr;
};

void execute(sqlite3* db, const char* sql) {
  char* error = nullptr;
  if (sqlite3_exec(db, sql, nullptr, nullptr, &error) != SQLITE_OK)
    fail(std::string("'") + sql + "': " + (error ? error : "?"));
}

void expect(sqlite3* db, const char* what, const char* sql, sqlite3_int64 expected) {
  const sqlite3_int64 found = statement(db, sql).number();
  if (found != expected)
    fail(std::string("wrong ") + what + ": found " + std::to_string(found) + ", expected " + std::to_string(expected));
}

struct settings {
  long threads = 8, rows = 1000, updates = 20;
  workloads::budget limit;
  std::string file = ":memory:";
  bool check = false;

  settings(int argc, char** argv) {
    workloads::options o("sqlite_shared", "threads share one SQLite connection; point selects, updates, inserts");
    o.number("threads", threads, 1, 4096, "threads (8)");
    o.real("seconds", limit.seconds, 0.01, 86400, "how long (2)");
    o.number("operations", limit.operations, 1, 1L << 40, "this many operations in all instead");
    o.number("rows", rows, 2, 1L << 24, "accounts in the table (1000)");
    o.number("updates", updates, 0, 100, "percent of updates (20); one operation in 100 inserts, the rest select");
    o.text("file", file, "database file, made anew (in memory)");
    o.flag("check", check, "verify the contents afterwards; exit status 1 if they are wrong");
    o.parse(argc, argv);
  }
};

/// Creates the database and its table of accounts.
sqlite3* create(const std::string& file, long rows) {
  if (sqlite3_threadsafe() != 1) fail("this SQLite is not built for serialized use");
  if (file != ":memory:") std::remove(file.c_str());
  sqlite3* db = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
  if (sqlite3_open_v2(file.c_str(), &db, flags, nullptr) != SQLITE_OK) fail("cannot open " + file);
  // These settings prevent waits for the disk, which must not be measured.
  execute(db, "PRAGMA journal_mode=MEMORY; PRAGMA synchronous=OFF;");
  execute(db,
          "CREATE TABLE account(id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, version INTEGER NOT NULL);"
          "CREATE TABLE entry(id INTEGER PRIMARY KEY, thread INTEGER NOT NULL, number INTEGER NOT NULL);");
  execute(db, "BEGIN");
  {
    statement insert(db, "INSERT INTO account VALUES(?, ?, 0)");
    for (long i = 0; i < rows; ++i) insert.bind(i, first_balance).run();
  }
  execute(db, "COMMIT");
  return db;
}

struct changes {
  std::atomic<long> moved{0}, inserted{0};
};

/// Runs one thread.
void work(sqlite3* db, const settings& set, long index, workloads::allowance& mine, changes& done) {
  statement select(db, "SELECT balance, id FROM account WHERE id = ?");
  statement move(db,
                 "UPDATE account SET version = version + 1, balance = balance + CASE id WHEN ?1 THEN -?3 ELSE ?3 END "
                 "WHERE id IN (?1, ?2)");
  statement insert(db, "INSERT INTO entry(thread, number) VALUES(?, ?)");
  workloads::random_source random(static_cast<unsigned long>(index) + 1);
  long moves = 0, inserts = 0;
  while (mine.another()) {
    const long dice = static_cast<long>(random.below(100));
    const long one = static_cast<long>(random.below(static_cast<unsigned long>(set.rows)));
    if (dice < set.updates) {
      const long step = 1 + static_cast<long>(random.below(static_cast<unsigned long>(set.rows - 1)));
      move.bind(one, (one + step) % set.rows, static_cast<long>(random.below(100))).run();
      ++moves;
    } else if (dice == 99) {
      insert.bind(index, inserts).run();
      ++inserts;
    } else if (select.bind(one).number(1) != one) {
      fail("a select by key gave another row");
    }
  }
  done.moved += moves;
  done.inserted += inserts;
}

void check_contents(sqlite3* db, long rows, const changes& done) {
  const std::string integrity = statement(db, "PRAGMA integrity_check").text();
  if (integrity != "ok") fail("integrity_check: " + integrity);
  expect(db, "number of accounts", "SELECT count(*) FROM account", rows);
  expect(db, "sum of balances", "SELECT sum(balance) FROM account", rows * first_balance);
  expect(db, "sum of versions", "SELECT sum(version) FROM account", 2 * done.moved.load());
  expect(db, "number of entries", "SELECT count(*) FROM entry", done.inserted.load());
  expect(db, "numbering of a thread's entries",
         "SELECT count(*) FROM (SELECT 1 FROM entry GROUP BY thread "
         "HAVING count(*) <> count(DISTINCT number) OR max(number) <> count(*) - 1)",
         0);
}

}  // namespace

int main(int argc, char** argv) {
  const settings set(argc, argv);
  sqlite3* const db = create(set.file, set.rows);
  changes done;
  const workloads::team_result result = workloads::run_team(
      set.threads, set.limit, [&](long index, workloads::allowance& mine) { work(db, set, index, mine, done); });
  std::printf("throughput: %.0f operations/s\n", result.rate());
  if (set.check) {
    check_contents(db, set.rows, done);
    std::printf("checked: %ld operations, %ld updates, %ld inserts\n", result.operations, done.moved.load(),
                done.inserted.load());
  }
  if (sqlite3_close(db) != SQLITE_OK) fail("the connection does not close");
  return 0;
}
