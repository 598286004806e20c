// SPDX-License-Identifier: Apache-2.0
// frontends/cli/text.h: formats numbers, lists and tables for display.
#pragma once

#include <yoke/runtime/log.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace yoke::cli {

std::string fixed(double value, int digits);  // fixed(0.5, 2): "0.50"
std::string shortest(double value);           // the shortest text that reads back as the same number
std::string significant(double value);        // with 5 digits: "0.22941"
std::string grouped(std::uint64_t value);     // "60,000"
std::string counted(std::uint64_t value, const char* noun,
                    const char* plural = nullptr);  // "60,000 rows", "1 row"
std::string duration(double seconds);               // "3.2 s", "1:05", "2:03:04"
std::string byte_text(std::uint64_t byte_count);    // "1.5 GiB"
std::string join(const std::vector<std::string>& parts, std::string_view between);
// A table with aligned columns. Precondition: every row has as many cells as `heads`.
std::string table_text(const std::vector<std::string>& heads,
                       const std::vector<std::vector<std::string>>& rows);
std::vector<std::string> split(std::string_view text, char at);
// At commas. A field may be in double quotes, and then contain commas and doubled quotes.
std::vector<std::string> csv_fields(const std::string& text, const char* option);

// Whether standard error is a terminal that can redraw a line. With TERM=dumb or without TERM it cannot.
bool can_redraw();

// Throws UsageError, which lists the valid names.
LogLevel log_level_by_name(const std::string& name);

}  // namespace yoke::cli
