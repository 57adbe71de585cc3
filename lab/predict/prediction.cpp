#include "lab/predict/prediction.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "lab/predict/replay.hpp"
#include "lab/sim/run_program.hpp"
#include "support/measure/metrics.hpp"

namespace usher::predict {
namespace {

workloads::description about_replay() {
  return {
      .name = "replay", .summary = "a recorded program", .source = "usher record", .parameters = {}, .one_lock = false};
}

moved_lines moved(const lines_option& o) {
  moved_lines m;
  m.most = o.most;
  if (o.fixed >= 0) m.fixed = unsigned(o.fixed);
  return m;
}

}  // namespace

double lines_under(const slot& s, const lines_option& o) {
  return lines_of(s, moved(o));
}

std::uint64_t usual_prediction_ns(const sim::machine& m, const replay_plan& p, const plan_changes& changes,
                                  const sim::point& point) {
  // Chosen, not measured.
  constexpr double least_ns = 1e7, most_ns = 2e10, operations_a_thread = 25, operations = 5000, slices = 8;
  double each = 0, together = 0;  // mean ns between two operations: of the slowest role's thread; of all threads
  const std::vector<unsigned> threads = threads_of_roles(p, changes, point.threads);
  double rate = 0;
  for (std::size_t r = 0; r < p.roles.size(); r++) {
    if (threads[r] == 0 || p.roles[r].operations == 0) continue;
    const double mean = static_cast<double>(p.roles[r].time) / static_cast<double>(p.roles[r].operations);
    each = std::max(each, mean);
    rate += threads[r] / std::max(mean, 1.0);
  }
  if (rate > 0) together = 1 / rate;
  // If one slot's critical sections limit the throughput, operations of all threads are farther apart.
  std::uint64_t all = 0;
  for (const role& r : p.roles) all += r.operations;
  for (const slot& s : p.slots) {
    const double demand = static_cast<double>(s.section_ns) / static_cast<double>(all) / double(s.objects.size());
    together = std::max(together, demand);
  }
  double ns = std::max(
      {least_ns, operations_a_thread * each, operations * together, operations_a_thread * together * point.threads});
  if (m.os && point.threads > m.cpus())
    ns = std::max(ns, slices * point.threads / m.cpus() * static_cast<double>(m.to_ns(m.os->slice)));
  return std::uint64_t(std::min(ns, most_ns));
}

void check_prediction(const sim::machine& m, const replay_plan& p, const plan_changes& changes,
                      const sim::point& point) {
  sim::check_point(m, point, about_replay());
  threads_of_roles(p, changes, point.threads);
  if (!m.os && p.sleeps)
    throw bad_recording(m.file_or_name() + " has no section [scheduler], and threads of the recording sleep");
}

prediction predict_point(const sim::machine& m, const replay_plan& p, const plan_changes& changes,
                         const sim::point& point, const lines_option& lines) {
  check_prediction(m, p, changes, point);
  const sim::simulated_lock* const lock = sim::find_simulated_lock(point.lock);  // check_prediction() has found it
  std::unique_ptr<replay> it;
  sim::cycles end = 0;
  const workloads::compiled_program<sim::world> program{
      about_replay(),
      [&](sim::world& w) -> std::function<void(sim::world::thread&)> {
        it = std::make_unique<replay>(w, p, threads_of_roles(p, changes, point.threads), *lock, moved(lines));
        end = w.end();
        return [&it](sim::world::thread& t) { it->run(t); };
      },
      nullptr};
  sim::point as_program = point;
  as_program.parameters.clear();
  prediction made;
  made.run = sim::run_program(m, as_program, program);

  const double run_ns = static_cast<double>(point.run_ns), all_ns = run_ns * point.threads;
  std::uint64_t operations = 0;
  for (const std::uint64_t n : made.run.operations) operations += n;
  made.operations_per_second = static_cast<double>(operations) / run_ns * 1e9;
  std::vector<lock_use> uses = it->uses(end);
  sim::cycles waits = 0, longest = 0;
  for (const lock_use& u : uses) {
    waits += u.waits;
    longest = std::max(longest, u.longest);
  }
  made.waiting_share = static_cast<double>(m.to_ns(waits)) / all_ns;
  made.token_share = static_cast<double>(m.to_ns(it->waited_for_tokens())) / all_ns;
  made.longest_wait = m.to_ns(longest);
  made.not_acquired = it->not_acquired();
  made.stalls = it->stalls();
  std::stable_sort(uses.begin(), uses.end(), [](const lock_use& a, const lock_use& b) { return a.wanted > b.wanted; });
  if (!uses.empty()) made.working_set = support::working_set(uses.front().history);
  for (std::size_t i = 0; i < std::min(uses.size(), prediction::most_locks); i++) {
    const lock_use& u = uses[i];
    if (u.operations == 0 && u.wanted == 0) break;
    made.locks.push_back({u.object, u.part, u.operations, static_cast<double>(m.to_ns(u.held)) / run_ns,
                          static_cast<double>(m.to_ns(u.wanted)) / run_ns});
  }
  return made;
}

}  // namespace usher::predict
