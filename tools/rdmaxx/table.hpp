#pragma once

// table: text in aligned columns.
//
// A table with given column widths can be printed line by line as its rows become known; a table
// with all rows known makes its columns fit.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace rdmaxx::tool {

enum class alignment : std::uint8_t { left, right };

struct column {
  std::string heading{};
  alignment side = alignment::left;
  std::size_t width = 0;  ///< in characters, at least; never less than the heading's
};

class table {
 public:
  using row = std::vector<std::string>;

  explicit table(std::vector<column> columns);

  /// Adds a row, and makes the columns wide enough for it.
  void add(row cells);

  void print(std::FILE* out) const;
  void print_heading(std::FILE* out) const;
  /// Prints a row that need not be one of the table's.
  void print(std::FILE* out, const row& cells) const;

 private:
  std::vector<column> columns_;
  std::vector<row> rows_;
};

}  // namespace rdmaxx::tool
