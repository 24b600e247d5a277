"""A hostile agent for the client module: it stands between the module and an honest agent, and alters answers.

    liar.py FOLDER PORT AGENT SEED

FOLDER has the certificates of `run`. AGENT is the port of the honest agent."""

import os
import random
import socket
import ssl
import struct
import sys
import threading
import time

FOLDER, PORT, AGENT, SEED = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
# Numbers in place of others, as 64 bits and in the encoding of postcard: some do not fit into the 32 bits of Windows.
NUMBERS = [0, 1, 0x150, 1 << 16, 1 << 26, 0x7E000000, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, 1 << 60, (1 << 64) - 1]
SILENCE = 3
LIES = 0.2


def encoded(number):
    bytes_ = bytearray()
    while number > 127:
        bytes_.append(number & 127 | 128)
        number >>= 7
    return bytes(bytes_ + bytes([number]))


def read(stream, length):
    data = b""
    while len(data) < length:
        part = stream.recv(length - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def message(stream):
    return read(stream, int.from_bytes(read(stream, 4), "little"))


def frame(data, length=None):
    return struct.pack("<I", len(data) if length is None else length) + data


def lie(chance, answer):
    """Returns the bytes in place of an answer, and what follows: nothing, the end or silence."""
    # The code of the first call is near the start.
    at = chance.choice([min(2, len(answer) - 1), chance.randrange(len(answer))])
    number = chance.choice(NUMBERS)
    altered = bytearray(answer)
    kind = chance.randrange(40)
    if kind < 8:
        altered[at] = chance.randrange(256)
        return frame(altered), None
    if kind < 18:
        return frame(answer[:at] + encoded(number) + answer[at + 1 :]), None
    if kind < 28:
        altered[at : at + 8] = struct.pack("<Q", number)
        return frame(altered), None
    if kind < 30:
        return frame(answer)[:at], "end"
    if kind < 32:
        return frame(answer, chance.choice([0, len(answer) - 1, len(answer) + 1, 1 << 27, (1 << 32) - 1])), "end"
    if kind < 35:
        return frame(chance.randbytes(chance.randrange(1, 4096))), None
    if kind < 36:
        return frame(answer) * 2, None
    if kind < 37:
        return None, "end"
    return b"", "end" if kind < 39 else "silence"


def serve(client, seed):
    chance = random.Random(seed)
    if chance.random() < 0.05:
        # It speaks no TLS.
        client.sendall(chance.randbytes(100))
        return
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(f"{FOLDER}/localhost.pem", f"{FOLDER}/localhost.key")
    user = ssl.create_default_context(cafile=f"{FOLDER}/ca.pem")
    user.load_cert_chain(f"{FOLDER}/windows.example.pem", f"{FOLDER}/windows.example.key")
    agent = user.wrap_socket(socket.create_connection(("127.0.0.1", AGENT)), server_hostname="localhost")
    raw = socket.socket(fileno=os.dup(client.fileno()))
    client = server.wrap_socket(client, server_side=True)
    while True:
        agent.sendall(frame(message(client)))
        answer = message(agent)
        if chance.random() > LIES:
            client.sendall(frame(answer))
            continue
        data, then = lie(chance, answer)
        if data is None:
            # These bytes are no record of TLS.
            raw.sendall(chance.randbytes(50))
        else:
            client.sendall(data)
        if then == "silence":
            time.sleep(SILENCE)
        if then:
            return


def start(client, seed):
    with client:
        try:
            serve(client, seed)
        except (OSError, EOFError):
            pass


listener = socket.create_server(("127.0.0.1", PORT))
for count in range(1 << 30):
    threading.Thread(target=start, args=(listener.accept()[0], SEED + count), daemon=True).start()
