#include <rdmaxx/stream/iostream.hpp>

#include <algorithm>
#include <cstring>
#include <span>

#include <fmt/format.h>

#include <rdmaxx/core/log.hpp>

namespace RDMAXX_NAMESPACE {

stream_buffer::stream_buffer(rdmaxx::stream stream) : stream_(std::move(stream)) {
  setp(outgoing_.data(), outgoing_.data() + outgoing_.size());
}

stream_buffer::~stream_buffer() {
  stream_.set_write_timeout(stream_options{}.linger);  // as the destructor of a stream waits
  if (!send_buffered()) {
    log(log_level::warning, fmt::format("{}: {} bytes that were written were not sent",
                                        describe(stream_), pptr() - pbase()));
  }
  give_back();
}

/// Returns what was read from the get area to the device.
void stream_buffer::give_back() {
  if (eback() == nullptr) return;
  stream_.consume(static_cast<std::size_t>(gptr() - eback()));
  setg(nullptr, nullptr, nullptr);
}

stream_buffer::int_type stream_buffer::underflow() {
  if (gptr() != egptr()) return traits_type::to_int_type(*gptr());
  // A program that reads an answer expects its question to have been sent. If that fails, the peer
  // may have stopped reading after it answered.
  if (!send_buffered() && failure_ && *failure_ != std::errc::broken_pipe)
    throw rdmaxx::exception(*failure_);
  give_back();
  const auto here = stream_.peek();
  if (!here) {
    failure_ = here.error();
    throw rdmaxx::exception(here.error());  // std::istream turns it into badbit
  }
  failure_.reset();
  if (here->empty()) return traits_type::eof();
  // std::streambuf requires a non-const get area; putback is not supported.
  auto* const first = const_cast<char*>(reinterpret_cast<const char*>(here->data()));
  setg(first, first, first + here->size());
  return traits_type::to_int_type(*first);
}

/// Returns how many were sent.
std::size_t stream_buffer::send(std::span<const std::byte> bytes) {
  auto rest = bytes;
  while (!rest.empty()) {
    const auto written = stream_.write(rest);
    if (!written) {
      failure_ = written.error();
      return bytes.size() - rest.size();
    }
    rest = rest.subspan(*written);
  }
  if (!bytes.empty()) failure_.reset();
  return bytes.size();
}

/// Unsent bytes stay, so that a program can clear() the state and try again.
bool stream_buffer::send_buffered() {
  const auto buffered = std::span<const char>(pbase(), pptr());
  const auto rest = buffered.subspan(send(std::as_bytes(buffered)));
  std::memmove(outgoing_.data(), rest.data(), rest.size());
  setp(outgoing_.data(), outgoing_.data() + outgoing_.size());
  pbump(static_cast<int>(rest.size()));
  return rest.empty();
}

stream_buffer::int_type stream_buffer::overflow(int_type character) {
  if (!send_buffered()) return traits_type::eof();
  if (!traits_type::eq_int_type(character, traits_type::eof()))
    return sputc(traits_type::to_char_type(character));
  return traits_type::not_eof(character);
}

std::streamsize stream_buffer::xsputn(const char* text, std::streamsize count) {
  const auto bytes = std::span(text, static_cast<std::size_t>(count));
  if (count <= epptr() - pptr()) {
    std::ranges::copy(bytes, pptr());
    pbump(static_cast<int>(count));
    return count;
  }
  return send_buffered() ? static_cast<std::streamsize>(send(std::as_bytes(bytes))) : 0;
}

int stream_buffer::sync() { return send_buffered() ? 0 : -1; }

}  // namespace RDMAXX_NAMESPACE
