// An allocator whose free chunks are in a self-adjusting binary tree: the structure of the allocator in Solaris' libc
// (malloc.c, "best fit … self-adjusting binary tree"), from which the rules below are taken. The code is our own.
//
//     free       only puts the block into a list of at most 32 freed blocks; a full list first gives back its oldest
//                block
//     allocate   takes the block freed last if its size fits. Otherwise it gives back all blocks of the list, and
//                takes the smallest chunk in the tree that fits, or else a part of the top chunk, which it extends if
//                necessary
//     give back  merges the block with free neighbours, and inserts the chunk into the tree as a leaf, without splaying
//
// The tree is ordered by size. Chunks of one size are in a list, and only the first of them is in the tree. To remove a
// chunk from the tree, it is first splayed to the root. A search without a result splays the last node that it visited.
//
// Sizes are in units. A chunk is identified by the number of its first unit, from 1 on; 0 means none. Each chunk begins
// with a header. The parameter `memory` provides the headers:
//
//     at(chunk)         returns the header
//     visit(chunk)      called once for each header that an operation reads for the first time
//     visit_end(chunk)  the same for the last word of the preceding chunk, in which libc keeps that chunk's address
//
// The caller provides mutual exclusion.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <utility>

namespace usher::workloads {

/// `word` has get() and set(), like a platform's plain<std::uint32_t>.
template <class word>
struct splay_header {
  word size;    ///< units × 4, and the flags of splay_heap in the lower bits
  word before;  ///< size of the preceding chunk, if that is free
  // While the block is in use, the user's data takes the place of the remaining fields.
  word parent;  ///< in a list, except for its first chunk: the previous chunk
  word left;    ///< in a list, except for its first chunk: splay_heap::in_list
  word right;
  word next;  ///< in the list of chunks of the same size
};

template <class word>
struct splay_state {
  static constexpr std::uint32_t most_deferred = 32;

  word root;
  word top;   ///< the chunk at the end of the heap, if that is free; it is not in the tree
  word end;   ///< the first unit after the heap; its header says that it is in use
  word last;  ///< the block freed last, if nothing was allocated since
  word deferred;
  word first_deferred;
  word freed[most_deferred];
};

template <class word, class memory>
class splay_heap {
 public:
  using index = std::uint32_t;
  using header = splay_header<word>;
  using state = splay_state<word>;

  static constexpr std::uint32_t busy = 1, before_free = 2, unit = 4;
  static constexpr std::uint32_t in_list = ~0u;
  static constexpr std::uint32_t growth = 16;  ///< units by which the heap grows; libc: 16 KiB

  /// `capacity` is in units. The memory must have the headers 1 to capacity + 1.
  splay_heap(state& s, memory& m, std::uint32_t capacity) : state_(s), memory_(m), capacity_(capacity) {}

  /// Initialises the heap. All headers and the state must be zero.
  void begin() {
    state_.end.set(1);
    at(1).size.set(busy);
  }

  /// Returns a block of n units. Throws std::length_error if the heap is full.
  index allocate(std::uint32_t n) {
    index b = state_.last.get();
    if (b != 0 && size(b) >= n) {
      state_.deferred.set(state_.deferred.get() - 1);
      state_.last.set(0);
    } else {
      give_back_all();
      b = take(n);
      header& after = at(b + size(b));
      memory_.visit(b + size(b));
      after.size.set(after.size.get() & ~before_free);
    }
    split(b, n);
    return b;
  }

  /// Throws std::logic_error if the block is not in use.
  void release(index b) {
    memory_.visit(b);
    if ((at(b).size.get() & busy) == 0) throw std::logic_error("splay heap: a block is freed that is not in use");
    const std::uint32_t n = state_.deferred.get(), first = state_.first_deferred.get();
    for (std::uint32_t i = 0; i < n; i++)  // libc looks for a block that is freed twice
      if (slot(first + i).get() == b) throw std::logic_error("splay heap: a block is freed twice");
    if (n == state::most_deferred) {
      give_back(slot(first).get());
      slot(first).set(b);
      state_.first_deferred.set((first + 1) % state::most_deferred);
    } else {
      slot(first + n).set(b);
      state_.deferred.set(n + 1);
    }
    state_.last.set(b);
  }

  /// Gives back all deferred blocks, the last first.
  void give_back_all() {
    const std::uint32_t first = state_.first_deferred.get();
    for (std::uint32_t n = state_.deferred.get(); n != 0; n--) give_back(slot(first + n - 1).get());
    state_.deferred.set(0);
    state_.first_deferred.set(0);
    state_.last.set(0);
  }

  std::uint32_t size(index b) { return at(b).size.get() / unit; }

 private:
  header& at(index b) { return memory_.at(b); }
  word& slot(std::uint32_t i) { return state_.freed[i % state::most_deferred]; }

  /// Takes a free chunk of at least n units out of the tree or from the top.
  index take(std::uint32_t n) {
    index found = 0, seen = 0;
    for (index b = state_.root.get(); b != 0;) {
      memory_.visit(b);
      seen = b;
      const std::uint32_t here = size(b);
      if (here >= n) found = b;  // smaller than all chunks found before
      b = (here >= n ? at(b).left : at(b).right).get();
    }
    if (found != 0) {
      remove(found);
      return found;
    }
    if (seen != 0) splay(seen);
    const index top = state_.top.get();
    const std::uint32_t have = top != 0 ? size(top) : 0;
    return have >= n ? top : grow(n, have);
  }

