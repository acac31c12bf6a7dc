"""A client of Fleet in Python's standard library alone, written from API.md and asyncapi.yaml.

Usage: foreign-client.py HOST PORT CREDENTIALS TENANT AGENT TASK. Prints the answers and the refusals as JSON.
"""

import base64
import hashlib
import json
import re
import secrets
import socket
import sys
import time

# Ed25519 signatures (RFC 8032, section 5.1), in extended coordinates.
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
BASE_X = 15112221349535400772501151409588531511454012693041857206046113283949847762202
BASE_Y = 4 * pow(5, -1, P) % P
BASE = (BASE_X, BASE_Y, 1, BASE_X * BASE_Y % P)


def add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]), (p[1] + p[0]) * (q[1] + q[0])
    c, d = 2 * p[3] * q[3] * D, 2 * p[2] * q[2]
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def multiply(scalar, point):
    result = (0, 1, 1, 0)
    while scalar > 0:
        if scalar & 1:
            result = add(result, point)
        point = add(point, point)
        scalar >>= 1
    return result


def encode(point):
    inverse = pow(point[2], -1, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def number(data):
    return int.from_bytes(data, "little")


def sign(seed, message):
    digest = hashlib.sha512(seed).digest()
    scalar = number(digest[:32]) & (2**254 - 8) | 2**254
    public = encode(multiply(scalar, BASE))
    nonce = number(hashlib.sha512(digest[32:] + message).digest()) % ORDER
    commitment = encode(multiply(nonce, BASE))
    challenge = number(hashlib.sha512(commitment + public + message).digest()) % ORDER
    return commitment + ((nonce + challenge * scalar) % ORDER).to_bytes(32, "little")


def read_credentials(path):
    """The JWT, and the 32 bytes of the seed: base32 of two bytes of type, the key and two bytes of CRC."""
    with open(path, encoding="ascii") as file:
        jwt, seed = re.findall(r"-----BEGIN [^-]+-----\s+(\S+)\s", file.read())
    return jwt, base64.b32decode(seed + "=" * (-len(seed) % 8))[2:34]


def uuid7():
    value = time.time_ns() // 1_000_000 << 80 | 7 << 76 | secrets.randbits(12) << 64
    text = f"{value | 2 << 62 | secrets.randbits(62):032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


class Nats:
    def __init__(self, host, port, credentials, inbox):
        self.socket = socket.create_connection((host, port), timeout=10)
        self.stream = self.socket.makefile("rb")
        self.inbox = inbox
        self.requests = 0
        info = json.loads(self.stream.readline().split(b" ", 1)[1])
        jwt, seed = read_credentials(credentials)
        signature = base64.urlsafe_b64encode(sign(seed, info["nonce"].encode())).rstrip(b"=").decode()
        options = {"jwt": jwt, "sig": signature, "verbose": False, "pedantic": False, "lang": "python"}
        options |= {"version": "1", "protocol": 1, "headers": True, "no_responders": True}
        self.send(f"CONNECT {json.dumps(options)}\r\n".encode())
        for message in self.messages():
            raise ConnectionError(message)

    def send(self, data):
        self.socket.sendall(data)

    def publish(self, subject, body, reply=""):
        data = json.dumps(body).encode()
        self.send(f"PUB {subject} {reply} {len(data)}\r\n".encode() + data + b"\r\n")

    def messages(self):
        """Everything that the server has sent: bodies of messages, and errors as text. Ends at its PONG."""
        self.send(b"PING\r\n")
        while True:
            line = self.stream.readline().decode().strip()
            if line == "PONG":
                return
            if line == "":
                raise ConnectionError("the server closed the connection")
            if line == "PING":
                self.send(b"PONG\r\n")
            elif line.startswith("-ERR"):
                yield line
            elif line.startswith(("MSG", "HMSG")):
                yield self.body(line)

    def body(self, line):
        words = line.split()
        total = int(words[-1])
        headers = int(words[-2]) if words[0] == "HMSG" else 0
        return self.stream.read(total + 2)[headers:-2]

    def request(self, subject, body):
        self.requests += 1
        reply = f"{self.inbox}.{self.requests}"
        self.send(f"SUB {reply} {self.requests}\r\n".encode())
        self.publish(subject, body, reply)
        for _ in range(400):
            for message in list(self.messages()):
                return json.loads(message) if isinstance(message, bytes) and message else message
            time.sleep(0.025)
        raise TimeoutError(subject)

    def refusal(self, line):
        """The error by which the server refuses a protocol line. None: it accepts it."""
        self.send(line)
        return next((one for one in list(self.messages()) if isinstance(one, str)), None)


def main():
    host, port, credentials, tenant, agent, task = sys.argv[1:]
    nats = Nats(host, int(port), credentials, f"_INBOX.{tenant}.{agent}.{secrets.token_hex(8)}")

    def command(op, body):
        return nats.request(f"fleet.cmd.{tenant}.{agent}.{task}.{op}", {"command_id": uuid7(), **body})

    def query(op, body):
        return nats.request(f"fleet.query.{tenant}.{agent}.{op}", body)

    metadata = {"agent_type": "implementation"}
    state = {"phase": "planning", "goal": "Zwölf Rechnungen", "pending_items": ["write it"]}
    created = command("create", {"checkpoint": {"metadata": metadata, "execution_state": state}})
    read = query("get", {"checkpoint_id": created["checkpoint_id"]})
    history = query("history", {"task_id": task})
    invalid = command("create", {"checkpoint": {"metadata": metadata}})

    theft = {"command_id": uuid7(), "checkpoint": {"metadata": metadata, "execution_state": state}}
    data = json.dumps(theft)
    own_inbox = f"{nats.inbox}.theft"
    targets = [
        f"fleet.cmd.{tenant}.other.stolen.create",
        f"fleet.cmd.elsewhere.{agent}.stolen.create",
        f"fleet.cmd.{tenant}.{agent}.{task}.recover",
        f"fleet.queue.{tenant}.other.stolen.create",
        f"fleet.query.{tenant}.other.latest",
        f"fleet.query.elsewhere.{agent}.latest",
        f"fleet.query.{tenant}.{agent}.dead_list",
        f"fleet.heartbeat.{tenant}.other",
        f"fleet.exit.{tenant}.other.{task}",
        f"fleet.event.{tenant}.{task}",
        f"_INBOX.{tenant}.other.1",
        "$JS.API.STREAM.NAMES",
        "$JS.API.STREAM.DELETE.FLEET_EVENTS",
        "$SYS.REQ.SERVER.PING",
    ]
    subscriptions = [
        ">",
        f"_INBOX.{tenant}.other.>",
        f"_INBOX.elsewhere.{agent}.>",
        "_INBOX.>",
        "fleet.event.elsewhere.>",
        "fleet.event.*.>",
        f"fleet.alert.{tenant}.>",
        f"fleet.cmd.{tenant}.{agent}.*.create",
        "$JS.EVENT.>",
    ]
    refused = {
        f"publish {target}": nats.refusal(f"PUB {target} {own_inbox} {len(data)}\r\n{data}\r\n".encode())
        for target in targets
    }
    for index, subject in enumerate(subscriptions):
        refused[f"subscribe {subject}"] = nats.refusal(f"SUB {subject} spy{index}\r\n".encode())
    still_served = query("task", {"task_id": task})
    answers = {"created": created, "read": read, "history": history, "invalid": invalid}
    print(json.dumps({**answers, "refused": refused, "stillServed": still_served}))


main()
