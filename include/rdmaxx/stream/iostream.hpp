#pragma once

// stream_iostream: a stream as a std::iostream, for text and line protocols.
//
//   stream_iostream io(stream::connect("10.0.0.7:7471").value());
//   io << "GET key\n" << std::flush;
//   std::string line;
//   std::getline(io, line);
//
// Reading needs no buffer: it reads the characters where the device put them. A failed operation
// sets badbit, the end of the stream eofbit; failure() has the error. Bytes that could not be sent
// in time stay buffered: clear() and flush again.
//
// Lifetime: owns its stream; the destructor sends buffered bytes if the peer accepts them within a
// second. Threads: one at a time.

#include <array>
#include <cstddef>
#include <iostream>
#include <optional>
#include <streambuf>
#include <utility>

#include <rdmaxx/core/error.hpp>
#include <rdmaxx/stream/stream.hpp>

namespace RDMAXX_NAMESPACE {

class stream_buffer : public std::streambuf {
 public:
  explicit stream_buffer(rdmaxx::stream stream);
  stream_buffer(const stream_buffer&) = delete;
  stream_buffer& operator=(const stream_buffer&) = delete;
  ~stream_buffer() override;

  [[nodiscard]] rdmaxx::stream& stream() noexcept { return stream_; }
  /// Why the last operation failed, if it did.
  [[nodiscard]] const std::optional<error>& failure() const noexcept { return failure_; }

 protected:
  int_type underflow() override;
  int_type overflow(int_type character) override;
  std::streamsize xsputn(const char* text, std::streamsize count) override;
  int sync() override;

 private:
  std::size_t send(std::span<const std::byte> bytes);
  bool send_buffered();
  void give_back();

  rdmaxx::stream stream_;
  std::array<char, 1024> outgoing_{};
  std::optional<error> failure_;
};

class stream_iostream : public std::iostream {
 public:
  explicit stream_iostream(rdmaxx::stream stream)
      : std::iostream(nullptr), buffer_(std::move(stream)) {
    rdbuf(&buffer_);
  }

  [[nodiscard]] rdmaxx::stream& stream() noexcept { return buffer_.stream(); }
  [[nodiscard]] const std::optional<error>& failure() const noexcept { return buffer_.failure(); }

 private:
  stream_buffer buffer_;
};

}  // namespace RDMAXX_NAMESPACE
