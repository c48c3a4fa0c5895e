#include "table.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace rdmaxx::tool {

namespace {

constexpr std::string_view gap = "  ";

/// Characters, not bytes: "µs" is two.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80U; }));
}

}  // namespace

table::table(std::vector<column> columns) : columns_(std::move(columns)) {
  for (auto& column : columns_) column.width = std::max(column.width, width_of(column.heading));
}

void table::add(row cells) {
  for (std::size_t i = 0; i < columns_.size() && i < cells.size(); ++i) {
    columns_[i].width = std::max(columns_[i].width, width_of(cells[i]));
  }
  rows_.push_back(std::move(cells));
}

void table::print(std::FILE* out) const {
  print_heading(out);
  for (const auto& cells : rows_) print(out, cells);
}

void table::print_heading(std::FILE* out) const {
  row headings;
  for (const auto& column : columns_) headings.push_back(column.heading);
  print(out, headings);
}

void table::print(std::FILE* out, const row& cells) const {
  std::string line;
  for (std::size_t i = 0; i < columns_.size() && i < cells.size(); ++i) {
    const auto& column = columns_[i];
    const auto used = width_of(cells[i]);
    const std::string padding(column.width > used ? column.width - used : 0, ' ');
    line += gap;
    line += column.side == alignment::right ? padding + cells[i] : cells[i] + padding;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  fmt::print(out, "{}\n", line);
}

}  // namespace rdmaxx::tool
