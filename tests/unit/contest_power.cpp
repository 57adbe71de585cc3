// The statistical power of `usher try`: simulated trials of locks that are no better than the C library's, and of one
// lock that is. Prints one JSON object per line for lab/cases/try_power.py.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "simulated_trials.hpp"

namespace {

using simulated::machine_noise;
using usher::tool::contest;

constexpr std::size_t candidates = 4;  // in trials with a faster lock

struct tally {
  int right = 0, wrong = 0;
  double rounds = 0, runs = 0;  ///< rounds before the choice, in trials with the right winner; runs in all trials
};

/// Runs `trials` trials and counts their results. `best` is the number of the candidate that should win; if no
/// candidate should win, it is a number that no candidate has.
tally count(const std::vector<double>& gains, std::size_t best, std::size_t budget, machine_noise& machine,
            int trials) {
  const contest fresh(gains.size());
  simulated::random_bits bits(gains.size() * 1000 + budget);
  tally t;
  for (int i = 0; i < trials; ++i) {
    const auto end = simulated::run_trial(fresh, gains, budget, machine, bits);
    const auto winner = end.contest.winner();
    t.runs += static_cast<double>(end.runs) / static_cast<double>(gains.size() + 1) / trials;
    if (!winner) continue;
    (*winner == best ? t.right : t.wrong) += 1;
    if (*winner == best) t.rounds += static_cast<double>(end.rounds_before_choice);
  }
  if (t.right > 0) t.rounds /= t.right;
  return t;
}

void null_trials(int trials) {
  for (const auto& kind : simulated::kinds_of_noise())
    for (const std::size_t n : {1, 4, 10})
      for (const std::size_t budget : {8, 12, 30}) {
        const auto machine = kind.make();
        const tally t = count(std::vector<double>(n, 1.0), n, budget, *machine, trials);
        std::printf(
            R"({"what": "null", "noise": "%s", "candidates": %zu, "budget": %zu, "trials": %d, "false": %d, "rounds": %.3g})"
            "\n",
            kind.meaning, n, budget, trials, t.wrong, t.runs);
      }
}

void null_trials_in_step(int trials) {
  for (const std::size_t n : {1, 4, 10})
    for (const std::size_t budget : {12, 30})
      for (std::size_t period = 2; period <= 12; ++period) {
        simulated::periodic machine(0.01, period);
        const tally t = count(std::vector<double>(n, 1.0), n, budget, machine, trials);
        std::printf(R"({"what": "in step", "period": %zu, "candidates": %zu, "budget": %zu, "trials": %d, "false": %d})"
                    "\n",
                    period, n, budget, trials, t.wrong);
      }
}

/// `others`: the speed of the three other candidates.
void power(const std::string& noise, machine_noise& machine, double others, int trials) {
  for (const std::size_t budget : {8, 12, 20, 40})
    for (const double gain : {1.02, 1.03, 1.05, 1.07, 1.1, 1.15, 1.2, 1.3, 1.5, 2.0}) {
      std::vector<double> gains(candidates, others);
      gains[1] = gain;
      const tally t = count(gains, 1, budget, machine, trials);
      std::printf(
          R"({"what": "power", "noise": "%s", "others": %g, "budget": %zu, "gain": %g, "trials": %d, "found": %d, )"
          R"("wrong": %d, "decided_after": %.3g, "rounds": %.3g})"
          "\n",
          noise.c_str(), others, budget, gain, trials, t.right, t.wrong, t.rounds, t.runs);
    }
}

}  // namespace

int main(int argc, char** argv) {
  const int null = argc > 1 ? std::atoi(argv[1]) : 10000, with_gain = argc > 2 ? std::atoi(argv[2]) : 2000;
  null_trials(null);
  null_trials_in_step(null);
  for (const double others : {1.0, 0.7}) {
    for (const double noise : {0.01, 0.03, 0.1}) {
      simulated::gaussian machine(noise);
      power(std::to_string(static_cast<int>(noise * 100 + 0.5)) + " %", machine, others, with_gain);
    }
    simulated::recorded machine(USHER_RECORDED_RUNS);
    power("recorded", machine, others, with_gain);
  }
  return 0;
}
