#include "watch/reader/name/naming.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "watch/reader/judge/stat_quantities.hpp"

namespace usher::reader {

bool namer::exists(std::uint32_t chain) const {
  if (chain >= record_.room().chains) return false;
  const contract::chain& c = record_.chain(chain);
  return c.ready.load(std::memory_order_acquire) != 0 && c.length <= contract::chain::longest && c.length > 0;
}

stack namer::whole(std::uint32_t chain) const {
  return exists(chain) ? names_.resolve(record_.chain(chain)) : stack{};
}

void namer::prepare(const std::vector<std::uint32_t>& objects) {
  std::vector<query> queries;
  for (const std::uint32_t i : objects) {
    const contract::object& o = record_.object(i);
    const std::uint64_t key = o.key.load(std::memory_order_relaxed);
    const std::uint32_t chain = o.place.load(std::memory_order_relaxed) - 1;
    if ((o.flags.load(std::memory_order_relaxed) & contract::is_static) != 0)
      queries.push_back({query::what::data, contract::process_of(key), contract::address_of(key)});
    else if (exists(chain))
      queries.push_back({query::what::code, record_.chain(chain).process, record_.chain(chain).pc[0]});
  }
  names_.prepare(queries);
}

std::optional<symbols::static_object> namer::static_object(const contract::object& o) {
  if ((o.flags.load(std::memory_order_relaxed) & contract::is_static) == 0) return std::nullopt;
  const std::uint64_t key = o.key.load(std::memory_order_relaxed);
  const std::uint32_t module = o.place.load(std::memory_order_relaxed);
  auto found = names_.object_at(contract::process_of(key), contract::word_of(key, module));
  if (found && found->symbol.empty() && found->module.empty()) return std::nullopt;
  return found;
}

std::string namer::static_name(const symbols::static_object& s) {
  if (s.symbol.empty()) return fmt::format("{}+{:#x}", support::file_name(s.module), s.module_offset);
  return s.offset == 0 ? short_name(s.symbol) : fmt::format("{}+{:#x}", short_name(s.symbol), s.offset);
}

identity namer::of_frame(const frame& f) {
  const std::string function = short_name(f.function), module(support::file_name(f.module));
  if (!f.function.empty() && !f.file.empty())
    return {fmt::format("{}\n{}:{}", f.function, f.file, f.line),
            fmt::format("{} {}:{}", function, support::file_name(f.file), f.line), f.module};
  if (f.module.empty()) return {};
  const std::string where = fmt::format("{}+{:#x}", module, f.offset);
  return {fmt::format("{}\n{}+{:#x}", f.function, f.module, f.offset),
          f.function.empty() ? where : fmt::format("{} {}", function, where), f.module};
}

/// Names the place of a call chain. Resolves frames from the innermost outwards to the first one in the program's own
/// code, so that the files of outer frames are not opened.
identity namer::identify(std::uint32_t chain) {
  if (!exists(chain)) return {"?", "unknown place", ""};
  const contract::chain& c = record_.chain(chain);
  frame found, first,
      main;  // stands for the next outer frame, which is assumed to be the program's
  main.address = 1;
  main.function = "main";
  main.module = "/program";
  for (std::uint32_t i = 0; i < c.length && found.address == 0; i++) {
    stack s = names_.resolve(c.process, c.pc[i]);
    if (first.address == 0 && !s.frames.empty()) first = s.frames.back();
    if (first.address == 0) first.address = contract::address_of(c.pc[i]);
    s.frames.push_back(main);
    const frame* const place = s.place();
    if (place == nullptr || place == &s.frames.back()) continue;
    found = *place;
    if (found.address == 0) found.address = contract::address_of(c.pc[i]);
  }
  const frame& f = found.address != 0 ? found : first;
  if (identity known = of_frame(f); !known.name.empty()) return known;
  return {fmt::format("{}\n{:#x}", c.process, f.address), hexadecimal(f.address), ""};
}

const identity& namer::place(std::uint32_t chain_and_one) {
  const auto at = places_.find(chain_and_one);
  if (at != places_.end()) return at->second;
  return places_
      .emplace(chain_and_one, chain_and_one == 0 ? identity{"?", "unknown place", ""} : identify(chain_and_one - 1))
      .first->second;
}

std::string namer::name(const contract::object& o) {
  if (const auto s = static_object(o)) return static_name(*s);
  const bool is_static = (o.flags.load(std::memory_order_relaxed) & contract::is_static) != 0;
  const std::uint32_t chain = is_static ? 0 : o.place.load(std::memory_order_relaxed);
  if (chain != 0 && exists(chain - 1)) return place(chain).name;
  return hexadecimal(contract::address_of(o.key.load(std::memory_order_relaxed)));
}

}  // namespace usher::reader
