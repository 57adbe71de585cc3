// TPC-C's transaction Payment with one warehouse (MCSg §6.3), as the database FOEDUS executes it: a lock for each
// record, taken only to commit.
//
//     execute   read the names of the warehouse and of a district, find a customer (60 % by last name), read the
//               customer's credit; no locks
//     commit    lock the records to be written in the order of their tables: the customer, for a tenth of the customers
//               also the customer's data, the district, the warehouse. Then write and unlock them one after another
//     insert    append to the history, which is a thread's own
//
// So most threads wait for one of the ten districts, and at most ten for the warehouse. Order, tables and probabilities
// are those of FOEDUS (tpcc_payment.cpp, tpcc_load.cpp, xct_manager_pimpl.cpp) and of the TPC-C specification (clauses
// 2.1.6 and 2.5). There, a record's lock is beside the record; here locks have cache lines of their own. Conflicts
// between the reads and the commit, for which a transaction of FOEDUS is repeated, are left out: only a customer's data
// is both read and written.
#pragma once

#include <array>
#include <atomic>

#include "lab/bench/programs/program.hpp"

namespace usher::workloads {

template <world W>
class payment {
 public:
  static description about() {
    return {.name = "payment",
            .summary = "TPC-C's Payment with one warehouse, a lock for each record",
            .source = "MCSg, section 6.3, table 1",
            .parameters = {{"customers", 3000, 3, 100000, "of a district"},
                           {"execute", 3000, 0, 1000000, "empty loops or cycles before the commit, without locks"},
                           {"commit", 200, 0, 1000000, "the same in the commit, under the locks"}},
            .where = placement::even,
            .guards = true};
  }

  explicit payment(W& w)
      : warehouse_lock_(w.make_lock()),
        customers_(static_cast<std::uint32_t>(w.parameter("customers"))),
        execute_(static_cast<std::size_t>(w.parameter("execute"))),
        commit_(static_cast<std::size_t>(w.parameter("commit"))),
        threads_(w.threads()),
        warehouse_(w.template make<total>()),
        warehouse_name_(w.template make<name>()),
        district_(w.template make_array<total>(districts)),
        district_name_(w.template make_array<name>(districts)),
        customer_(w.template make_array<account>(districts * customers_)),
        credit_(w.template make_array<name>(districts * customers_)),
        data_(w.template make_array<text>(customers_)),
        history_(w.template make_array<page>(threads_)),
        finished_(w.template make<counter>()) {
    for (std::uint32_t d = 0; d < districts; d++) district_lock_.push_back(w.make_lock());
    for (std::uint32_t c = 0; c < districts * customers_; c++) customer_lock_.push_back(w.make_lock());
    for (std::uint32_t c = 0; c < customers_; c++) data_lock_.push_back(w.make_lock());
  }

  void operator()(typename W::thread& t) {
    const std::uint32_t district = t.uniform(districts), amount = 1 + t.uniform(5000);
    const std::uint32_t customer = district * customers_ + customer_of(t);
    t.delay(execute_);
    warehouse_name_.value.get();
    district_name_[district].value.get();
    credit_[customer].value.get();
    const bool bad_credit = customer % 10 == 0;
    const std::uint32_t data = customer / 10;

    customer_lock_[customer].lock();
    if (bad_credit) data_lock_[data].lock();
    district_lock_[district].lock();
    warehouse_lock_.lock();
    t.delay(commit_);
    write(customer_[customer], amount);
    customer_lock_[customer].unlock();
    if (bad_credit) {
      write(data_[data], amount);
      data_lock_[data].unlock();
    }
    add(district_[district], amount);
    district_lock_[district].unlock();
    add(warehouse_, amount);
    warehouse_lock_.unlock();

    append(history_[t.index()], customer, amount);
    t.count();
  }

  /// Called by each thread after its last transaction. The last thread compares the totals of the warehouse with those
  /// of the districts.
  void finish(typename W::thread&) {
    // Acquire and release: the last thread reads what all other threads have written.
    if (finished_.value.fetch_add(1, std::memory_order_acq_rel) + 1 != threads_) return;
    std::uint64_t sum = 0;
    for (std::uint32_t d = 0; d < districts; d++) sum += district_[d].year_to_date.get();
    if (sum != warehouse_.year_to_date.get())
      throw std::logic_error("payment: the warehouse's total is not that of its districts");
  }

 private:
  using word = typename W::platform::template plain<std::uint64_t>;
  static constexpr std::uint32_t districts = 10;  // and a tenth of all customers have data to be written

  struct alignas(64) name {
    word value;
  };
  struct alignas(64) total {
    word year_to_date, version;
  };
  struct alignas(64) account {
    word balance, paid, version;
  };
  struct alignas(64) line {
    word first;
  };
  using text = std::array<line, 8>;  // 500 bytes
  struct page {
    std::array<line, 64> entries;  // 46 bytes each
    word used;
  };
  struct alignas(64) counter {
    typename W::platform::template atomic<std::uint32_t> value;
  };

  /// TPC-C's non-uniform random distribution over [0, n), with its constant C = 0.
  static std::uint32_t skewed(typename W::thread& t, std::uint32_t a, std::uint32_t n) {
    return (t.uniform(a + 1) | t.uniform(n)) % n;
  }
  /// Returns a customer by last name: each name belongs to three customers, and the middle one is taken.
  std::uint32_t customer_of(typename W::thread& t) const {
    const std::uint32_t names = customers_ / 3;
    return t.uniform(100) < 60 ? names + skewed(t, 255, names) : skewed(t, 1023, customers_);
  }

  static void step(word& w, std::uint64_t by) { w.set(w.get() + by); }
  static void add(total& to, std::uint32_t amount) {
    step(to.year_to_date, amount);
    step(to.version, 1);
  }
  static void write(account& to, std::uint32_t amount) {
    step(to.balance, 0 - std::uint64_t{amount});
    step(to.paid, amount);
    step(to.version, 1);
  }
  static void write(text& to, std::uint32_t amount) {
    for (line& l : to) step(l.first, amount);
  }
  static void append(page& to, std::uint32_t customer, std::uint32_t amount) {
    const std::uint64_t n = to.used.get();
    to.entries[n].first.set(std::uint64_t{customer} << 32 | amount);
    to.used.set((n + 1) % to.entries.size());
  }

  typename W::lock warehouse_lock_;
  std::vector<typename W::lock> district_lock_, customer_lock_, data_lock_;
  std::uint32_t customers_;
  std::size_t execute_, commit_;
  unsigned threads_;
  total& warehouse_;
  name& warehouse_name_;
  total* district_;
  name* district_name_;
  account* customer_;
  name* credit_;
  text* data_;
  page* history_;
  counter& finished_;
};

}  // namespace usher::workloads
