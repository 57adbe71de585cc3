// LRUCache (Malthusian Locks §6.9): a software cache of limited capacity under one lock. Each thread uses a set of keys
// repeatedly; a miss replaces the least recently used element, often one of another thread.
//
// As in Ceph's SimpleLRU, a search tree finds the element, and a list has the elements in order of use. Unlike a
// std::map, the tree is not balanced: instead its keys are scrambled by a bijection, so that they are inserted in
// random order.
#pragma once

#include "lab/bench/programs/keyset.hpp"
#include "lab/bench/programs/program.hpp"

namespace usher::workloads {

template <world W>
class lru_cache {
 public:
  static description about() {
    return {.name = "lru-cache",
            .summary = "a least-recently-used cache, each thread with a set of keys",
            .source = "Malthusian Locks, section 6.9, figure 12",
            .parameters =
                {{"capacity", 10000, 1, 1000000, "elements"},
                 {"keys", 1000000, 1, 100000000, "keys are below this"},
                 {"keyset", 1000, 1, 100000, "keys in the set of a thread"},
                 {"fresh", 1, 0, 100, "percentage of accesses with a new key"},
                 {"ncs", 1000, 0, 1000000, "PRNG steps outside"},
                 {"counts", 0, 0, 2,
                  "what is counted: accesses; 1: those that miss; 2: those that displace another thread's element"}},
            .guards = true};
  }

  explicit lru_cache(W& w)
      : lock_(w.make_lock()),
        capacity_(static_cast<std::uint32_t>(w.parameter("capacity"))),
        keys_(static_cast<std::uint32_t>(w.parameter("keys"))),
        fresh_(static_cast<std::uint32_t>(w.parameter("fresh"))),
        counted_(static_cast<unsigned>(w.parameter("counts"))),
        ncs_(static_cast<std::size_t>(w.parameter("ncs"))),
        mine_(w.threads(), keyset(static_cast<std::size_t>(w.parameter("keyset")))),
        head_(w.template make<head>()),
        elements_(w.template make_array<element>(capacity_ + 1)) {}

  void operator()(typename W::thread& t) {
    keyset& mine = mine_[t.index()];
    mine.fill(t, keys_);
    lock_.lock();
    t.steps(2);
    const std::uint32_t place = mine.place(t);
    const unsigned done = access(mixed(mine.key(t, place, fresh_, keys_)), t.index());
    lock_.unlock();
    if (done >= counted_) t.count();
    t.steps(ncs_);
  }

 private:
  using word = typename W::platform::template plain<std::uint32_t>;

  /// An element of the cache. Elements are numbered from 1; the number 0 means none.
  struct alignas(64) element {
    word key, owner;  // the scrambled key; the thread that inserted it
    word smaller, larger;
    word newer, older;
  };
  struct head {
    word root, newest, oldest, used;
  };

  /// Scrambles a key; a bijection.
  static std::uint32_t mixed(std::uint32_t k) {
    k = (k ^ k >> 16) * 0x85ebca6bu;
    k = (k ^ k >> 13) * 0xc2b2ae35u;
    return k ^ k >> 16;
  }

  element& at(std::uint32_t e) { return elements_[e]; }

  /// Returns 0 for a hit, 1 for a miss, 2 for a miss that displaced another thread's element.
  unsigned access(std::uint32_t key, std::uint32_t thread) {
    if (const std::uint32_t e = find(key)) {
      if (head_.newest.get() != e) {
        take_from_list(e);
        put_first(e);
      }
      return 0;
    }
    unsigned done = 1;
    std::uint32_t e = head_.used.get() + 1;
    if (e <= capacity_) {
      head_.used.set(e);
    } else {
      e = head_.oldest.get();
      if (at(e).owner.get() != thread) done = 2;
      take_from_list(e);
      take_from_tree(at(e).key.get());
    }
    at(e).key.set(key);
    at(e).owner.set(thread);
    put_into_tree(e, key);
    put_first(e);
    return done;
  }

  // ---- the tree ----

  std::uint32_t find(std::uint32_t key) {
    std::uint32_t e = head_.root.get();
    while (e != 0) {
      const std::uint32_t here = at(e).key.get();
      if (here == key) break;
      e = side(e, key < here).get();
    }
    return e;
  }

  word& side(std::uint32_t e, bool smaller) { return smaller ? at(e).smaller : at(e).larger; }

  /// Returns the link in the tree to the key's element: the word with the element's number, or the word that would get
  /// the number if the key were inserted.
  word& link_to(std::uint32_t key) {
    word* link = &head_.root;
    for (std::uint32_t e; (e = link->get()) != 0;) {
      const std::uint32_t here = at(e).key.get();
      if (here == key) break;
      link = &side(e, key < here);
    }
    return *link;
  }

  void put_into_tree(std::uint32_t e, std::uint32_t key) {
    at(e).smaller.set(0);
    at(e).larger.set(0);
    link_to(key).set(e);
  }

  void take_from_tree(std::uint32_t key) {
    word& link = link_to(key);
    const std::uint32_t e = link.get(), smaller = at(e).smaller.get(), larger = at(e).larger.get();
    if (smaller == 0 || larger == 0) return link.set(smaller | larger);
    word* to_next = &at(e).larger;  // the element with the next larger key replaces it
    while (at(to_next->get()).smaller.get() != 0) to_next = &at(to_next->get()).smaller;
    const std::uint32_t next = to_next->get();
    to_next->set(at(next).larger.get());
    at(next).smaller.set(smaller);
    at(next).larger.set(at(e).larger.get());
    link.set(next);
  }

  // ---- the list ----

  void put_first(std::uint32_t e) {
    const std::uint32_t second = head_.newest.get();
    at(e).newer.set(0);
    at(e).older.set(second);
    (second != 0 ? at(second).newer : head_.oldest).set(e);
    head_.newest.set(e);
  }

  void take_from_list(std::uint32_t e) {
    const std::uint32_t newer = at(e).newer.get(), older = at(e).older.get();
    (newer != 0 ? at(newer).older : head_.newest).set(older);
    (older != 0 ? at(older).newer : head_.oldest).set(newer);
  }

  typename W::lock lock_;
  std::uint32_t capacity_, keys_, fresh_;
  unsigned counted_;
  std::size_t ncs_;
  std::vector<keyset> mine_;
  head& head_;
  element* elements_;
};

}  // namespace usher::workloads