  /// Extends the top chunk, which has `have` units, to at least n units.
  index grow(std::uint32_t n, std::uint32_t have) {
    const index end = state_.end.get(), top = have != 0 ? state_.top.get() : end;
    const std::uint32_t more = (n - have + growth - 1) / growth * growth;
    if (capacity_ < more || end - 1 > capacity_ - more) throw std::length_error("splay heap: it is full");
    memory_.visit(end + more);
    at(end + more).size.set(busy);
    at(top).size.set((have + more) * unit);
    state_.top.set(top);
    state_.end.set(end + more);
    return top;
  }

  /// Marks n units of a chunk as a block in use, and gives the rest back.
  void split(index b, std::uint32_t n) {
    const std::uint32_t all = size(b), flags = at(b).size.get() & before_free;
    at(b).size.set(n * unit | flags | busy);
    if (all > n) {
      memory_.visit(b + n);
      at(b + n).size.set((all - n) * unit | busy);
      give_back(b + n);
    } else if (state_.top.get() == b) {
      state_.top.set(0);
    }
  }

  void give_back(index b) {
    memory_.visit(b);
    const std::uint32_t flags = at(b).size.get();
    std::uint32_t units = flags / unit;
    const index after = b + units;
    memory_.visit(after);
    if ((at(after).size.get() & busy) == 0) {
      units += size(after);
      if (after != state_.top.get()) remove(after);
    }
    if ((flags & before_free) != 0) {
      memory_.visit_end(b);
      const std::uint32_t more = at(b).before.get();
      b -= more;
      units += more;
      memory_.visit(b);
      remove(b);
    }
    at(b).size.set(units * unit);
    const index next = b + units;
    if (next == state_.end.get())
      state_.top.set(b);
    else
      insert(b, units);
    memory_.visit(next);
    memory_.visit_end(next);
    at(next).before.set(units);
    at(next).size.set(at(next).size.get() | before_free);
  }

  // ---- the tree ----

  void set_parent(index b, index parent) {
    if (b == 0) return;
    memory_.visit(b);
    at(b).parent.set(parent);
  }

  /// Makes `b` the child of `parent` in place of `old`, or the root if `parent` is 0.
  void hang(index parent, index old, index b) {
    if (parent == 0)
      state_.root.set(b);
    else
      (at(parent).left.get() == old ? at(parent).left : at(parent).right).set(b);
  }

  void insert(index b, std::uint32_t units) {
    header& mine = at(b);
    index parent = 0, here = state_.root.get();
    while (here != 0) {
      memory_.visit(here);
      const std::uint32_t other = size(here);
      if (other == units) return insert_before(b, here);
      parent = std::exchange(here, (other > units ? at(here).left : at(here).right).get());
    }
    mine.parent.set(parent);
    mine.left.set(0);
    mine.right.set(0);
    mine.next.set(0);
    if (parent == 0)
      state_.root.set(b);
    else
      (size(parent) > units ? at(parent).left : at(parent).right).set(b);
  }

  /// Makes a chunk the first one of a list, in place of `first`.
  void insert_before(index b, index first) {
    replace(first, b);
    at(b).next.set(first);
    at(first).parent.set(b);
    at(first).left.set(in_list);
  }

  /// Puts `b` into the place of `old` in the tree.
  void replace(index old, index b) {
    const index parent = at(old).parent.get(), left = at(old).left.get(), right = at(old).right.get();
    at(b).parent.set(parent);
    at(b).left.set(left);
    at(b).right.set(right);
    hang(parent, old, b);
    set_parent(left, b);
    set_parent(right, b);
  }

  void remove(index b) {
    const index next = at(b).next.get();
    if (at(b).left.get() == in_list) {
      const index previous = at(b).parent.get();
      memory_.visit(previous);
      at(previous).next.set(next);
      set_parent(next, previous);
      return;
    }
    splay(b);
    if (next != 0) {
      memory_.visit(next);
      return replace(b, next);
    }
    const index left = at(b).left.get(), right = at(b).right.get();
    set_parent(left, 0);
    set_parent(right, 0);
    state_.root.set(left != 0 ? left : right);
    if (left == 0 || right == 0) return;
    // The largest chunk of the left tree becomes the root of both trees.
    index largest = left;
    for (index r = at(left).right.get(); r != 0; r = at(r).right.get()) {
      memory_.visit(r);
      largest = r;
    }
    splay(largest);
    at(largest).right.set(right);
    at(right).parent.set(largest);
  }

  void splay(index b) {
    for (index parent; (parent = at(b).parent.get()) != 0; rotate_up(b)) {
      memory_.visit(parent);
      const index above = at(parent).parent.get();
      if (above == 0) continue;
      memory_.visit(above);
      if ((at(parent).left.get() == b) == (at(above).left.get() == parent)) rotate_up(parent);
    }
  }

  /// Rotates a chunk and its parent.
  void rotate_up(index b) {
    const index parent = at(b).parent.get(), above = at(parent).parent.get();
    const bool is_left = at(parent).left.get() == b;
    word& inner = is_left ? at(b).right : at(b).left;
    const index moved = inner.get();
    (is_left ? at(parent).left : at(parent).right).set(moved);
    set_parent(moved, parent);
    inner.set(parent);
    at(parent).parent.set(b);
    at(b).parent.set(above);
    hang(above, parent, b);
  }

  state& state_;
  memory& memory_;
  std::uint32_t capacity_;
};

}  // namespace usher::workloads
