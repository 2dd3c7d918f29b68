"""Messages between processes: pickled within one Python environment; between two.

JSON for their structure and plain bytes for arrays. Between environments nothing is pickled: the meaning depends on no
version of Python or NumPy. This file also runs in lean workers (see `deep_bench.environments`): it needs Python 3.9 and
NumPy.
"""

from __future__ import annotations

import array
import json
import mmap
import os
import pickle
import re
import socket
import struct
import tempfile
from collections.abc import Mapping
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np

from deep_bench.errors import DeepBenchError, InvalidInput, Unsupported, WorkerError


class Channel(Protocol):
    """One end. What `encode` takes and `decode` returns are plain values; what lies between is the channel's own."""

    def encode(self, value: Any) -> Any:
        """A value as it is sent; raises where it cannot be."""

    def write(self, encoded: Any) -> None:
        """Send it."""

    def read(self) -> Any:
        """What came; raises `EOFError` where the other end is gone."""

    def decode(self, message: Any) -> Any:
        """The value in it; raises where it cannot be read here."""

    def error(self, error: BaseException) -> Any:
        """An error of deep_bench's as a value, if it survives that; else None."""

    def original(self, value: Any) -> DeepBenchError | None:
        """The inverse."""

    def fileno(self) -> int:
        """What to wait for."""

    def close(self) -> None:
        """Close this end."""


class Pickles:
    """A channel within one environment, where whatever can be pickled may be sent.

    Args:
        connection: It is closed with this.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def encode(self, value: Any) -> bytes:
        """It, pickled."""
        return pickle.dumps(value)

    def write(self, encoded: bytes) -> None:
        """Send it."""
        self._connection.send_bytes(encoded)

    def read(self) -> bytes:
        """What came."""
        return self._connection.recv_bytes()

    def decode(self, message: bytes) -> Any:
        """It, unpickled, which runs other people's code and may raise anything."""
        return pickle.loads(message)

    def error(self, error: BaseException) -> bytes | None:
        """The error, pickled."""
        if not isinstance(error, DeepBenchError):
            return None
        try:
            pickled = pickle.dumps(error)
            pickle.loads(pickled)
        except Exception:  # an error of a foreign class may fail to pickle in any way: then its text is sent
            return None
        return pickled

    def original(self, value: Any) -> DeepBenchError | None:
        """The error that was pickled, unless its class cannot be had here."""
        if value is None:
            return None
        try:
            error = pickle.loads(value)
        except Exception:  # as above
            return None
        return error if isinstance(error, DeepBenchError) else None

    def fileno(self) -> int:
        """Of the connection."""
        return self._connection.fileno()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


PROTOCOL = 1
"""The version of this form, and of the requests that workers answer; both sides must have the same one."""


MAGIC = b"DBEN"
SHARED_FROM_BYTES = 64 * 1024
"""Bodies from this size on go through shared memory."""


MOST_HEADER_BYTES, MOST_BODY_BYTES = 64 * 2**20, 64 * 2**30
_PREFIX = struct.Struct(">4sIQB")
_ALIGNMENT = 64
_PLAIN = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)|complex(64|128)")
_STRINGS = re.compile(r"O|U\d{1,6}")
_NARROW = re.compile(r"u?int[124]|bfloat16|float(4|6|8)_\w+")
"""Element types that ``ml_dtypes`` adds to NumPy."""


_CLASSES = {
    "Block": "deep_bench.measure.timing",
    "Exposure": "deep_bench.fault",
    "Forms": "deep_bench.framework",
    "MetricRecord": "deep_bench.measure.metrics",
    "WarmUp": "deep_bench.measure.timing",
}
"""The classes whose objects may be sent, field by field: no others are made from what comes."""


class ForeignObject:
    """An object of a class of `_FORMS` in an environment that cannot import it.

    Args:
        form: The class's name.
        fields: Field to value.
    """

    def __init__(self, form: str, fields: Mapping[str, Any]) -> None:
        self.form, self.fields = form, dict(fields)


