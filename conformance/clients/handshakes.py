"""Opens TLS connections to a server on the loopback interface: handshakes.py PORT CA-FILE COUNT [AT-ONCE]

Every handshake is a full one and verifies the certificate. Ends with an error if a handshake fails."""

import socket
import ssl
import sys
from concurrent.futures import ThreadPoolExecutor


def main(port, ca_file, count, at_once=4):
    context = ssl.create_default_context(cafile=ca_file)

    def handshakes(number):
        for _ in range(number):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
                with context.wrap_socket(plain, server_hostname="localhost") as tls:
                    tls.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
                    assert tls.recv(1), "the server said nothing"

    shares = [count // at_once + (number < count % at_once) for number in range(at_once)]
    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(handshakes, shares))
    print(f"{count} handshakes")


main(int(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
