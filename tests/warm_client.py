"""Asks the process of warm_server.py, or that of warm_workers.py, for a process that has everything
imported.

    python warm_client.py SOCKET capax ...          a command, as `capax ...`
    python warm_client.py SOCKET python CODE        a program, as `python -c CODE`
    python warm_client.py SOCKET worker ... CODE    the same, of the process in warm_workers.py

Scripts start it for each of their commands: it imports next to nothing.
"""

import _socket
import marshal
import os
import sys


def ask(path: str, arguments: list[str], streams=(0, 1, 2), folder=".", variables=None) -> int:
    """The exit code of a command that the server ran with these streams, folder and variables."""
    variables = dict(os.environ) if variables is None else variables
    connection, place = _socket.socket(_socket.AF_UNIX), os.open(folder, os.O_RDONLY)
    try:
        connection.connect(path)
        passed = b"".join(number.to_bytes(4, sys.byteorder) for number in (*streams, place))
        connection.sendmsg([b"-"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, passed)])
        connection.sendall(marshal.dumps([variables, arguments]))
        connection.shutdown(_socket.SHUT_WR)
        return int(connection.recv(16) or b"-1")
    finally:
        connection.close()
        os.close(place)


if __name__ == "__main__":
    sys.exit(ask(sys.argv[1], sys.argv[2:]))
