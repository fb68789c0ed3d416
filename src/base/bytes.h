// A record as bytes, and back.  One function template names the fields of a type in order and serves both
// ways: `template <class Io> void fields(Io& io, T& value) { io(value.a, value.b); }`, found by its
// argument's type. The reader checks every length; after any fault it is not `ok` and the values mean
// nothing.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tl {

template <class T>
concept PlainNumber = std::is_arithmetic_v<T> || std::is_enum_v<T>;

struct ByteWriter {
  std::string bytes;

  template <class... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }

 private:
  template <PlainNumber T>
  void put(const T& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(const std::string& text) {
    put(uint64_t(text.size()));
    bytes += text;
  }
  template <class T>
  void put(const std::vector<T>& list) {
    put(uint64_t(list.size()));
    for (const T& item : list) put(item);
  }
  template <class T, size_t N>
  void put(const T (&list)[N]) {
    for (const T& item : list) put(item);
  }
  template <class T>
    requires std::is_class_v<T>
  void put(const T& record) {
    fields(*this, const_cast<T&>(record));
  }
};

struct ByteReader {
  std::string_view bytes;  // what is left
  bool ok = true;

  template <class... T>
  void operator()(T&... values) {
    (get(values), ...);
  }

 private:
  bool take(void* to, size_t size) {
    ok = ok && size <= bytes.size();
    if (ok && size) {
      std::memcpy(to, bytes.data(), size);
      bytes.remove_prefix(size);
    }
    return ok;
  }
  size_t get_length() {
    uint64_t length = 0;
    take(&length, sizeof length);
    ok = ok && length <= bytes.size();  // every item takes a byte or more
    return ok ? size_t(length) : 0;
  }
  template <PlainNumber T>
  void get(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      uint8_t byte = 0;
      value = take(&byte, 1) && byte != 0;
    } else {
      take(&value, sizeof value);
    }
  }
  void get(std::string& text) {
    text.resize(get_length());
    take(text.data(), text.size());
  }
  template <class T>
  void get(std::vector<T>& list) {
    size_t length = get_length();
    list.clear();
    for (size_t i = 0; i < length && ok; i++) get(list.emplace_back());
  }
  template <class T, size_t N>
  void get(T (&list)[N]) {
    for (T& item : list) get(item);
  }
  template <class T>
    requires std::is_class_v<T>
  void get(T& record) {
    fields(*this, record);
  }
};

}  // namespace tl
