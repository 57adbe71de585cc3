#include "watch/reader/compare/matching.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace usher::reader {
namespace {

constexpr double much_overlap = 0.5;
/// The number of objects with one key, and of those without a partner, for which all pairs are looked at. Chosen: a file
/// may have thousands of them.
constexpr std::size_t most_paired = 64, most_left = 256;

using key = std::pair<kind, std::string>;

/// An object of the run or a subject, with its position among those of the same key.
struct candidate {
  std::uint64_t position;
  std::size_t index;
  auto operator<=>(const candidate&) const = default;
};
using candidates = std::vector<candidate>;

template <class Take>
void pair_in_order(const candidates& subjects, const candidates& objects, Take take) {
  for (std::size_t i = 0; i < std::min(subjects.size(), objects.size()); i++) take(subjects[i].index, objects[i].index);
}

/// One side has more than the other: the nearest become pairs first.
template <class Take>
void pair_nearest(const candidates& subjects, const candidates& objects, Take take) {
  std::vector<std::tuple<std::uint64_t, std::size_t, std::size_t>> distances;
  for (std::size_t s = 0; s < subjects.size(); s++)
    for (std::size_t o = 0; o < objects.size(); o++) {
      const auto [low, high] = std::minmax(subjects[s].position, objects[o].position);
      distances.emplace_back(high - low, s, o);
    }
  std::sort(distances.begin(), distances.end());
  std::vector<bool> has_object(subjects.size()), has_subject(objects.size());
  for (const auto& [distance, s, o] : distances) {
    if (has_object[s] || has_subject[o]) continue;
    has_object[s] = has_subject[o] = true;
    take(subjects[s].index, objects[o].index);
  }
}

class matcher {
 public:
  explicit matcher(std::size_t runs) : runs_(runs) {}

  void add(const compared_run& run, std::size_t number) {
    number_ = number;
    run_ = &run;
    is_taken_.assign(run.objects.size(), false);
    match_places();
    match_code();
    for (std::size_t i = 0; i < run.objects.size(); i++) {
      if (is_taken_[i]) continue;
      all_.push_back({std::vector<const compared_object*>(runs_)});
      all_.back().in[number] = &run.objects[i];
    }
  }
  std::vector<subject> take() { return std::move(all_); }

 private:
  bool is_free(std::size_t subject) const { return all_[subject].in[number_] == nullptr; }
  void put(std::size_t subject, std::size_t object) {
    all_[subject].in[number_] = &run_->objects[object];
    is_taken_[object] = true;
  }

  void match_places() {
    std::map<key, std::pair<candidates, candidates>> by_key;
    for (std::size_t i = 0; i < all_.size(); i++) {
      const compared_object& o = all_[i].latest();
      if (!o.place.key.empty()) by_key[{o.what, o.place.key}].first.push_back({o.place.position, i});
    }
    for (std::size_t i = 0; i < run_->objects.size(); i++) {
      const compared_object& o = run_->objects[i];
      if (!o.place.key.empty()) by_key[{o.what, o.place.key}].second.push_back({o.place.position, i});
    }
    const auto take = [this](std::size_t subject, std::size_t object) { put(subject, object); };
    for (auto& [k, sides] : by_key) {
      auto& [subjects, objects] = sides;
      std::sort(subjects.begin(), subjects.end());
      std::sort(objects.begin(), objects.end());
      if (subjects.size() == objects.size() || std::max(subjects.size(), objects.size()) > most_paired)
        pair_in_order(subjects, objects, take);
      else
        pair_nearest(subjects, objects, take);
    }
  }

  /// An object is named by its first lock call, which may be another one in the next run.
  void match_code() {
    std::vector<std::size_t> subjects, objects;
    for (std::size_t i = 0; i < all_.size() && subjects.size() < most_left; i++)
      if (is_free(i) && !all_[i].latest().code.empty()) subjects.push_back(i);
    for (std::size_t i = 0; i < is_taken_.size() && objects.size() < most_left; i++)
      if (!is_taken_[i] && !run_->objects[i].code.empty()) objects.push_back(i);
    std::vector<std::tuple<double, std::size_t, std::size_t>> overlaps;
    for (const std::size_t s : subjects)
      for (const std::size_t o : objects)
        if (const double part = overlap(all_[s].latest(), run_->objects[o]); part >= much_overlap)
          overlaps.emplace_back(-part, s, o);
    std::sort(overlaps.begin(), overlaps.end());
    for (const auto& [part, s, o] : overlaps)
      if (is_free(s) && !is_taken_[o]) put(s, o);
  }

  std::size_t runs_, number_ = 0;
  const compared_run* run_ = nullptr;
  std::vector<bool> is_taken_;  ///< of the run's objects
  std::vector<subject> all_;
};

}  // namespace

const compared_object& subject::latest() const {
  return **std::find_if(in.rbegin(), in.rend(), [](const compared_object* o) { return o != nullptr; });
}

double overlap(const compared_object& a, const compared_object& b) {
  if (a.what != b.what || a.is_static || b.is_static) return 0;
  double common = 0;
  for (const auto& [function, share] : a.code)
    if (const auto at = b.code.find(function); at != b.code.end()) common += std::min(share, at->second);
  return common;
}

std::vector<subject> match(std::span<const compared_run> runs) {
  matcher m(runs.size());
  for (std::size_t i = 0; i < runs.size(); i++) m.add(runs[i], i);
  return m.take();
}

}  // namespace usher::reader
