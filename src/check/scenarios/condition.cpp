// The clients of basic_condition_variable, used as a program would that embeds it: scenarios/queue.cpp says what takers,
// posters and victims are.
#include "check/checked_condition.hpp"
#include "check/explore.hpp"

namespace usher::check {
namespace {

struct client {
  const char* name;
  unsigned stray_wakes = 0;
  bool ends = false;  ///< notify_all(), and at once the end of its life
};

constexpr client clients[] = {
    {.name = "tokens"},
    {.name = "stray", .stray_wakes = 2},
    {.name = "all-end", .ends = true},
};

const checked_condition* the_condition;
const client* the_client;

/// Any lock, or a mutex of it to which notified threads are requeued.
class mutex {
 public:
  mutex(const lock_handle& l, bool requeues) : state(l.state), bare_(l), requeued_(l), requeues_(requeues) {}

  void lock() { requeues_ ? requeued_.lock() : bare_.lock(); }
  void unlock() { requeues_ ? requeued_.unlock() : bare_.unlock(); }
  void wait(void* condition) {
    requeues_ ? the_condition->wait_requeued(condition, requeued_) : the_condition->wait(condition, bare_);
  }
  bool wait_for(void* condition, unsigned looks) {
    return requeues_ ? the_condition->wait_requeued_for(condition, requeued_, looks)
                     : the_condition->wait_for(condition, bare_, looks);
  }

  bool is_idle() {
    auto& beside = requeued_.words_beside();
    return beside.requeued() == nullptr && timed_gate<checked>::is_idle(beside.timed.newest()) &&
           beside.owner_tag.newest() == 0;
  }

  void* const state;

 private:
  const lock_handle bare_;
  mutex_with_words requeued_;
  const bool requeues_;
};

template <rl::thread_id_t Threads>
struct suite : rl::test_suite<suite<Threads>, Threads> {
  enum role { poster, taker, victim };

  suite() {
    the_condition->make(condition(), append_chance(std::array{1.0, 0x1p-17, 0x1p-32}[rl::rand(3)]));
    lock.make(m.state);
    world.watch(0, {bytes.data(), the_condition->size, "the condition variable ends while another thread may touch it",
                    "the condition variable is touched after its end"});
    world.name(bytes.data(), the_condition->size, "condition");
    world.name(memory, "mutex");
    world.name(tokens, "tokens");
    world.name(to_post, "to_post");
    world.name(flag, "flag");
    unsigned takers = 0;
    for (unsigned t = 0; t < Threads; t++) {
      roles[t] = t == 0 ? poster : t == 1 ? taker : std::array{taker, taker, victim, victim, poster}[rl::rand(5)];
      takers += roles[t] == taker ? 1 : 0;
    }
    to_post.set(takers);
  }
  ~suite() {
    the_condition->end(condition());
    lock.end(m.state);
  }

  void thread(unsigned t) {
    if (the_client->ends)
      t == 0 ? finish() : attend();
    else if (roles[t] == poster)
      post();
    else if (roles[t] == taker)
      take();
    else
      visit();
  }

  void after() {
    world.watch_nothing();
    if (!the_client->ends && (tokens.get() != 0 || to_post.get() != 0)) wrong("a token is left");
    if (!the_condition->close(condition())) wrong("somebody is still in the list");
    if (!m.is_idle()) wrong("the mutex keeps somebody");
    if (!world.all_nodes_free()) fail("a node was not given back", rl::test_result_resource_leak, place::current());
  }

 private:
  void take() {
    m.lock();
    while (tokens.get() == 0) m.wait(condition());
    tokens.set(tokens.get() - 1);
    m.unlock();
  }

  void post() {
    for (;;) {
      m.lock();
      if (to_post.get() == 0) return m.unlock();
      to_post.set(to_post.get() - 1);
      tokens.set(tokens.get() + 1);
      notify_and_unlock(rl::rand(4) == 0);
    }
  }

  void visit() {
    m.lock();
    if (m.wait_for(condition(), rl::rand(2)))
      notify_and_unlock(rl::rand(4) == 0);
    else
      m.unlock();
  }

  void attend() {
    m.lock();
    if (!flag.get() && rl::rand(2) == 0) m.wait_for(condition(), rl::rand(2));
    while (!flag.get()) m.wait(condition());
    m.unlock();
  }

  void finish() {
    m.lock();
    flag.set(1);
    const bool under_mutex = rl::rand(2) == 0;
    if (!under_mutex) m.unlock();
    the_condition->notify_all(condition());
    if (!the_condition->close(condition())) wrong("close() says that threads wait, and all were notified");
    world.end_of(0);
    if (under_mutex) m.unlock();
  }

  void notify_and_unlock(bool all) {
    const bool under_mutex = rl::rand(2) == 0;
    if (!under_mutex) m.unlock();
    (all ? the_condition->notify_all : the_condition->notify_one)(condition());
    if (under_mutex) m.unlock();
  }

  void* condition() { return bytes.data(); }

  execution world{{.stray_wakes = the_client->stray_wakes}, Threads};
  alignas(64) std::array<std::byte, room_for_subject> bytes, memory;
  const checked_lock& lock = *mutexes()[rl::rand(unsigned(mutexes().size()))];
  mutex m{{&lock, memory.data()}, rl::rand(2) == 0};
  checked::plain<std::uint32_t> tokens, to_post, flag;
  std::array<role, Threads> roles;
};

}  // namespace

std::vector<subject> condition_subjects() {
  std::vector<subject> all;
  mutexes();  // before relacy has the allocator
  for (const checked_condition& v : checked_conditions()) {
    subject s{.name = v.name, .bug = v.bug, .header = "wait_queue.hpp", .size = v.size, .clients = {}, .explore = {}};
    for (const client& c : clients) s.clients.push_back(c.name);
    s.explore = [&v](unsigned c, unsigned threads, const options& o) {
      the_condition = &v;
      the_client = &clients[c];
      return explore<suite>(threads, o);
    };
    all.push_back(std::move(s));
  }
  return all;
}

}  // namespace usher::check
