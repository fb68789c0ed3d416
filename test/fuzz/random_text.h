// What the generators of programs share: choices, and lines of text.
#pragma once
#include <fmt/format.h>

#include <random>
#include <string>
#include <vector>

namespace tl::fuzz {

struct RandomText {
  std::mt19937_64 random;
  std::vector<std::string> lines = {};
  int indent = 0;

  int64_t below(int64_t n) { return int64_t(random() % uint64_t(n)); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T>
  T pick(std::initializer_list<T> list) {
    return list.begin()[below(int64_t(list.size()))];
  }
  template <class... A>
  void line(fmt::format_string<A...> format, A&&... args) {
    lines.push_back(std::string(size_t(indent) * 2, ' ') + fmt::format(format, std::forward<A>(args)...));
  }
  std::string text() const {
    std::string out;
    for (auto& l : lines) out += l + "\n";
    return out;
  }
};

}  // namespace tl::fuzz
