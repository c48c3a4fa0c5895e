"""Forwards what a guest prints, while it prints it."""

import os
import socket
import threading

_one_line_at_a_time = threading.Lock()


class Forwarder(threading.Thread):
    """Copies from a socket to one of our own descriptors; with a prefix, line by line."""

    def __init__(self, source: socket.socket, target: int, prefix: str = ""):
        super().__init__(daemon=True)
        self._source = source
        self._target = target
        self._prefix = prefix.encode()
        self.target_is_closed = False

    def run(self) -> None:
        pending = b""
        while received := self._receive():
            if not self._prefix:
                self._write(received)
                continue
            *lines, pending = (pending + received).split(b"\n")
            for line in lines:
                self._write(self._prefix + line + b"\n")
        if pending:
            self._write(self._prefix + pending + b"\n")

    def _receive(self) -> bytes:
        try:
            return self._source.recv(65536)
        except OSError:
            return b""

    def _write(self, data: bytes) -> None:
        # After the reader of our output has gone, keep taking the guest's: it must not block on a full pipe.
        if self.target_is_closed:
            return
        with _one_line_at_a_time:
            try:
                while data:
                    data = data[os.write(self._target, data):]
            except OSError:
                self.target_is_closed = True