class ArrayBody:
    """The bytes of a message's arrays, one after the other, each on a multiple of 64 bytes."""

    def __init__(self) -> None:
        self.parts: list[tuple[int, Any]] = []
        self.size = 0

    def place(self, content: Any) -> list[int]:
        """Add some bytes; where they lie, and how many they are."""
        view = memoryview(content)
        at = -(-self.size // _ALIGNMENT) * _ALIGNMENT
        self.parts.append((at, view))
        self.size = at + view.nbytes
        return [at, view.nbytes]

    def fill(self, target: Any) -> None:
        """Write all of it."""
        for at, view in self.parts:
            target[at : at + view.nbytes] = view


class Wire:
    """One end of the connection.

    Args:
        end: A connected local socket, which is closed with this.
    """

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    def fileno(self) -> int:
        """The socket's number, to wait for it."""
        return self._socket.fileno()

    def encode(self, value: Any) -> tuple[bytes, bytes | int]:
        """A value as it is sent: prefix and header, and the body or the descriptor of its shared memory.

        Raises:
            Unsupported: Something in it has no plain form.
            WorkerError: There is no shared memory for it.
        """
        body = ArrayBody()
        header = json.dumps(_tree(value, body)).encode()
        if len(header) > MOST_HEADER_BYTES or body.size > MOST_BODY_BYTES:
            came = f"a message of {len(header)} and {body.size} bytes"
            raise Unsupported(came, f"at most {MOST_HEADER_BYTES} and {MOST_BODY_BYTES} to another environment")
        shared = body.size >= SHARED_FROM_BYTES
        start = _PREFIX.pack(MAGIC, len(header), body.size, shared) + header
        if shared:
            return start, _shared(body)
        inline = bytearray(body.size)
        body.fill(memoryview(inline))
        return start, bytes(inline)

    def write(self, encoded: tuple[bytes, bytes | int]) -> None:
        """Send what `encode` returned; shared memory is given away with it.

        Raises:
            ConnectionError: The other end is gone.
        """
        start, body = encoded
        if isinstance(body, bytes):
            self._socket.sendall(start + body)
            return
        try:
            attached = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [body]))]
            sent = self._socket.sendmsg([start], attached)
            self._socket.sendall(start[sent:])
        finally:
            os.close(body)

    def read(self) -> tuple[bytes, bytes | mmap.mmap]:
        """The next message's header and body.

        Raises:
            EOFError: The other end is gone.
            WorkerError: What comes is no message of this form.
        """
        prefix, descriptors = self._prefix()
        try:
            magic, header_bytes, body_bytes, shared = _PREFIX.unpack(prefix)
            limit = MOST_BODY_BYTES if shared else SHARED_FROM_BYTES
            if magic != MAGIC or header_bytes > MOST_HEADER_BYTES or body_bytes > limit or shared != len(descriptors):
                raise WorkerError(f"bytes that begin with {prefix[:8]!r}", "a message of another environment")
            header = self._exactly(header_bytes)
            if not shared:
                return header, self._exactly(body_bytes)
            held = os.fstat(descriptors[0]).st_size
            if not 0 < body_bytes <= held:
                raise WorkerError(f"shared memory of {held} bytes", f"the {body_bytes} that were announced")
            return header, mmap.mmap(descriptors[0], body_bytes, prot=mmap.PROT_READ)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def decode(self, message: tuple[bytes, bytes | mmap.mmap]) -> Any:
        """The value that `read` read; its arrays are copies.

        Raises:
            WorkerError, InvalidInput: It is not what `encode` makes.
        """
        header, body = message
        try:
            return _value(json.loads(header), body)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise WorkerError(f"a message that cannot be read: {type(error).__name__}: {error}") from error

    def error(self, error: BaseException) -> dict[str, Any] | None:
        """An error of deep_bench's by its class and what it was made of; None if it is none."""
        if not isinstance(error, DeepBenchError):
            return None
        if type(error).__module__ == DeepBenchError.__module__ and all(isinstance(a, (str, int, list)) for a in error.args):
            return {"kind": type(error).__name__, "arguments": list(error.args)}
        return {"kind": "DeepBenchError", "arguments": [str(part) for part in (error.came, error.expected, error.advice)]}

    def original(self, plain: Any) -> DeepBenchError | None:
        """The inverse; None where it is not one."""
        kind = getattr(import_module("deep_bench.errors"), str(plain.get("kind")), None) if isinstance(plain, dict) else None
        if not (isinstance(kind, type) and issubclass(kind, DeepBenchError)):
            return None
        try:
            return kind(*plain["arguments"])
        except (KeyError, TypeError):
            return None

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _prefix(self) -> tuple[bytes, list[int]]:
        descriptors = array.array("i")
        buffer = b""
        while len(buffer) < _PREFIX.size:
            room = socket.CMSG_SPACE(descriptors.itemsize)
            part, attached, _, _ = self._socket.recvmsg(_PREFIX.size - len(buffer), room)
            for level, kind, data in attached:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
            if not part:
                for descriptor in descriptors:
                    os.close(descriptor)
                raise EOFError
            buffer += part
        return buffer, list(descriptors)

    def _exactly(self, count: int) -> bytes:
        buffer = bytearray()
        while len(buffer) < count:
            part = self._socket.recv(min(count - len(buffer), 1 << 20))
            if not part:
                raise EOFError
            buffer += part
        return bytes(buffer)


