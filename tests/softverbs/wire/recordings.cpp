#include "recordings.hpp"

std::string recording(std::string_view name) {
  return std::string(RDMAXX_TEST_DATA "/roce/").append(name).append(".pcap");
}
