#include "layout/draw.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "layout/algebra.h"
#include "layout/table.h"

namespace tl {
namespace {

constexpr int64_t most_cells = 1 << 16;
constexpr int64_t one_row = 32;  // columns of a one-dimensional tile

// Light colours, neighbours far apart: hues by the golden angle.
std::string colour(int64_t index) {
  double hue = std::fmod(double(index) * 137.508, 360.0) / 60, light = index % 2 ? 0.78 : 0.86;
  double chroma = (1 - light) * 1.3;
  auto channel = [&](double shift) {
    double x = std::fabs(std::fmod(hue + shift, 6.0) - 3) - 1;
    return int(std::lround(255 * (light + chroma * (std::clamp(x, 0.0, 1.0) - 0.5))));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", channel(0), channel(4), channel(2));
}

Drawing grid(std::string title, const std::vector<int64_t>& shape) {
  int64_t size = product(shape);
  if (size > most_cells)
    fail({}, "a tile of the extents {} has {} elements, too many to draw ({} at most): draw a part of it",
         tuple_text(shape), size, most_cells);
  Drawing d{.title = std::move(title), .columns = 0};
  if (shape.size() < 2) {
    d.columns = std::min(size, one_row);
    return d;
  }
  d.columns = shape.back();
  std::vector<int64_t> leading(shape.begin(), shape.end() - 1);
  for (int64_t r = 0; r < size / std::max<int64_t>(1, d.columns); r++)
    d.rows.push_back(fmt::format("{}", fmt::join(point_at(leading, r), ",")));
  return d;
}

// One cell's name for its holders: threads with one register between them, or each with its own.
std::string holders_text(const std::set<std::pair<int64_t, int64_t>>& pairs) {
  constexpr size_t shown = 4;
  bool same = true;
  std::string threads, each;
  size_t n = 0;
  for (auto& [thread, reg] : pairs) {
    same = same && reg == pairs.begin()->second;
    if (n++ >= shown) continue;
    threads += fmt::format("{}{}", n > 1 ? "," : "", thread);
    each += fmt::format("{}{}:{}", n > 1 ? " " : "", thread, reg);
  }
  std::string more = n > shown ? fmt::format("+{}", n - shown) : "";
  return same ? fmt::format("{}{}:{}", threads, more, pairs.begin()->second) : each + more;
}

size_t width_of(const std::string& text) {  // in characters
  return size_t(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string padded_left(const std::string& text, size_t width) {
  size_t w = width_of(text);
  return std::string(width > w ? width - w : 0, ' ') + text;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else
      out += c;
  }
  return out;
}

}  // namespace

Drawing draw(const Layout& l, int bits) {
  Drawing d = grid(to_string(l), l.extents);
  std::vector<int64_t> points = table(l), flat = table(flattened(l));
  size_t n = l.ranges.size();
  for (size_t p = 0; p < flat.size(); p++) {
    std::vector<int64_t> place(points.begin() + std::ptrdiff_t(p * n),
                               points.begin() + std::ptrdiff_t((p + 1) * n));
    int64_t round = bits ? flat[p] * bits / 32 : flat[p];
    d.cells.push_back({fmt::format("{}", fmt::join(place, ",")), colour(round % 32)});
  }
  return d;
}

Drawing draw(const Fragment& f) {
  Drawing d = grid(to_string(f), f.shape());
  std::vector<int64_t> points = table(f.layout);
  for (size_t p = 0; p < points.size();) {
    std::set<std::pair<int64_t, int64_t>> pairs;
    for (int64_t r = 0; r < f.replicas; r++, p += 2) pairs.insert({points[p], points[p + 1]});
    d.cells.push_back({holders_text(pairs), colour(pairs.begin()->first)});
  }
  return d;
}

std::string to_text(const Drawing& d, int64_t rows, int64_t columns) {
  int64_t count = int64_t(d.cells.size()), shown = std::min(d.columns, columns);
  int64_t lines = d.columns ? (count + d.columns - 1) / d.columns : 0, last = std::min(lines, rows);
  size_t name = 0, cell = std::to_string(std::max<int64_t>(0, shown - 1)).size();
  for (auto& r : d.rows) name = std::max(name, r.size());
  if (d.rows.empty()) name = std::to_string(count).size();
  for (int64_t r = 0; r < last; r++)
    for (int64_t c = 0; c < shown && r * d.columns + c < count; c++)
      cell = std::max(cell, width_of(d.cells[size_t(r * d.columns + c)].text));
  std::string out = d.title + "\n" + std::string(name + 1, ' ') + "|";
  for (int64_t c = 0; c < shown; c++) out += " " + padded_left(std::to_string(c), cell);
  out += "\n" + std::string(name + 1, '-') + "+" + std::string(size_t(shown) * (cell + 1), '-') + "\n";
  for (int64_t r = 0; r < last; r++) {
    out += padded_left(d.rows.empty() ? std::to_string(r * d.columns) : d.rows[size_t(r)], name) + " |";
    for (int64_t c = 0; c < shown && r * d.columns + c < count; c++)
      out += " " + padded_left(d.cells[size_t(r * d.columns + c)].text, cell);
    out += "\n";
  }
  if (shown < d.columns) out += fmt::format("… and {} more columns\n", d.columns - shown);
  if (last < lines) out += fmt::format("… and {} more rows\n", lines - last);
  return out;
}

std::string to_svg(const Drawing& d) {
  constexpr int64_t high = 20, top = 44;
  size_t widest = 3, name = 2;
  for (auto& c : d.cells) widest = std::max(widest, width_of(c.text));
  for (auto& r : d.rows) name = std::max(name, r.size());
  int64_t wide = int64_t(widest) * 7 + 8, left = int64_t(name) * 7 + 12;
  int64_t lines = d.columns ? (int64_t(d.cells.size()) + d.columns - 1) / d.columns : 0;
  int64_t width = std::max<int64_t>(left + d.columns * wide, 20 + 7 * int64_t(width_of(d.title))) + 8;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"monospace\" font-size=\"11\" text-anchor=\"middle\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"8\" y=\"16\" text-anchor=\"start\">{2}</text>\n",
      width, top + lines * high + 8, escaped(d.title));
  for (int64_t c = 0; c < d.columns; c++)
    out += fmt::format("<text x=\"{}\" y=\"{}\" fill=\"#666\">{}</text>\n", left + c * wide + wide / 2,
                       top - 6, c);
  for (int64_t r = 0; r < lines; r++)
    out +=
        fmt::format("<text x=\"{}\" y=\"{}\" fill=\"#666\" text-anchor=\"end\">{}</text>\n", left - 4,
                    top + r * high + 14, d.rows.empty() ? std::to_string(r * d.columns) : d.rows[size_t(r)]);
  for (size_t i = 0; i < d.cells.size(); i++) {
    int64_t x = left + int64_t(i) % d.columns * wide, y = top + int64_t(i) / d.columns * high;
    out += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\" stroke=\"#888\"/><text x=\"{}\" "
        "y=\"{}\">{}</text>\n",
        x, y, wide, high, d.cells[i].colour, x + wide / 2, y + 14, escaped(d.cells[i].text));
  }
  return out + "</svg>\n";
}

}  // namespace tl
