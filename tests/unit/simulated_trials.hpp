// Trials like those of `usher try`, with programs of known speed, on machines with synthetic or recorded noise.
#pragma once

#include <algorithm>
#include <cmath>
#include <fstream>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tool/trial/contest.hpp"

namespace simulated {

using random_bits = std::mt19937_64;

/// The noise of a machine: next() returns the number that is added to the logarithm of the next run's time.
class machine_noise {
 public:
  machine_noise() = default;
  machine_noise(const machine_noise&) = delete;
  machine_noise& operator=(const machine_noise&) = delete;
  virtual ~machine_noise() = default;
  /// Called before each trial.
  virtual void restart(random_bits&) {}
  virtual double next(random_bits& bits) = 0;
};

class gaussian final : public machine_noise {
 public:
  explicit gaussian(double deviation) : normal_(0, deviation) {}
  double next(random_bits& bits) override { return normal_(bits); }

 private:
  std::normal_distribution<double> normal_;
};

/// Student's distribution: with 2 degrees of freedom it has no variance, with 1 (Cauchy's) no mean.
class heavy_tailed final : public machine_noise {
 public:
  heavy_tailed(double degrees, double scale) : student_(degrees), scale_(scale) {}
  // The noise is limited, because no run takes no time or lasts for ever.
  double next(random_bits& bits) override { return std::clamp(scale_ * student_(bits), -20.0, 20.0); }

 private:
  std::student_t_distribution<double> student_;
  double scale_;
};

/// A machine that becomes slower or faster from run to run.
class linear_drift final : public machine_noise {
 public:
  linear_drift(double deviation, double slope) : normal_(0, deviation), slope_(slope) {}
  void restart(random_bits& bits) override { place_ = bits() % 2 == 0 ? slope_ : -slope_, run_ = 0; }
  double next(random_bits& bits) override { return normal_(bits) + place_ * static_cast<double>(run_++); }

 private:
  std::normal_distribution<double> normal_;
  double slope_, place_ = 0;
  std::size_t run_ = 0;
};

/// A machine whose speed drifts because of its clock, temperature or neighbours.
class random_walk final : public machine_noise {
 public:
  random_walk(double deviation, double step) : normal_(0, deviation), step_(0, step) {}
  void restart(random_bits&) override { place_ = 0; }
  double next(random_bits& bits) override { return normal_(bits) + (place_ += step_(bits)); }

 private:
  std::normal_distribution<double> normal_, step_;
  double place_ = 0;
};

/// A machine on which one run in every period takes a third longer; the period may coincide with the order of the runs.
class periodic final : public machine_noise {
 public:
  periodic(double deviation, std::size_t period) : normal_(0, deviation), period_(period) {}
  void restart(random_bits& bits) override { run_ = bits() % period_; }
  double next(random_bits& bits) override { return normal_(bits) + (run_++ % period_ == 0 ? 0.3 : 0); }

 private:
  std::normal_distribution<double> normal_;
  std::size_t period_, run_ = 0;
};

/// Noise from recorded runs. It consists of blocks of consecutive runs, so that the correlation of successive runs is
/// kept. A block begins at a random run of a series and ends with the series.
class recorded final : public machine_noise {
 public:
  /// Each line is a series: a name and the run times in the order of the runs.
  explicit recorded(const std::string& file) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
      if (line.empty() || line.front() == '#') continue;
      std::istringstream words(line);
      std::string name;
      words >> name;
      std::vector<double> series;
      for (double v = 0; words >> v;) series.push_back(std::log(v));
      const double level = usher::support::median(series);
      for (double& v : series) v -= level;
      series_.push_back(std::move(series));
    }
    if (series_.empty()) throw std::runtime_error("no recorded runs in " + file);
  }
  void restart(random_bits&) override { at_ = end_ = 0; }
  double next(random_bits& bits) override {
    if (at_ == end_) {
      block_ = &series_[bits() % series_.size()];
      at_ = bits() % block_->size();
      end_ = block_->size();
    }
    return (*block_)[at_++];
  }

 private:
  std::vector<std::vector<double>> series_;
  const std::vector<double>* block_ = nullptr;
  std::size_t at_ = 0, end_ = 0;
};

struct kind_of_noise {
  const char* name;
  const char* meaning;
  std::unique_ptr<machine_noise> (*make)();
};

/// Prints the kind in GoogleTest's messages.
inline void PrintTo(const kind_of_noise& kind, std::ostream* out) {
  *out << kind.name;
}

/// The kinds of noise under which only a few trials of equal locks may have a winner.
inline const std::vector<kind_of_noise>& kinds_of_noise() {
  using made = std::unique_ptr<machine_noise>;
  static const std::vector<kind_of_noise> all = {
      {"gaussian", "Gaussian, 3 %", [] { return made(new gaussian(0.03)); }},
      {"student", "Student's with 2 degrees of freedom, 3 %", [] { return made(new heavy_tailed(2, 0.03)); }},
      {"cauchy", "Cauchy's, 3 %", [] { return made(new heavy_tailed(1, 0.03)); }},
      {"drift", "Gaussian, 3 %, and each run 1 % slower, or faster, than the last",
       [] { return made(new linear_drift(0.03, 0.01)); }},
      {"walk", "Gaussian, 1 %, and a random walk of 3 % a run", [] { return made(new random_walk(0.01, 0.03)); }},
      {"recorded", "recorded", [] { return made(new recorded(USHER_RECORDED_RUNS)); }},
  };
  return all;
}

/// The outcome of a trial.
struct trial_end {
  usher::tool::contest contest;
  std::size_t rounds = 0, runs = 0;
  std::size_t rounds_before_choice = 0;
  double middle_at_choice = std::nan("");  ///< of the chosen candidate, over the rounds of the choice
};

/// Simulates a trial of candidates whose speeds relative to the reference are `gains`. The budget is given in rounds of
/// all candidates. `fresh` is a contest of the same number of candidates, before its first round.
inline trial_end run_trial(const usher::tool::contest& fresh, const std::vector<double>& gains, std::size_t budget,
                           machine_noise& machine, random_bits& bits) {
  trial_end t{fresh};
  machine.restart(bits);
  std::size_t runs_left = budget * (gains.size() + 1), running = gains.size();
  std::vector<double> speeds(gains.size() + 1);
  std::vector<std::optional<double>> speed_ups(gains.size());
  for (;; ++t.rounds) {
    const auto now = t.contest.next(static_cast<double>(runs_left) / static_cast<double>(running + 1));
    if (now.empty()) return t;
    if (t.contest.of(now.front()) == usher::tool::standing::chosen && t.contest.rounds_after_choice() == 0)
      t.middle_at_choice = t.contest.middle(now.front());
    running = now.size();
    for (const std::size_t place : usher::tool::random_order(running + 1, bits))
      speeds[place] = (place == 0 ? 1 : gains[now[place - 1]]) * std::exp(-machine.next(bits));
    std::fill(speed_ups.begin(), speed_ups.end(), std::nullopt);
    for (std::size_t i = 0; i < running; ++i) speed_ups[now[i]] = speeds[i + 1] / speeds[0];
    t.contest.add(speed_ups);
    t.rounds_before_choice = t.rounds + 1 - t.contest.rounds_after_choice();
    runs_left -= running + 1;
    t.runs += running + 1;
  }
}

}  // namespace simulated