def _shared(body: ArrayBody) -> int:
    """The descriptor of anonymous shared memory that holds the body.

    Raises:
        WorkerError: There is not enough.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("deep_bench")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        os.posix_fallocate(descriptor, 0, body.size)  # else its lack would show as a crash when it is written
        with mmap.mmap(descriptor, body.size) as memory:
            body.fill(memory)
    except OSError as error:
        os.close(descriptor)
        raise WorkerError(
            f"no shared memory for {body.size} bytes of arrays: {error.strerror}",
            "memory for each large array once more while it goes to another environment or comes from there",
            "free some memory, or raise the limit on the size of files (ulimit -f)",
        ) from error
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _tree(value: Any, body: ArrayBody) -> Any:
    """A value as JSON; arrays and bytes go to the body. What JSON has not is an object with the key ``$``."""
    if value is None or isinstance(value, (bool, str)) or type(value) in (int, float):
        return value
    if isinstance(value, (bytes, bytearray)):
        return {"$": "bytes", "at": body.place(value)}
    if isinstance(value, list):
        return [_tree(item, body) for item in value]
    if isinstance(value, (tuple, set, frozenset)):
        return {"$": "tuple", "items": [_tree(item, body) for item in value]}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value) and "$" not in value:
            return {key: _tree(item, body) for key, item in value.items()}
        return {"$": "map", "items": [[_tree(key, body), _tree(item, body)] for key, item in value.items()]}
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value, order="C")
        head: dict[str, Any] = {"$": "array", "shape": list(array.shape), "scalar": isinstance(value, np.generic)}
        if array.dtype.kind in "OU":
            items = array.reshape(-1).tolist()
            if not all(isinstance(item, (str, bytes)) for item in items):
                raise Unsupported("an array of Python objects", "arrays of numbers or strings for another environment")
            form = "O" if array.dtype.kind == "O" else f"U{array.dtype.itemsize // 4}"
            return {**head, "dtype": form, "items": [_tree(item, body) for item in items]}
        name = array.dtype.name
        if not (_PLAIN.fullmatch(name) or _NARROW.fullmatch(name)):
            raise Unsupported(f"an array of {name}", "arrays of numbers or strings for another environment")
        native = array.astype(array.dtype.newbyteorder("<")) if array.dtype.byteorder == ">" else array
        return {**head, "dtype": name, "at": body.place(native.reshape(-1).view(np.uint8))}
    name, fields = (
        (value.form, value.fields)
        if isinstance(value, ForeignObject)
        else (type(value).__name__, getattr(value, "__dict__", {}))
    )
    if name in _CLASSES and (isinstance(value, ForeignObject) or type(value).__module__ == _CLASSES[name]):
        return {"$": name, "fields": _tree(fields, body)}
    raise Unsupported(
        f"a {type(value).__name__} is to be sent to another environment, or from there",
        "plain data: numbers, text, arrays, and lists and mappings of them",
        "what is a function or an object of your own works in this environment only",
    )


def _value(tree: Any, body: Any) -> Any:
    if isinstance(tree, list):
        return [_value(item, body) for item in tree]
    if not isinstance(tree, dict):
        return tree
    kind = tree.get("$")
    if kind is None:
        return {key: _value(item, body) for key, item in tree.items()}
    if kind == "bytes":
        return bytes(_part(tree["at"], body))
    if kind == "tuple":
        return tuple(_value(item, body) for item in tree["items"])
    if kind == "map":
        return {_value(key, body): _value(item, body) for key, item in tree["items"]}
    if kind == "array":
        return _array_value(tree, body)
    if kind in _CLASSES:
        return getattr(import_module(_CLASSES[kind]), kind)(**_value(tree["fields"], body))
    raise WorkerError(f"an object of the unknown kind {kind!r}", f"one of {', '.join(sorted(_CLASSES))}")


def _array_value(tree: Mapping[str, Any], body: Any) -> Any:
    shape = [int(size) for size in tree["shape"]]
    count = 1
    for size in shape:
        count *= size
    if _STRINGS.fullmatch(tree["dtype"]):
        items = [_value(item, body) for item in tree["items"]]
        if len(items) != count or min(shape, default=0) < 0:
            raise InvalidInput(f"{len(items)} strings for the shape {shape}", f"{count} of them")
        values = np.array(items, dtype=tree["dtype"]).reshape(shape)
    else:
        dtype, part = _dtype(str(tree["dtype"])), _part(tree["at"], body)
        if min(shape, default=0) < 0 or count * dtype.itemsize != len(part):
            raise InvalidInput(f"{len(part)} bytes for {dtype}{shape}", f"{count * dtype.itemsize} bytes")
        values = np.frombuffer(part, np.uint8).copy().view(dtype).reshape(shape)
    return values[()] if tree["scalar"] else values


def _dtype(name: str) -> np.dtype:
    if _PLAIN.fullmatch(name):
        return np.dtype(name)
    if not _NARROW.fullmatch(name):
        raise InvalidInput(f"an array of {name!r}", "an element type of NumPy or ml_dtypes")
    try:
        return np.dtype(getattr(import_module("ml_dtypes"), name))
    except (ImportError, AttributeError) as error:
        raise Unsupported(f"an array of {name}", "ml_dtypes with this type in this environment too") from error


def _part(at: Any, body: Any) -> memoryview:
    start, count = (int(number) for number in at)
    if start < 0 or count < 0 or start + count > len(body):
        raise InvalidInput(f"bytes {start} to {start + count} of a body of {len(body)}", "bytes within it")
    return memoryview(body)[start : start + count]
