#include "lab/sweep/point_trace.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <stdexcept>

namespace usher::lab {

void add_trace_options(CLI::App& to, trace_options& o) {
  auto* trace = to.add_option("--trace", o.us, "Show the first microseconds of one point, step by step")
                    ->type_name("US")
                    ->check(CLI::Range(0.001, 1e5));
  to.add_option("--seed", o.seed, "With --trace: which run (default: 1)")
      ->type_name("N")
      ->check(CLI::Range(1u, 1u << 31))
      ->needs(trace);
  for (const char* other : {"--json", "--csv", "--chart", "--details", "--merge", "--list-points", "--point", "--seeds",
                            "--jobs", "--timeout"})
    trace->excludes(to.get_option(other));
}

int show_trace(const sim::machine& m, std::vector<sim::point> points, const trace_options& o) {
  if (points.size() != 1)
    throw std::runtime_error("--trace shows one lock with one number of threads: choose them by --locks and --threads");
  sim::point& p = points.front();
  p.seed = o.seed;
  const double most = static_cast<double>(p.run_ns) / 1000;
  if (o.us > most) throw std::runtime_error(fmt::format("--trace: only {:g} µs are measured, see --ms", most));
  sim::trace t(static_cast<std::uint64_t>(std::llround(o.us * 1000)));
  sim::run_point(m, p, &t);

  const auto ns = [&m](sim::cycles c) { return static_cast<double>(c) * 1000 / m.mhz; };
  fmt::print("{}, {}, {} threads, seed {}, on {}: {:g} µs, {:.1f} µs after the threads began\n\n", p.workload, p.lock,
             p.threads, p.seed, m.name, o.us, ns(t.begin()) / 1000);
  for (std::size_t i = 0; i < t.at_first().size(); i++)
    fmt::print("{:>10}  T{:<4} {}\n", i == 0 ? "before" : "", i, t.at_first()[i]);
  for (const sim::trace::entry& e : t.entries())
    fmt::print("{:>10.1f}  T{:<4} {}\n", ns(e.time - t.begin()), e.thread, e.text(m));
  return 0;
}

}  // namespace usher::lab
