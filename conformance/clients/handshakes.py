"""Opens TLS connections to a server on the loopback interface: handshakes.py PORT CA-FILE COUNT [AT-ONCE]

Every handshake is a full one and verifies the certificate. Ends with an error if a handshake fails.

If the variable RESTARTS is not 0, the agent at JETON_AGENT is killed or ended, and started again, this number of times
during further handshakes before. Of these, each of the AT-ONCE clients may fail once for each restart."""

import os
import select
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor


def main(port, ca_file, count, at_once=4):
    context = ssl.create_default_context(cafile=ca_file)
    restarts = int(os.environ.get("RESTARTS", 0))
    restarting = restarts > 0

    def handshake():
        with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
            with context.wrap_socket(plain, server_hostname="localhost") as tls:
                tls.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
                if not tls.recv(1):
                    raise OSError("the server said nothing")

    def handshakes(number):
        failed = 0
        while restarting:
            try:
                handshake()
            except OSError:
                failed += 1
        for _ in range(number):
            handshake()
        return failed

    shares = [count // at_once + (number < count % at_once) for number in range(at_once)]
    with ThreadPoolExecutor(at_once) as pool:
        clients = [pool.submit(handshakes, share) for share in shares]
        try:
            for number in range(restarts):
                time.sleep(0.5)
                restart((signal.SIGKILL, signal.SIGTERM)[number % 2])
            # The calls that wait for the agent.
            time.sleep(restarts and 1)
        finally:
            restarting = False
        failed = sum(client.result() for client in clients)
    print(f"{count} handshakes; before, {restarts} restarts of the agent, and {failed} failures")
    if failed > restarts * at_once:
        sys.exit("too many failures")


def restart(how):
    """Ends the agent with a signal, and starts it again with its arguments."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(os.environ["JETON_AGENT"].removeprefix("unix:"))
        process, _, _ = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    with open(f"/proc/{process}/cmdline") as file:
        arguments = file.read().split("\0")[:-1]
    end = os.pidfd_open(process)
    signal.pidfd_send_signal(end, how)
    select.select([end], [], [])
    os.close(end)
    # The end of a block of a guide ends its process group.
    subprocess.Popen(arguments, start_new_session=True)


main(int(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
