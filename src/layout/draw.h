// Layouts as pictures: a grid of the tile, each cell saying where its element is. A Drawing is data; it is
// printed as text for a terminal or as SVG, or its cells are drawn by the caller.
#pragma once
#include "layout/fragment.h"

namespace tl {

struct Drawing {
  struct Cell {
    std::string text;
    std::string colour;  // "#rrggbb"
  };
  std::string title;                   // the map
  std::vector<std::string> rows = {};  // names: the leading indices; empty for a tile of one dimension
  int64_t columns = 0;
  std::vector<Cell> cells = {};  // row by row; the last row of a one-dimensional tile may be short
};

// Each element's place, coloured by the bank of shared memory that it falls into if its size in `bits` is
// given, else in rounds of 32 places.
Drawing draw(const Layout& l, int bits = 0);
// Each element as thread:register, coloured by thread; of replicas all that fit.
Drawing draw(const Fragment& f);

// At most so many rows and columns; what is left out is said.
std::string to_text(const Drawing& d, int64_t rows = 64, int64_t columns = 64);
std::string to_svg(const Drawing& d);

}  // namespace tl
