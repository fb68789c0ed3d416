// The key of a call of an eager function: its values as words, and the names that the function reads from
// around itself.
#pragma once
#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "convert.h"

enum class Mark : uint64_t {
  none,
  truth,
  integer,
  large,
  real,
  text,
  dtype,
  tuple,
  list,
  dict,
  object,
  missing,
  cpu,
  gpu,
  number,
  bytes,
  set
};

class Words {
 public:
  void add(uint64_t word) {
    if (count < few)
      small[count] = word;
    else {
      if (count == few) large.assign(small, small + few);
      large.push_back(word);
    }
    count++;
  }
  void add(Mark mark) { add(uint64_t(mark)); }
  void add_bytes(const char* bytes, size_t size) {
    add(size);
    for (size_t i = 0; i < size; i += 8) {
      uint64_t word = 0;
      std::memcpy(&word, bytes + i, std::min<size_t>(8, size - i));
      add(word);
    }
  }
  void shorten(size_t to) {
    if (count > few && to <= few) std::copy(large.begin(), large.begin() + std::ptrdiff_t(to), small);
    large.resize(to > few ? to : 0);
    count = to;
  }
  std::span<const uint64_t> all() const { return {count > few ? large.data() : small, count}; }
  size_t size() const { return count; }
  uint64_t hash() const {
    uint64_t h = count;
    for (uint64_t word : all()) h = (h ^ word) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    return h;
  }

 private:
  static constexpr size_t few = 96;
  size_t count = 0;
  uint64_t small[few];
  std::vector<uint64_t> large;
};

// Values as words: equal exactly for equal values.  Numbers, texts, dtypes and containers of them count by
// value, what never changes by identity.  Of all other objects a rule in Python says what counts.
struct KeyWriter {
  Words& words;
  std::vector<nb::object>* kept;  // gets the objects that are known by identity; may be null
  // rule(object, place) -> its key, of tuples, frozensets, plain values and objects that count by identity;
  // null: such objects are a TypeError.  place: of the parameter whose value it is; -1: a part of one, or
  // captured.
  PyObject* rule;

  void argument(PyObject* o, int place);
  void captured(PyObject* o);  // functions count by identity: what they read is watched, too

 private:
  void whole(PyObject* o, int place, bool is_captured);
  void value(PyObject* o, int place, bool is_captured, int depth);
  void by_rule(PyObject* o, int place);
  void key(PyObject* o, int depth);
  bool plain(PyObject* o);  // false: nothing was written
  void identity(PyObject* o);
};

// A name that the function reads from around itself, with the attributes that it reads from what it finds.
struct Watch {
  nb::object holder, name;  // a dict and a name in it, or a cell
  std::vector<nb::object> attributes;

  // The end of the chain, or the object that was asked in vain; null: not bound.
  nb::object value() const;
};
