#include "lab/sim/engine.hpp"

#include <algorithm>
#include <boost/context/fixedsize_stack.hpp>
#include <utility>

namespace usher::sim {
namespace {

constexpr std::size_t stack_bytes = 64 << 10;

}  // namespace

simulated_thread& engine::add_thread(std::function<void()> body) {
  threads_.push_back(std::make_unique<simulated_thread>(threads(), random_.bits()));
  simulated_thread& t = *threads_.back();
  t.body = std::move(body);
  t.context = fiber(std::allocator_arg, boost::context::fixedsize_stack(stack_bytes), [this, &t](fiber&&) {
    try {
      t.body();
    } catch (const boost::context::detail::forced_unwind&) {
      throw;
    } catch (...) {
      failure_ = std::current_exception();
      return std::move(main_);
    }
    return end_of_thread();
  });
  living_++;
  return t;
}

void engine::at(cycles time, std::function<void()> call) {
  events_.push({time, 0, 0, std::uint32_t(calls_.size()), event_kind::call});
  calls_.push_back(std::move(call));
}

void engine::run() {
  if (simulated_thread* const first = next()) {
    me_ = first;
    std::move(first->context).resume_with([this](fiber&& f) {
      main_ = std::move(f);
      return fiber{};
    });
  }
  me_ = nullptr;
  if (failure_) std::rethrow_exception(failure_);
}

/// More interruptions in succession than this mean a deadlock: no wake-up and no store takes that long.
constexpr unsigned most_interruptions = 10000;

/// Executes this event and further ones until one of them resumes a thread. Returns that thread, or null if no event is
/// left.
simulated_thread* engine::next(event e) {
  do {
    counts_.events++;
    switch (e.kind) {
      case event_kind::call:
        calls_[e.of]();
        continue;
      case event_kind::slice:
        break;
      case event_kind::tick:
      case event_kind::daemon:
      case event_kind::clock:
        if (++interruptions_ > most_interruptions && handler_.is_stuck()) return nullptr;
        break;
      case event_kind::commit:
        interruptions_ = 0;
        break;
      default:
        simulated_thread& t = *threads_[e.of];
        if (e.epoch != t.epoch) continue;
        if (e.kind != event_kind::poll) interruptions_ = 0;
        if (e.kind == event_kind::resume) {
          t.epoch++;
          t.now = std::max(t.now, e.time);
          return &t;
        }
    }
    handler_.happens(e);
  } while (events_.pop(e));
  return nullptr;
}

void engine::give_way_to(simulated_thread* after) {
  simulated_thread* const before = me_;
  if (after == before) return;
  counts_.fiber_switches++;
  const auto save = [before](fiber&& f) {
    before->context = std::move(f);
    return fiber{};
  };
  if (after == nullptr) {
    failure_ = std::make_exception_ptr(deadlock(handler_.what_is_waited_for()));
    std::move(main_).resume_with(save);
  } else {
    me_ = after;
    std::move(after->context).resume_with(save);
  }
}

engine::fiber engine::end_of_thread() {
  living_--;
  handler_.ended(*me_);
  simulated_thread* const after = next();
  if (after == nullptr) {
    if (living_ != 0) failure_ = std::make_exception_ptr(deadlock(handler_.what_is_waited_for()));
    return std::move(main_);
  }
  me_ = after;
  return std::move(after->context);
}

}  // namespace usher::sim
