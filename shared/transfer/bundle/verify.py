#!/usr/bin/env python3
"""Verifies bundles of `fleet export --bundle` without a fleet, with nothing but the standard library of Python 3.9.

It was written from the specification (EXPORT.md, Bundles) and shares no code with the verifier in JavaScript, so that a
fault of one of them is seen in the other.
"""
import base64
import bisect
import calendar
import hashlib
import itertools
import json
import os
import re
import sys

USAGE = """Usage: python3 verify.py BUNDLE... [--key ID]... [--revoked ID]... [--checkpoint FILE] [--tsa-ca FILE] [--json]

Verifies bundles of `fleet export --bundle` without a fleet.
  --key ID           the id of a signing key, as you know it from another place (repeatable)
  --revoked ID       the id of a key that you know as revoked (repeatable)
  --checkpoint FILE  a signed checkpoint of the log that you have kept
  --tsa-ca FILE      certificates of the time-stamp authorities that you trust (PEM)
  --json             one JSON document for each bundle
Exit codes: 0 valid, 8 findings, 64 wrong usage, 65 a file cannot be read, or has no certificates.
"""


# --- Ed25519 (RFC 8032, section 5.1.7), without cofactor -------------------------------------------------------------

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = (-121665 * pow(121666, P - 2, P)) % P
ROOT_OF_MINUS_ONE = pow(2, (P - 1) // 4, P)
SMALL_ORDER_Y = {
    0,
    1,
    P - 1,
    0x5FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826,
    0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7,
}
NEUTRAL = (0, 1, 1, 0)


def point_add(p, q):
    a = (p[1] - p[0]) * (q[1] - q[0]) % P
    b = (p[1] + p[0]) * (q[1] + q[0]) % P
    c = 2 * p[3] * q[3] * D % P
    d = 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def point_double(p):
    a = p[0] * p[0] % P
    b = p[1] * p[1] % P
    c = 2 * p[2] * p[2] % P
    h = a + b
    e = h - (p[0] + p[1]) ** 2
    g = a - b
    f = c + g
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def point_from(data):
    """None: the bytes are no point."""
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (2**255 - 1)
    if y >= P:
        return None
    u, v = (y * y - 1) % P, (D * y * y + 1) % P
    x = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    if v * x * x % P == (-u) % P:
        x = x * ROOT_OF_MINUS_ONE % P
    if v * x * x % P != u:
        return None
    if x == 0 and sign == 1:
        return None
    if x & 1 != sign:
        x = P - x
    return (x, y, 1, x * y % P)


def point_bytes(p):
    inverse = pow(p[2], P - 2, P)
    x, y = p[0] * inverse % P, p[1] * inverse % P
    return (y | ((x & 1) << 255)).to_bytes(32, "little")


BASE = point_from((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def window(point):
    """The multiples 0 to 15 of a point."""
    multiples = [NEUTRAL, point]
    for _ in range(14):
        multiples.append(point_add(multiples[-1], point))
    return multiples


WINDOWS = {}
SIGNATURES = {}


def is_signature(key, text, signature):
    """Whether the 64 bytes are the signature of the text under the raw public key."""
    known = (key, hashlib.sha256(text).digest(), signature)
    if known not in SIGNATURES:
        SIGNATURES[known] = compute_signature(key, text, signature)
    return SIGNATURES[known]


def compute_signature(key, text, signature):
    if len(signature) != 64:
        return False
    s = int.from_bytes(signature[32:], "little")
    if s >= L:
        return False
    if key not in WINDOWS:
        point = point_from(key)
        WINDOWS[key] = None if point is None else window((P - point[0], point[1], 1, P - point[3]))
    if None not in WINDOWS:
        WINDOWS[None] = window(BASE)
    of_key, of_base = WINDOWS[key], WINDOWS[None]
    if of_key is None:
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + key + text).digest(), "little") % L
    reached = NEUTRAL
    for shift in range(252, -1, -4):
        for _ in range(4):
            reached = point_double(reached)
        reached = point_add(reached, of_base[s >> shift & 15])
        reached = point_add(reached, of_key[k >> shift & 15])
    return point_bytes(reached) == signature[:32]


# --- Tokens of identity providers (RFC 7515, 7518, 8037) -------------------------------------------------------------


def base64url(data):
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def exact_base64url(text):
    """None: it is no base64url without padding, or another text for the same bytes."""
    if not isinstance(text, str) or re.fullmatch("[A-Za-z0-9_-]*", text) is None:
        return None
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return None
    return data if base64url(data) == text else None


class Curve:
    """y^2 = x^3 - 3x + b over a prime field, with a group of prime order."""

    def __init__(self, size, prime, b, order, x, y):
        self.size, self.p, self.b, self.n, self.base = size, prime, b, order, (x, y, 1)

    def double(self, point):
        x, y, z = point
        if y == 0 or z == 0:
            return (1, 1, 0)
        p, zz, yy = self.p, z * z, y * y
        slope = 3 * (x - zz) * (x + zz) % p
        beta = 4 * x * yy % p
        new_x = (slope * slope - 2 * beta) % p
        return (new_x, (slope * (beta - new_x) - 8 * yy * yy) % p, 2 * y * z % p)

    def add(self, a, b):
        if a[2] == 0:
            return b
        if b[2] == 0:
            return a
        p = self.p
        za, zb = a[2] * a[2] % p, b[2] * b[2] % p
        ua, ub = a[0] * zb % p, b[0] * za % p
        sa, sb = a[1] * zb * b[2] % p, b[1] * za * a[2] % p
        if ua == ub:
            return self.double(a) if sa == sb else (1, 1, 0)
        h, r = ub - ua, sb - sa
        hh = h * h % p
        hhh, v = h * hh % p, ua * hh % p
        x = (r * r - hhh - 2 * v) % p
        return (x, (r * (v - x) - sa * hhh) % p, h * a[2] * b[2] % p)

    def times(self, number, point):
        reached = (1, 1, 0)
        for bit in bin(number)[2:]:
            reached = self.double(reached)
            if bit == "1":
                reached = self.add(reached, point)
        return reached

    def is_point(self, x, y):
        return x < self.p and y < self.p and (y * y - x * x * x + 3 * x - self.b) % self.p == 0

    def is_signature(self, x, y, digest, signature):
        r, s = (int.from_bytes(part, "big") for part in (signature[: self.size], signature[self.size :]))
        if len(signature) != 2 * self.size or not 0 < r < self.n or not 0 < s < self.n or not self.is_point(x, y):
            return False
        inverse, number = pow(s, -1, self.n), int.from_bytes(digest, "big")
        of_base = self.times(number * inverse % self.n, self.base)
        point = self.add(of_base, self.times(r * inverse % self.n, (x, y, 1)))
        if point[2] == 0:
            return False
        return point[0] * pow(point[2], -2, self.p) % self.p % self.n == r


P256 = Curve(
    32,
    2**256 - 2**224 + 2**192 + 2**96 - 1,
    0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B,
    0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
P384 = Curve(
    48,
    2**384 - 2**128 - 2**96 + 2**32 - 1,
    0xB3312FA7E23EE7E4988E056BE3F82D19181D9C6EFE8141120314088F5013875AC656398D8A2ED19D2A85C8EDD3EC2AEF,
    0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFC7634D81F4372DDF581A0DB248B0A77AECEC196ACCC52973,
    0xAA87CA22BE8B05378EB1C71EF320AD746E1D3B628BA79B9859F741E082542A385502F25DBF55296C3A545E3872760AB7,
    0x3617DE4A96262C6F5D9E98BF9292DC29F8F41DBD289A147CE9DA3113B5F0B8C00A60B1CE1D7E819D7A431D7C90EA0E5F,
)
DIGEST_INFO = {
    32: bytes.fromhex("3031300d060960864801650304020105000420"),
    48: bytes.fromhex("3041300d060960864801650304020205000430"),
    64: bytes.fromhex("3051300d060960864801650304020305000440"),
}
RSA_EXPONENT = 65537
BRACKETS_MAX = 100


def is_rsa_modulus(number):
    return 2048 <= number.bit_length() <= 8192 and number % 2 == 1


def rsa_block(modulus, signature):
    """The padded digest; None: the number is no signature under the modulus."""
    number = int.from_bytes(signature, "big")
    if len(signature) != (modulus.bit_length() + 7) // 8 or number >= modulus:
        return None
    return pow(number, RSA_EXPONENT, modulus).to_bytes(len(signature), "big")


def is_pkcs1_signature(modulus, text, signature, hashed=hashlib.sha256):
    block, digest = rsa_block(modulus, signature), hashed(text).digest()
    info = DIGEST_INFO[len(digest)] + digest
    return block is not None and block == b"\x00\x01" + b"\xff" * (len(block) - len(info) - 3) + b"\x00" + info


def is_pss_signature(modulus, text, signature):
    """RFC 8017, section 9.1.2, with MGF1, SHA-256 and a salt of 32 bytes."""
    block, bits = rsa_block(modulus, signature), modulus.bit_length() - 1
    if block is None:
        return False
    size = (bits + 7) // 8
    if any(block[: len(block) - size]):
        return False
    block = block[len(block) - size :]
    masked, seed, end = block[: size - 33], block[size - 33 : -1], block[-1]
    if end != 0xBC or masked[0] >> (8 - (8 * size - bits)) != 0:
        return False
    rounds = range((len(masked) + 31) // 32)
    mask = b"".join(hashlib.sha256(seed + count.to_bytes(4, "big")).digest() for count in rounds)
    data = bytearray(a ^ b for a, b in zip(masked, mask))
    data[0] &= 0xFF >> (8 * size - bits)
    salt_at = len(data) - 32
    if any(data[: salt_at - 1]) or data[salt_at - 1] != 1:
        return False
    digest = hashlib.sha256(text).digest()
    return hashlib.sha256(bytes(8) + digest + bytes(data[salt_at:])).digest() == seed


def is_rsa_token(check, jwk, text, signature):
    data = exact_base64url(jwk.get("n"))
    if jwk.get("kty") != "RSA" or jwk.get("e") != "AQAB" or not data or data[0] == 0:
        return False
    modulus = int.from_bytes(data, "big")
    return is_rsa_modulus(modulus) and check(modulus, text, signature)


def is_ec_token(curve, name, hashed, jwk, text, signature):
    x, y = exact_base64url(jwk.get("x")), exact_base64url(jwk.get("y"))
    if jwk.get("kty") != "EC" or jwk.get("crv") != name or x is None or y is None:
        return False
    if len(x) != curve.size or len(y) != curve.size:
        return False
    point = (int.from_bytes(x, "big"), int.from_bytes(y, "big"))
    return curve.is_signature(*point, hashed(text).digest(), signature)


def is_ed_token(jwk, text, signature):
    x = exact_base64url(jwk.get("x"))
    if jwk.get("kty") != "OKP" or jwk.get("crv") != "Ed25519" or x is None or len(x) != 32:
        return False
    y = int.from_bytes(x, "little") & (2**255 - 1)
    return y < P and y not in SMALL_ORDER_Y and is_signature(x, text, signature)


TOKENS = {
    "RS256": lambda *of: is_rsa_token(is_pkcs1_signature, *of),
    "PS256": lambda *of: is_rsa_token(is_pss_signature, *of),
    "ES256": lambda *of: is_ec_token(P256, "P-256", hashlib.sha256, *of),
    "ES384": lambda *of: is_ec_token(P384, "P-384", hashlib.sha384, *of),
    "EdDSA": is_ed_token,
    "Ed25519": is_ed_token,
}


def token_part(part):
    """None: the part of a token is not a JSON object, or has more brackets than any token has."""
    data = exact_base64url(part)
    try:
        text = "" if data is None else data.decode("utf-8")
        if text.count("[") + text.count("{") > BRACKETS_MAX:
            return None
        value = json.loads(text, parse_int=float, parse_constant=no_constant)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def token_claims(token, jwk):
    """None: the signature of the token is not that of the key."""
    parts = token.split(".")
    header = token_part(parts[0])
    if len(parts) != 3 or header is None or "crit" in header:
        return None
    algorithm, signature = header.get("alg"), exact_base64url(parts[2])
    check = TOKENS.get(algorithm) if isinstance(algorithm, str) else None
    if check is None or signature is None:
        return None
    text = ".".join(parts[:2]).encode("utf-8", "surrogatepass")
    return token_part(parts[1]) if check(jwk, text, signature) else None


PASSKEYS = {"EC": "ES256", "OKP": "EdDSA", "RSA": "RS256"}
ORIGIN = re.compile(r"(https?)://([a-z0-9.-]+)(?::[0-9]{1,5})?")


def is_origin_of(rp_id, origin):
    """Whether pages of the origin may use passkeys of the domain."""
    found = ORIGIN.fullmatch(origin) if isinstance(origin, str) else None
    if found is None:
        return False
    scheme, host = found.groups()
    is_secure = scheme == "https" or host == "localhost"
    return is_secure and (host == rp_id or host.endswith("." + rp_id))


def assertion_fault(assertion, jwk, rp_id, challenge):
    """None: the person has signed exactly this challenge with the passkey, on a page of the domain."""
    data, client, signature = (exact_base64url(assertion[name]) for name in ASSERTION)
    kind = jwk.get("kty")
    algorithm = PASSKEYS.get(kind) if isinstance(kind, str) else None
    if data is None or len(data) < 37 or client is None or signature is None or algorithm is None:
        return "esign_proof"
    if not TOKENS[algorithm](jwk, data + hashlib.sha256(client).digest(), signature):
        return "esign_proof"
    stated = token_part(assertion["client_data"])
    if stated is None or not same(stated.get("type"), "webauthn.get"):
        return "esign_proof"
    is_meant = (
        same(stated.get("challenge"), challenge)
        and data[:32] == hashlib.sha256(rp_id.encode("utf-8", "surrogatepass")).digest()
        and is_origin_of(rp_id, stated.get("origin"))
        and stated.get("crossOrigin") is not True
        and data[32] & 1 != 0
        and data[32] & 4 != 0
    )
    return None if is_meant else "esign_mismatch"


# --- JSON in its canonical form (RFC 8785) ---------------------------------------------------------------------------

MISSING = object()
SAFE_INTEGER = 2**53 - 1
INTEGER_CHARS_MAX = 17
LEVELS_MAX = 100


class NotExact(ValueError):
    pass


def utf16(text):
    return text.encode("utf-16-be", "surrogatepass")


def exact_integer(raw):
    # Before it is read: the time for that grows with the square of its length.
    if len(raw) > INTEGER_CHARS_MAX:
        raise NotExact
    value = int(raw)
    if raw == "-0" or abs(value) > SAFE_INTEGER:
        raise NotExact
    return value


def exact_float(raw):
    value = float(raw)
    if value != value or value in (float("inf"), float("-inf")) or value == int(value):
        raise NotExact
    if ecmascript_number(value) != raw:
        raise NotExact
    return value


def ecmascript_number(value):
    sign, text = ("-", repr(-value)) if value < 0 else ("", repr(value))
    mantissa, _, exponent = text.partition("e")
    whole, _, fraction = mantissa.partition(".")
    if fraction == "0":
        fraction = ""
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if 0 < point <= 21:
        return sign + digits[:point] + "." + digits[point:] if len(digits) > point else sign + digits.ljust(point, "0")
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    tail = "e" + ("+" if point > 0 else "-") + str(abs(point - 1))
    return sign + digits[0] + ("." + digits[1:] if len(digits) > 1 else "") + tail


def exact_pairs(pairs):
    value = dict(pairs)
    names = list(value)
    if len(names) != len(pairs) or names != sorted(names, key=utf16):
        raise NotExact
    return value


def no_constant(_name):
    raise NotExact


def exact_text(value, level=0):
    if level > LEVELS_MAX:
        raise NotExact
    if isinstance(value, dict):
        members = [
            exact_text(name, level + 1) + ":" + exact_text(value[name], level + 1)
            for name in sorted(value, key=utf16)
        ]
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(exact_text(item, level + 1) for item in value) + "]"
    if isinstance(value, float):
        return ecmascript_number(value)
    return json.dumps(value, ensure_ascii=False)


DECODER = json.JSONDecoder(
    object_pairs_hook=exact_pairs,
    parse_int=exact_integer,
    parse_float=exact_float,
    parse_constant=no_constant,
)


def exact_object(text):
    """None: the text is not the canonical JSON of an object."""
    try:
        value = DECODER.decode(text)
        if not isinstance(value, dict):
            return None
        is_deep = text.count("{") + text.count("[") > LEVELS_MAX
        again = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        if is_deep or again != text:
            again = exact_text(value)
        again.encode("utf-8")
        return value if again == text else None
    except (ValueError, RecursionError):
        return None


def exact_object_in(data):
    try:
        return None if data is None else exact_object(data.decode("utf-8"))
    except UnicodeDecodeError:
        return None


def same(a, b):
    """Whether two values are the same scalar."""
    if a is None or b is None or a is MISSING or b is MISSING:
        return a is b
    if isinstance(a, (dict, list)) or isinstance(a, bool) != isinstance(b, bool):
        return False
    return isinstance(a, str) == isinstance(b, str) and a == b


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def is_count(value, least=0):
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_hash(value):
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def object_in(value, name):
    member = value.get(name)
    return member if isinstance(member, dict) else {}


def exact_base64(text):
    """None: it is no base64, or another text for the same bytes."""
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (ValueError, AttributeError):
        return None
    return data if base64.b64encode(data).decode("ascii") == text else None


TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?"
    r"(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)


def exact_time(value):
    """Milliseconds since the epoch. None: it is no time of ISO 8601 with a zone."""
    found = TIME.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    fraction, sign, zone_hours, zone_minutes = found.groups()[6:]
    if year < 1 or not 1 <= month <= 12 or not 1 <= day <= calendar.monthrange(year, month)[1]:
        return None
    if hour > 23 or minute > 59 or second > 59:
        return None
    seconds = calendar.timegm((year, month, day, hour, minute, second))
    offset = 0 if sign is None else (int(zone_hours) * 60 + int(zone_minutes)) * 60
    seconds += offset if sign == "-" else -offset
    return seconds * 1000 + int(((fraction or "") + "000")[:3])


def sha256(data):
    return hashlib.sha256(data.encode("utf-8") if isinstance(data, str) else data).hexdigest()


# --- The archive -----------------------------------------------------------------------------------------------------

BLOCK = 512
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)*")
LINE_BYTES_MAX = 1_500_000
JSON_BYTES_MAX = 8_388_608
MEMBERS_MAX = 4_096
NOTE_BYTES_MAX = 100_000


def is_member_name(name):
    return len(name) <= 99 and NAME.fullmatch(name) is not None


def tar_header(name, size, mtime):
    def octal(value, digits):
        return b"%0*o\0" % (digits, value)

    before = name.encode("ascii").ljust(100, b"\0") + octal(0o644, 7) + octal(0, 7) * 2
    before += octal(size, 11) + octal(mtime, 11)
    after = b"0".ljust(101, b"\0") + b"ustar\x0000".ljust(72, b"\0") + octal(0, 7) * 2
    after = after.ljust(BLOCK - len(before) - 8, b"\0")
    total = sum(before) + sum(after) + 8 * ord(" ")
    return before + octal(total, 6) + b" " + after


class Archive:
    def __init__(self, path):
        self.file = open(path, "rb")
        self.total = os.fstat(self.file.fileno()).st_size
        self.members = {}
        self.folded = set()
        self.fault = self.read()

    def at(self, start, size):
        self.file.seek(start)
        return self.file.read(size)

    def read(self):
        at = 0
        while True:
            header = self.at(at, BLOCK)
            if header == bytes(BLOCK):
                is_end = self.total == at + 2 * BLOCK and self.at(at + BLOCK, BLOCK) == bytes(BLOCK)
                return None if is_end else at
            member = self.member(header)
            if member is None or member[0].lower() in self.folded or len(self.members) >= MEMBERS_MAX:
                return at
            name, size, mtime = member
            end = at + BLOCK + size
            padding = -size % BLOCK
            if end > self.total or self.at(end, padding) != bytes(padding):
                return at
            self.folded.add(name.lower())
            self.members[name] = (at + BLOCK, size, mtime)
            at = end + padding

    @staticmethod
    def member(header):
        name = header.split(b"\0", 1)[0].decode("latin-1")
        size, mtime = header[124:135], header[136:147]
        octal = re.compile(rb"[0-7]{11}")
        if len(header) < BLOCK or not is_member_name(name):
            return None
        if octal.fullmatch(size) is None or octal.fullmatch(mtime) is None:
            return None
        member = (name, int(size, 8), int(mtime, 8))
        return member if tar_header(*member) == header else None

    def hash(self, name):
        start, size, _ = self.members[name]
        digest = hashlib.sha256()
        while size > 0:
            data = self.at(start, min(size, 1 << 20))
            digest.update(data)
            start, size = start + len(data), size - len(data)
        return digest.hexdigest()

    def lines(self, name):
        """Without their line feeds. The last one is None if it has no line feed, or a line is too long."""
        start, size, _ = self.members[name]
        rest = b""
        while size > 0:
            data = self.at(start, min(size, 1 << 18))
            start, size = start + len(data), size - len(data)
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield line if len(line) <= LINE_BYTES_MAX else None
                if len(line) > LINE_BYTES_MAX:
                    return
            if len(rest) > LINE_BYTES_MAX:
                yield None
                return
        if rest:
            yield None

    def only_line(self, name):
        start, size, _ = self.members.get(name, (0, JSON_BYTES_MAX + 1, 0))
        if size > JSON_BYTES_MAX:
            return None
        data = self.at(start, size)
        return data[:-1] if data and data.find(b"\n") == len(data) - 1 else None


# --- The Merkle log (RFC 9162) and its signed checkpoints (C2SP) ------------------------------------------------------


def node_hash(left, right):
    return hashlib.sha256(b"\x01" + left + right).digest()


def root_above(index, leaf, size, proof):
    """The root of the tree in which the proof leads from the leaf. None: no tree of this size has such a proof."""
    if index >= size or any(len(one) != 32 for one in proof):
        return None
    node, last, reached = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            return None
        if node & 1 or node == last:
            reached = node_hash(sibling, reached)
            while not node & 1 and node != 0:
                node, last = node >> 1, last >> 1
        else:
            reached = node_hash(reached, sibling)
        node, last = node >> 1, last >> 1
    return reached if last == 0 else None


def is_consistent(older, newer, proof):
    if older["size"] > newer["size"]:
        return False
    if older["size"] == newer["size"]:
        return not proof and older["root"] == newer["root"]
    if older["size"] == 0:
        return not proof
    if not proof or any(len(one) != 32 for one in proof):
        return False
    node, last = older["size"] - 1, newer["size"] - 1
    while node & 1:
        node, last = node >> 1, last >> 1
    path = [older["root"]] + proof if node == 0 else proof
    of_older = of_newer = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if node & 1 or node == last:
            of_older, of_newer = node_hash(sibling, of_older), node_hash(sibling, of_newer)
            while not node & 1 and node != 0:
                node, last = node >> 1, last >> 1
        else:
            of_newer = node_hash(of_newer, sibling)
        node, last = node >> 1, last >> 1
    return last == 0 and of_older == older["root"] and of_newer == newer["root"]


SPACE = "\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
SIGNATURE_LINE = re.compile("\u2014 ([^" + SPACE + "]+) ([^" + SPACE + "]+)")


def checkpoint_in(text):
    lines = text.split("\n")
    if len(lines) < 4 or lines[-1] != "" or "" in lines[:-1]:
        return None
    origin, size, root = lines[:3]
    root = exact_base64(root)
    if re.fullmatch("0|[1-9][0-9]{0,15}", size) is None or root is None or len(root) != 32:
        return None
    if int(size) > SAFE_INTEGER:
        return None
    return {"origin": origin, "size": int(size), "root": root}


def key_hash(origin, raw):
    return hashlib.sha256(origin.encode("utf-8") + b"\n\x01" + raw).digest()[:4]


NOTE_TRIES_MAX = 2


class NoteKeys:
    """Keys in the order in which they are tried, found by the hash in a signature."""

    def __init__(self, keys):
        self.keys, self.origin, self.by_hash = keys, None, {}

    def find(self, origin, digest):
        if origin != self.origin:
            self.origin, self.by_hash = origin, {}
            for key in self.keys:
                self.by_hash.setdefault(key_hash(origin, key["raw"]), []).append(key)
        return self.by_hash.get(digest, [])


def open_checkpoint(note, keys):
    """The checkpoint and the key that signed it. None: it is none, or not signed with one of the keys.

    At most two signatures are tried that name one of the keys: a log signs a checkpoint once.
    """
    tries = 0
    at = note.rfind("\n\n")
    if at < 0:
        return None
    text, lines = note[: at + 1], note[at + 2 :].split("\n")
    if lines.pop() != "" or not 1 <= len(lines) <= 100:
        return None
    checkpoint = checkpoint_in(text)
    if checkpoint is None:
        return None
    for line in lines:
        found = SIGNATURE_LINE.fullmatch(line)
        data = exact_base64(found.group(2)) if found else None
        if data is None:
            return None
        if found.group(1) != checkpoint["origin"]:
            continue
        for key in keys.find(checkpoint["origin"], data[:4]):
            if is_signature(key["raw"], text.encode("utf-8"), data[4:]):
                return checkpoint, key
            tries += 1
            if tries == NOTE_TRIES_MAX:
                return None
    return None


# --- Time-stamps (RFC 3161), certificates (RFC 5280) and signed data (RFC 5652), in DER --------------------------------


class NotDer(ValueError):
    """The bytes are not DER in its only form, or not of the expected structure."""


class Value:
    def __init__(self, tag, content, whole):
        self.tag, self.content, self.whole = tag, content, whole

    def of(self, tag):
        if self.tag != tag:
            raise NotDer
        return self.content

    def members(self, tag=0x30):
        return Members(values_in(self.of(tag)))

    def only(self, tag):
        return only_value(self.of(tag))

    def oid(self):
        content = self.of(0x06)
        if not content:
            raise NotDer
        return content.hex()

    def algorithm(self):
        return self.members()[0].oid()


class Members(list):
    def __getitem__(self, place):
        if isinstance(place, int) and not -len(self) <= place < len(self):
            raise NotDer
        return list.__getitem__(self, place)


def values_in(data):
    values, at = [], 0
    while at < len(data):
        tag, start = data[at], at + 2
        if tag & 0x1F == 0x1F or start > len(data):
            raise NotDer
        length = data[at + 1]
        if length >= 0x80:
            count = length - 0x80
            digits = data[start : start + count]
            length, start = int.from_bytes(digits, "big"), start + count
            if not 1 <= count <= 3 or len(digits) < count or digits[0] == 0 or length < 0x80:
                raise NotDer
        if start + length > len(data):
            raise NotDer
        values.append(Value(tag, data[start : start + length], data[at : start + length]))
        at = start + length
    return values


def only_value(data):
    values = values_in(data)
    if len(values) != 1:
        raise NotDer
    return values[0]


def positive(value):
    content = value.of(0x02)
    if not content or content[0] >= 0x80 or (content[0] == 0 and (len(content) == 1 or content[1] < 0x80)):
        raise NotDer
    return content[1:] if content[0] == 0 else content


def whole_bits(value):
    content = value.of(0x03)
    if content[:1] != b"\0":
        raise NotDer
    return content[1:]


DER_TIME = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})(?:\.([0-9]{1,9}))?Z")


def der_time(value):
    text = value.content.decode("latin-1")
    is_short = value.tag == 0x17 and re.fullmatch("[0-9]{12}Z", text) is not None
    if not is_short and value.tag != 0x18:
        raise NotDer
    found = DER_TIME.fullmatch(("20" if text[:2] < "50" else "19") + text if is_short else text)
    if found is None:
        raise NotDer
    time = exact_time("%s-%s-%sT%s:%s:%s.%sZ" % (found.groups()[:6] + (found.group(7) or "0",)))
    if time is None:
        raise NotDer
    return time


class Certificate:
    def __init__(self, value):
        parts = value.members()
        members = parts[0].members()
        if members[0].tag == 0xA0:
            del members[0]
        if members[1].whole != parts[1].whole:
            raise NotDer
        validity = members[3].members()
        self.whole, self.signed = value.whole, parts[0].whole
        self.issuer, self.subject = members[2].of(0x30), members[4].of(0x30)
        self.start, self.end = der_time(validity[0]), der_time(validity[1])
        self.public_key = members[5]
        self.algorithm, self.signature = parts[1].algorithm(), whole_bits(parts[2])
        self.extensions = {}
        rest = [one for one in members[6:] if one.tag == 0xA3]
        for extension in rest[0].only(0xA3).members() if rest else []:
            facts = extension.members()
            name = facts[0].oid()
            is_critical = len(facts) > 1 and facts[1].tag == 0x01 and facts[1].content[:1] == b"\xff"
            if name in self.extensions:
                raise NotDer
            self.extensions[name] = (is_critical, facts[-1].of(0x04))

    def is_usable(self, at):
        known = (BASIC_CONSTRAINTS, KEY_USAGE, EXTENDED_KEY_USAGE, POLICIES)
        is_known = all(name in known or not is_critical for name, (is_critical, _) in self.extensions.items())
        return is_known and self.start <= at <= self.end

    def has_usage(self, bits):
        if KEY_USAGE not in self.extensions:
            return True
        content = only_value(self.extensions[KEY_USAGE][1]).of(0x03)
        return len(content) > 1 and content[1] & bits != 0

    def is_of_authority(self, at):
        """A certificate of a time-stamp authority may do nothing else (RFC 3161, section 2.3)."""
        is_critical, usage = self.extensions.get(EXTENDED_KEY_USAGE, (False, b""))
        if not is_critical:
            return False
        purposes = [one.oid() for one in only_value(usage).members()]
        return purposes == [TIME_STAMPING] and self.is_usable(at) and self.has_usage(0xC0)

    def may_issue(self, below, at):
        if BASIC_CONSTRAINTS not in self.extensions:
            return False
        facts = only_value(self.extensions[BASIC_CONSTRAINTS][1]).members()
        if not facts or facts[0].tag != 0x01 or facts[0].content[:1] != b"\xff":
            return False
        if len(facts) > 1:
            most = facts[1].of(0x02)
            if len(most) != 1:
                raise NotDer
            if most[0] < below:
                return False
        return self.is_usable(at) and self.has_usage(0x04)

    def is_issued_by(self, issuer, checks):
        is_named = issuer.subject == self.issuer
        return is_named and checks.is_certified(issuer, self.algorithm, None, self.signed, self.signature)


BASIC_CONSTRAINTS, KEY_USAGE, EXTENDED_KEY_USAGE, POLICIES = "551d13", "551d0f", "551d25", "551d20"
TIME_STAMPING = "2b06010505070308"
RSA_ENCRYPTION, EC_PUBLIC_KEY = "2a864886f70d010101", "2a8648ce3d0201"
CURVES = {"2a8648ce3d030107": P256, "2b81040022": P384}
DIGESTS = {
    "608648016503040201": hashlib.sha256,
    "608648016503040202": hashlib.sha384,
    "608648016503040203": hashlib.sha512,
}
CERTIFIED = {
    "2a864886f70d01010b": (RSA_ENCRYPTION, hashlib.sha256),
    "2a864886f70d01010c": (RSA_ENCRYPTION, hashlib.sha384),
    "2a864886f70d01010d": (RSA_ENCRYPTION, hashlib.sha512),
    "2a8648ce3d040302": (EC_PUBLIC_KEY, hashlib.sha256),
    "2a8648ce3d040303": (EC_PUBLIC_KEY, hashlib.sha384),
    "2a8648ce3d040304": (EC_PUBLIC_KEY, hashlib.sha512),
}


# Different signatures of certificates in one bundle. Each takes milliseconds.
CHECKS_MAX = 2_000


class TooMuchWork(Exception):
    """The bundle needs more work than a verifier does."""


class Checks:
    """Verifies the signatures of the keys in certificates, each once and not more than a bundle of a fleet needs."""

    def __init__(self):
        self.known = set()

    def is_certified(self, certificate, algorithm, digest, text, signature):
        """`digest`: of a signature whose algorithm names none."""
        known = (certificate.public_key.whole, algorithm, digest, hashlib.sha256(text).digest(), signature)
        if known not in self.known:
            if len(self.known) >= CHECKS_MAX:
                raise TooMuchWork
            self.known.add(known)
        if known not in SIGNATURES:
            SIGNATURES[known] = compute_certified(certificate, algorithm, digest, text, signature)
        return SIGNATURES[known]


def compute_certified(certificate, algorithm, digest, text, signature):
    try:
        parts = certificate.public_key.members()
        identifier = parts[0].members()
        is_plain = algorithm == RSA_ENCRYPTION and digest is not None
        kind, hashed = (RSA_ENCRYPTION, digest) if is_plain else CERTIFIED.get(algorithm, (None, None))
        if identifier[0].oid() != kind:
            return False
        key = whole_bits(parts[1])
        if kind == RSA_ENCRYPTION:
            numbers = only_value(key).members()
            modulus, exponent = (int.from_bytes(positive(numbers[at]), "big") for at in (0, 1))
            is_key = exponent == RSA_EXPONENT and is_rsa_modulus(modulus)
            return is_key and is_pkcs1_signature(modulus, text, signature, hashed)
        curve = CURVES.get(identifier[1].oid())
        if curve is None or len(key) != 1 + 2 * curve.size or key[0] != 4:
            return False
        pair = [positive(one) for one in only_value(signature).members()]
        if len(pair) != 2 or any(len(one) > curve.size for one in pair):
            return False
        x, y = (int.from_bytes(part, "big") for part in (key[1 : 1 + curve.size], key[1 + curve.size :]))
        numbers = b"".join(one.rjust(curve.size, b"\0") for one in pair)
        return curve.is_signature(x, y, hashed(text).digest()[: curve.size], numbers)
    except NotDer:
        return False


CHAIN_MAX = 6


def leads_to_trusted(certificate, trusted, others, at, checks):
    """Whether issuers lead from the certificate to a trusted one, or it is one itself. Revocations are not looked up."""
    level, seen = [certificate], []
    for below in range(CHAIN_MAX):
        if any(one.whole == root.whole for one in level for root in trusted):
            return True
        issuers = [
            issuer
            for issuer in trusted + others
            if issuer not in seen and issuer.may_issue(below, at) and any(one.is_issued_by(issuer, checks) for one in level)
        ]
        seen += issuers
        level = issuers
    return False


PEM = re.compile("-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\\s]+)-----END CERTIFICATE-----", re.ASCII)


def certificates_in(text):
    """The certificates in a text (PEM). None: it has none, or one that cannot be read."""
    try:
        found = [base64.b64decode(re.sub("\\s", "", part)) for part in PEM.findall(text)]
        return [Certificate(only_value(data)) for data in found] or None
    except ValueError:
        return None


SIGNED_DATA, TST_INFO = "2a864886f70d010702", "2a864886f70d0109100104"
CONTENT_TYPE, MESSAGE_DIGEST = "2a864886f70d010903", "2a864886f70d010904"
SIGNING_CERTIFICATE, SIGNING_CERTIFICATE_V2 = "2a864886f70d010910020c", "2a864886f70d010910022f"
CERTIFICATES_MAX = 16


def stamped_time(response, content, trusted, checks=None):
    """The time of a time-stamp of the content, and whether its authority is trusted. None: it is no valid time-stamp."""
    try:
        return judge_stamp(response, content, trusted, Checks() if checks is None else checks)
    except NotDer:
        return None


def judge_stamp(response, content, trusted, checks):
    parts = only_value(response).members()
    status = parts[0].members()[0].of(0x02)
    if len(status) != 1 or status[0] > 1:
        return None
    token = parts[1].members()
    if token[0].oid() != SIGNED_DATA:
        return None
    signed = token[1].only(0xA0).members()
    encapsulated, signers, rest = signed[2].members(), signed[-1].members(0x31), signed[3:-1]
    if len(signed) < 4 or len(signers) != 1 or encapsulated[0].oid() != TST_INFO:
        return None
    info = encapsulated[1].only(0xA0).of(0x04)
    members = [one for part in rest if part.tag == 0xA0 for one in part.members(0xA0) if one.tag == 0x30]
    if len(members) > CERTIFICATES_MAX:
        return None
    certificates = [Certificate(one) for one in members]
    signer = signers[0].members()
    attributes = {}
    for attribute in signer[3].members(0xA0):
        facts = attribute.members()
        if facts[0].oid() in attributes:
            return None
        attributes[facts[0].oid()] = facts[1].only(0x31)
    digest, algorithm, signature = DIGESTS.get(signer[2].algorithm()), signer[4].algorithm(), signer[5].of(0x04)
    stamp = only_value(info).members()
    imprint = stamp[2].members()
    if stamp[0].of(0x02) != b"\x01" or stamp[4].tag != 0x18:
        return None
    at = der_time(stamp[4])
    is_of_content = (
        imprint[0].algorithm() == "608648016503040201" and imprint[1].of(0x04) == hashlib.sha256(content).digest()
    )
    if digest is None or not is_of_content or CONTENT_TYPE not in attributes or MESSAGE_DIGEST not in attributes:
        return None
    if attributes[CONTENT_TYPE].oid() != TST_INFO or attributes[MESSAGE_DIGEST].of(0x04) != digest(info).digest():
        return None
    # They are signed as a set (RFC 5652, section 5.4).
    text = b"\x31" + signer[3].whole[1:]
    named = [one for one in certificates if is_named_certificate(attributes, one)]
    if not named or not checks.is_certified(named[0], algorithm, digest, text, signature) or not named[0].is_of_authority(at):
        return None
    return at, trusted is None or leads_to_trusted(named[0], trusted, certificates, at, checks)


def is_named_certificate(attributes, certificate):
    """Whether the certificate is that of the signed attribute (RFC 5035; RFC 2634 with SHA-1)."""
    is_second = SIGNING_CERTIFICATE_V2 in attributes
    attribute = attributes.get(SIGNING_CERTIFICATE_V2 if is_second else SIGNING_CERTIFICATE)
    if attribute is None:
        return False
    parts = attribute.members()[0].members()[0].members()
    hashed, place = hashlib.sha256 if is_second else hashlib.sha1, 0
    if is_second and parts[0].tag == 0x30:
        hashed, place = DIGESTS.get(parts[0].algorithm()), 1
    return hashed is not None and hashed(certificate.whole).digest() == parts[place].of(0x04)


# --- Keys and signatures ---------------------------------------------------------------------------------------------

COMMIT_TYPE = "application/vnd.fleet.commit.v1+json"
ESIGN_TYPE = "application/vnd.fleet.esign.v1+json"
ENROLMENT_TYPE = "application/vnd.fleet.esign-passkey.v1+json"
BATCH_TYPE = "application/vnd.fleet.batch.v1"
CLOCK_SKEW_MS = 30_000
# Others may have a key that was revoked so.
EXPOSED_REASONS = ("compromised", "lost")
# From the weakest to the strongest.
REVOCATION_RANKS = ("replaced", "lost", "compromised")
LOG_DELAY_MS = 600_000
# More than any fleet has had.
KEYS_MAX = 5_000
SPKI = bytes.fromhex("302a300506032b6570032100")
CHANGES = {
    "key_add": {"owner": "owner", "purpose": "purpose", "not_before": "not_before", "replaces": "replaces"},
    "key_retire": {"not_after": "not_after"},
    "key_revoke": {"revoked_at": "revoked_at", "revoked_reason": "reason"},
    "key_rotate": {},
}
KEY_FACTS = ["owner", "purpose", "not_before", "replaces", "not_after", "revoked_at", "revoked_reason"]


def key_of(record):
    """None: the record is not one of an Ed25519 key that can be used."""
    if not isinstance(record, dict):
        return None
    key_id, public_key = record.get("key_id"), record.get("public_key")
    if not all(isinstance(one, str) for one in (key_id, public_key, record.get("purpose"))):
        return None
    der = exact_base64(public_key)
    if record.get("algorithm") != "ed25519" or der is None or len(der) != 44 or der[:12] != SPKI:
        return None
    y = int.from_bytes(der[12:], "little") & (2**255 - 1)
    if sha256(der) != key_id or y >= P or y in SMALL_ORDER_Y:
        return None
    key = {"id": key_id, "raw": der[12:], "purpose": record["purpose"], "record": record}
    for name in ("not_before", "not_after", "revoked_at"):
        value = record.get(name, MISSING)
        key[name] = exact_time(value)
        if key[name] is None and (name == "not_before" or value is not None):
            return None
    return key


class Keys:
    def __init__(self, known_revoked=()):
        self.all = {}
        self.used = set()
        self.known_revoked = known_revoked
        # The number of the entry that revoked a key, in the chain of the tenant `default`.
        self.revoked_in = {}
        # The strongest reason that the valid changes of a key state. An earlier version may have recorded a weaker one.
        self.reasons = {}
        self.are_proved, self.is_required = False, False

    def is_revoked(self, key_id):
        """A thief may have it: what it signed proves nothing about the time."""
        return key_id in self.known_revoked or (key_id in self.all and self.all[key_id]["revoked_at"] is not None)

    def revocations(self):
        """Of the keys with valid signatures."""
        found = []
        for key_id in sorted(self.used):
            if self.is_revoked(key_id):
                key = self.all[key_id]
                revoked_at, reason = key["record"].get("revoked_at"), self.reason_of(key)
                reason = reason if isinstance(reason, str) else None
                found.append({"key_id": key_id, "revoked_at": revoked_at, "reason": reason})
        return found

    def note_revocation(self, key_id, seq, reason):
        """The first entry counts for the order: a later one can only name an earlier time or another reason."""
        self.revoked_in.setdefault(key_id, seq)
        if revocation_rank(reason) > revocation_rank(self.reasons.get(key_id)):
            self.reasons[key_id] = reason

    def reason_of(self, key):
        stated, recorded = self.reasons.get(key["id"]), key["record"].get("revoked_reason")
        is_stronger = revocation_rank(stated) > revocation_rank(recorded)
        return stated if key["revoked_at"] is not None and is_stronger else recorded

    def judge_envelope(self, envelope):
        """The id of the key, the problem, and the statement if the signature is that of the key."""
        if not isinstance(envelope, dict) or not isinstance(envelope.get("signatures"), list):
            return None, "signature_invalid", None
        signatures = envelope["signatures"]
        is_of_commit = same(envelope.get("payloadType"), COMMIT_TYPE)
        if not is_of_commit or len(signatures) != 1 or not isinstance(signatures[0], dict):
            return None, "signature_invalid", None
        key_id, sig, text = signatures[0].get("keyid"), signatures[0].get("sig"), envelope.get("payload")
        if not all(isinstance(one, str) for one in (key_id, sig, text)):
            return None, "signature_invalid", None
        key = self.all.get(key_id)
        if key is None:
            return key_id, "key_unknown", None
        payload, signature = exact_base64(text), exact_base64(sig)
        part = None if payload is None or signature is None else signed_part(payload, signature)
        if part is None:
            return key_id, "signature_invalid", None
        statement = exact_object_in(payload) if is_signature(key["raw"], *part) else None
        if statement is None or not is_statement(statement):
            return key_id, "signature_invalid", None
        return key_id, None if key["purpose"] == "commits" else "key_purpose", statement

    def judge_entry(self, entry, after, is_required):
        """What is wrong with an entry; `unsigned`: it was never signed. None: it is signed."""
        facts, seq = entry["facts"], entry["seq"]
        signed_by, action = facts.get("signed_by", MISSING), facts.get("action")
        is_key_change = isinstance(action, str) and action.startswith("key_")
        may_lack = signed_by is MISSING and not is_required and not is_key_change
        absent = "unsigned" if may_lack else "signature_missing"
        if after is None:
            return absent
        end, (key_id, problem, statement) = after
        if statement is None:
            return absent if signed_by is MISSING and end != seq else problem
        first, entries = statement["first"], statement["entries"]
        last = first + len(entries) - 1
        is_of_chain = same(statement["tenant"], entry["tenant"]) and same(statement["task"], entry["task"])
        if not is_of_chain or last != end:
            return "signature_moved"
        if seq < first:
            return absent
        is_signed = same(entries[seq - first], entry["hash"]) and same(signed_by, key_id)
        if not is_signed or (seq == last and not same(facts.get("at", MISSING), statement["at"])):
            return "signature_mismatch"
        # In the chain that has the revocation, the order of the entries decides, and no clock.
        is_of_keys = same(entry["tenant"], "default") and entry["task"] is None
        is_after = is_of_keys and seq > self.revoked_in.get(key_id, seq)
        end = "key_revoked" if is_after else None
        found = problem or end or time_problem(self.all[key_id], self.reason_of(self.all[key_id]), entry, statement)
        if found is None:
            self.used.add(key_id)
        return found


def dsse(payload_type, payload):
    """The bytes that a DSSE signature covers."""
    return b"DSSEv1 %d %s %d " % (len(payload_type), payload_type.encode("ascii"), len(payload)) + payload


def signed_part(payload, signature):
    """What Ed25519 covers: the payload, or the root of a batch in which it is a leaf. None: it is no signature."""
    text = dsse(COMMIT_TYPE, payload)
    if len(signature) == 64:
        return text, signature
    if len(signature) < 68 or (len(signature) - 68) % 32 != 0:
        return None
    index, size = int.from_bytes(signature[64:66], "big"), int.from_bytes(signature[66:68], "big")
    path = [signature[at : at + 32] for at in range(68, len(signature), 32)]
    root = root_above(index, hashlib.sha256(b"\x00" + text).digest(), size, path)
    if root is None:
        return None
    return dsse(BATCH_TYPE, signature[66:68] + root), signature[:64]


def is_statement(value):
    return (
        same(value.get("v"), 1)
        and isinstance(value.get("at"), str)
        and isinstance(value.get("checkpoints"), list)
        and isinstance(value.get("entries"), list)
        and len(value["entries"]) > 0
        and is_count(value.get("first"), 1)
        and isinstance(value.get("task", MISSING), (str, type(None)))
        and isinstance(value.get("tenant"), str)
    )


def time_problem(key, reason, entry, statement):
    signed, written = exact_time(statement["at"]), exact_time(entry["facts"].get("at"))
    before = exact_time(entry["before"])
    own = None if signed is None or written is None else max(signed, written)
    if key["revoked_at"] is not None and (own is None or own > key["revoked_at"]):
        return "key_revoked"
    if own is None:
        return "key_expired"
    # The entry before it alone is no proof against the key: its clock may have been wrong.
    is_exposed = any(same(reason, one) for one in EXPOSED_REASONS)
    floor = own if before is None else before - (0 if is_exposed else CLOCK_SKEW_MS)
    if max(own, floor) < key["not_before"]:
        return "key_expired"
    if key["not_after"] is not None and own > key["not_after"]:
        return "key_expired"
    is_behind_end = any(end is not None and floor > end for end in (key["revoked_at"], key["not_after"]))
    return "time_contradicted" if is_behind_end else None


def change_at(change, last, before):
    if not isinstance(change, dict) or not is_count(change.get("seq"), last + 1):
        return None
    seq, text = change["seq"], change.get("entry")
    facts = exact_object(text) if isinstance(text, str) else None
    if facts is None or not is_count(change.get("end"), seq):
        return None
    action = facts.get("action")
    if not isinstance(action, str) or action not in CHANGES:
        return None
    if not isinstance(object_in(facts, "subject").get("key_id"), str):
        return None
    if not same(facts.get("seq"), seq) or not same(facts.get("tenant"), "default") or "task" in facts:
        return None
    return {"tenant": "default", "task": None, "seq": seq, "hash": sha256(text), "facts": facts, "before": before}


def keys_in(keyset, tenant, known_revoked, findings):
    keys = Keys(known_revoked)
    keys.is_required = keyset.get("signatures_required") is True
    records, changes = keyset.get("keys"), keyset.get("changes", MISSING)
    if not isinstance(records, list) or not (changes is None or isinstance(changes, list)):
        findings.add(("keyset.json", "keyset"))
        return keys
    for i, record in enumerate(records):
        key = key_of(record)
        if key is None or key["id"] in keys.all:
            findings.add(("keyset.json/%d" % i, "key_invalid"))
        elif len(keys.all) == KEYS_MAX:
            findings.add(("keyset.json/%d" % i, "limit"))
            break
        else:
            keys.all[key["id"]] = key
    for key_id, key in keys.all.items():
        if key["revoked_at"] is None and key_id in known_revoked:
            findings.add(("key:" + key_id, "key_revoked"))
    if changes is None:
        if tenant == "default":
            findings.add(("keyset.json", "keyset"))
        return keys
    keys.are_proved = True
    judge_changes(changes, keys, findings)
    return keys


def revocation_rank(reason):
    return REVOCATION_RANKS.index(reason) if isinstance(reason, str) and reason in REVOCATION_RANKS else -1


def judge_changes(changes, keys, findings):
    stated, last, before = {}, 0, None
    for change in changes:
        entry = change_at(change, last, before)
        if entry is None:
            findings.add(("keyset.json", "keyset"))
            return
        last, before = entry["seq"], entry["facts"].get("at")
        after = (change["end"], keys.judge_envelope(change.get("signature")))
        problem = keys.judge_entry(entry, after, True)
        if problem is not None:
            findings.add(("keyset.json/%d" % last, problem))
            continue
        subject = object_in(entry["facts"], "subject")
        facts = stated.setdefault(subject["key_id"], {})
        if entry["facts"]["action"] == "key_revoke" and "revoked_at" in facts:
            earlier, later = exact_time(facts["revoked_at"]), exact_time(subject.get("revoked_at"))
            if earlier is None or later is None or later > earlier:
                findings.add(("keyset.json/%d" % last, "keyset"))
                continue
            # Fleets of an earlier version stated a weaker reason with an earlier time: the strongest reason counts.
            rank = revocation_rank(subject.get("reason"))
            if rank < revocation_rank(facts.get("revoked_reason")) and (rank < 0 or later == earlier):
                findings.add(("keyset.json/%d" % last, "keyset"))
                continue
        for name, member in CHANGES[entry["facts"]["action"]].items():
            facts[name] = subject.get(member)
        if entry["facts"]["action"] == "key_revoke":
            keys.note_revocation(subject["key_id"], last, subject.get("reason"))
    for key_id in set(stated) | set(keys.all):
        facts = stated.get(key_id, {})
        record = keys.all[key_id]["record"] if key_id in keys.all else None
        if record is None or facts.get("owner") is None:
            findings.add(("key:" + key_id, "key_unproved"))
        elif not all(same(record.get(name), facts.get(name)) for name in KEY_FACTS):
            findings.add(("key:" + key_id, "key_unproved"))


# --- Anchors ---------------------------------------------------------------------------------------------------------

ANCHOR_TARGETS = ["bucket", "folder", "timestamp"]
# Of each target; an exporter writes no more.
ANCHORS_MAX = 1_000
# The fleet keeps no larger one.
TOKEN_BYTES_MAX = 24_576
CLOCK_DIFFERENCE_MS = 300_000
LATE_MS = CLOCK_DIFFERENCE_MS + LOG_DELAY_MS


def hashes_of(proof):
    """None: it is no proof."""
    hashes = [exact_base64(one) for one in proof] if isinstance(proof, list) else [None]
    return None if None in hashes else hashes


class Anchors:
    """The copies of the log's checkpoints at places outside the store, and the time-stamps of authorities."""

    def __init__(self, log, keys, origin, trusted, findings):
        self.log, self.keys, self.origin, self.trusted, self.findings = log, NoteKeys(keys), origin, trusted, findings
        self.checks, self.of_target = Checks(), {}
        self.newest, self.proofs, self.stamps = {}, {}, []
        self.count = self.timestamped = 0
        self.omitted_before = None

    def read(self, lines):
        before = SAFE_INTEGER
        for number, data in enumerate(lines, 1):
            line, at = exact_object_in(data), "anchors.jsonl:%d" % number
            try:
                size = None if line is None else self.add(line, before, at)
            except TooMuchWork:
                self.findings.add((at, "limit"))
                break
            if size is None:
                self.findings.add((at, "anchor"))
                break
            before = size
        if self.trusted is not None and not self.stamps:
            self.findings.add(("anchors.jsonl", "timestamp_missing"))
        self.stamps.sort()
        times = [time for _, time in self.stamps]
        self.sizes = [size for size, _ in self.stamps]
        self.latest = list(itertools.accumulate(times, max))
        self.earliest = list(itertools.accumulate(reversed(times), min))[::-1]

    def add(self, line, before, at):
        """The size of the anchor, or of the last line. None: it cannot stand here. TooMuchWork: no fleet writes it."""
        if self.omitted_before is not None:
            return None
        if "omitted_before" in line:
            self.omitted_before = line["omitted_before"] if is_count(line["omitted_before"], 1) else None
            return self.omitted_before
        token = self.token_in(line)
        if token is None or line["size"] > before:
            return None
        self.of_target[line["target"]] = self.of_target.get(line["target"], 0) + 1
        if self.of_target[line["target"]] > ANCHORS_MAX or len(token) > TOKEN_BYTES_MAX:
            raise TooMuchWork
        self.count += 1
        problem = self.log_problem(line) or self.stamp_problem(line, token)
        if problem is not None:
            self.findings.add((at, problem))
            return line["size"]
        target, size = line["target"], line["size"]
        if target == "timestamp":
            self.stamps.append((size, exact_time(line["at"])))
        if target not in self.newest:
            is_trusted = self.trusted is not None
            time = "stated" if target != "timestamp" else "verified" if is_trusted else "unverified"
            self.newest[target] = {"time": time}
            for name in ("target", "size", "at", "object", "retained_until"):
                self.newest[target][name] = line[name]
        return size

    @staticmethod
    def token_in(line):
        """Empty: the anchor has none. None: the line is no anchor."""
        target, token = line.get("target"), line.get("token", MISSING)
        if not isinstance(target, str) or target not in ANCHOR_TARGETS or not is_count(line.get("size"), 1):
            return None
        kind = str if target == "bucket" else type(None)
        is_placed = all(isinstance(line.get(name, MISSING), kind) for name in ("object", "retained_until"))
        is_read = isinstance(line.get("checkpoint"), str) and exact_time(line.get("at")) is not None
        if not is_placed or not is_read or "consistency" not in line:
            return None
        if target == "timestamp":
            return exact_base64(token)
        return b"" if token is None else None

    def log_problem(self, line):
        # Before its keys are looked for: those of another name would be others.
        is_of_log = line["checkpoint"].startswith(self.origin + "\n")
        opened = open_checkpoint(line["checkpoint"], self.keys) if is_of_log else None
        if opened is None or opened[0]["size"] != line["size"]:
            return "anchor_invalid"
        proof = hashes_of(line["consistency"])
        if self.log is None:
            return "anchor_unproved"
        if line["size"] > self.log["size"]:
            return "anchor_longer"
        if proof is None:
            return "anchor_unproved"
        if not is_consistent(opened[0], self.log, proof):
            return "anchor_forked"
        self.proofs[line["size"]] = line["consistency"]
        return None

    def stamp_problem(self, line, token):
        if line["target"] != "timestamp":
            return None
        judged = stamped_time(token, line["checkpoint"].encode("utf-8"), self.trusted, self.checks)
        if judged is None:
            return "timestamp_invalid"
        if not judged[1]:
            return "timestamp_untrusted"
        return None if judged[0] == exact_time(line["at"]) else "timestamp_invalid"

    def judge(self, index, at):
        """What a time-stamp says against the time of the entry with this number in the log. None: nothing."""
        first = bisect.bisect_right(self.sizes, index)
        is_covered = first < len(self.sizes)
        self.timestamped += 1 if is_covered else 0
        written = exact_time(at)
        if written is None:
            return None
        if is_covered and written > self.earliest[first] + CLOCK_DIFFERENCE_MS:
            return "postdated"
        return "backdated" if first > 0 and written < self.latest[first - 1] - LATE_MS else None


# --- export.jsonl ----------------------------------------------------------------------------------------------------

PART_BYTES = 1_048_576
COUNTED = ["entries", "versions", "lost", "records", "records_lost", "handoffs"]


class Fault(Exception):
    """The code of a fault in a line, which ends the reading."""


def require(condition, code):
    if not condition:
        raise Fault(code)


class Artifacts:
    def __init__(self, counts):
        self.counts, self.missing, self.seen, self.open = counts, {}, set(), None
        counts.update(artifacts=0, artifact_bytes=0, artifacts_lost=0)

    def reference(self, checkpoint):
        references = checkpoint.get("artifacts")
        for one in references if isinstance(references, list) else []:
            if not isinstance(one, dict) or not isinstance(one.get("sha256"), str):
                continue
            if is_number(one.get("size")) and one["sha256"] not in self.seen:
                self.missing[one["sha256"]] = one["size"]

    def add(self, line):
        digest = line.get("sha256")
        if line["kind"] == "artifact":
            require(is_hash(digest) and is_count(line.get("size")), "line")
            require(self.open is None and same(self.missing.get(digest), line["size"]), "artifact")
            del self.missing[digest]
            self.seen.add(digest)
            self.open = {"sha256": digest, "size": line["size"], "hash": hashlib.sha256(), "parts": 0, "bytes": 0}
            self.end_if_whole()
        elif line["kind"] == "artifact_part":
            data = exact_base64(line.get("bytes"))
            require(data is not None, "line")
            require(self.open is not None and same(line.get("part"), self.open["parts"]), "artifact")
            require(len(data) == min(PART_BYTES, self.open["size"] - self.open["bytes"]), "artifact")
            self.open["hash"].update(data)
            self.open["parts"] += 1
            self.open["bytes"] += len(data)
            self.end_if_whole()
        else:
            require(is_hash(digest), "line")
            is_due = digest in self.missing if self.open is None else self.open["sha256"] == digest
            require(is_due, "artifact")
            self.open = None
            self.missing.pop(digest, None)
            self.seen.add(digest)
            self.counts["artifacts_lost"] += 1

    def end_if_whole(self):
        if self.open["bytes"] < self.open["size"]:
            return
        require(self.open["hash"].hexdigest() == self.open["sha256"], "artifact")
        self.counts["artifacts"] += 1
        self.counts["artifact_bytes"] += self.open["size"]
        self.open = None


class Task:
    def __init__(self, head):
        self.head, self.id = head, head["task_id"]
        self.digest = hashlib.sha256()
        self.begun, self.handed, self.recorded = set(), set(), set()
        self.removals, self.records = {}, {}
        self.counts = dict.fromkeys(COUNTED, 0)
        self.prev, self.seq, self.fence, self.created, self.due = "0" * 64, 0, MISSING, 0, None


class Lines:
    def __init__(self, entries, findings):
        names = ["lines", "tasks", "unreadable", "removed"] + COUNTED
        self.counts = dict.fromkeys(names, 0)
        self.entries, self.findings = entries, findings
        self.artifacts = Artifacts(self.counts)
        self.digest, self.ends, self.done, self.unread = hashlib.sha256(), hashlib.sha256(), set(), []
        self.header, self.task, self.is_complete = None, None, False

    def add(self, data):
        line = exact_object_in(data)
        require(line is not None, "line")
        require(not self.is_complete, "order")
        if self.header is None:
            self.begin(line)
        elif self.task is None:
            self.between(line)
        else:
            self.in_task(self.task, line)
        self.counts["lines"] += 1
        self.digest.update(data + b"\n")
        if self.task is not None:
            self.task.digest.update(data + b"\n")

    def ends_digest(self):
        """SHA-256 of the ends of the chains and of the tasks that could not be read, after the last line."""
        digest = self.ends.copy()
        for task in self.unread:
            digest.update((task + " unreadable\n").encode("utf-8"))
        return digest.hexdigest()

    def gap(self, what):
        self.findings.add(("export.jsonl:%d (%s)" % (self.counts["lines"] + 1, what), "incomplete"))

    def begin(self, line):
        require(same(line.get("kind"), "header"), "order")
        require(is_count(line.get("format"), 1), "line")
        require(isinstance(line.get("tenant"), str) and isinstance(line.get("exported_at"), str), "line")
        require(line["format"] <= 6, "format")
        self.header = line

    def between(self, line):
        kind = line.get("kind")
        if kind in ("artifact", "artifact_part", "artifact_lost") and isinstance(kind, str):
            fault = None
            try:
                self.artifacts.add(line)
                if kind == "artifact_lost":
                    self.gap("artifact " + line["sha256"])
            except Fault as error:
                fault = error
            require(self.header.get("artifacts") is True, "order")
            if fault is not None:
                raise fault
            return
        require(self.artifacts.open is None, "artifact")
        if same(kind, "task"):
            self.begin_task(line)
        elif same(kind, "unreadable"):
            require(isinstance(line.get("task_id"), str), "line")
            require(line["task_id"] not in self.done, "order")
            self.done.add(line["task_id"])
            self.unread.append(line["task_id"])
            self.counts["unreadable"] += 1
            self.gap("task " + line["task_id"])
        elif same(kind, "trailer"):
            for name in ("tasks", "unreadable", "lines"):
                require(same(line.get(name), self.counts[name]), "count")
            require(self.header.get("artifacts") is not True or not self.artifacts.missing, "artifact")
            require(same(line.get("digest"), self.digest.hexdigest()), "digest")
            self.is_complete = True
        else:
            raise Fault("order")

    def begin_task(self, line):
        head = line.get("task")
        require(isinstance(head, dict) and isinstance(head.get("task_id"), str), "line")
        require(is_count(head.get("audit_seq")) and is_count(head.get("seq")), "line")
        require(same(head.get("tenant"), self.header["tenant"]) and head["task_id"] not in self.done, "order")
        self.task = Task(head)
        self.entries.begin(line.get("signatures_required") is True, head["task_id"])

    def in_task(self, task, line):
        kinds = {
            "audit": self.entry,
            "checkpoint": self.version,
            "lost": self.lost,
            "record": self.record,
            "record_lost": self.record,
            "handoff": self.handoff,
            "task_end": self.end_task,
        }
        kind = line.get("kind")
        require(isinstance(kind, str) and kind in kinds, "order")
        kinds[kind](task, line)

    def entry(self, task, line):
        seq, text, counts = line.get("seq"), line.get("entry"), task.counts
        require(is_count(seq, 1) and isinstance(text, str), "line")
        require(task.due is None, "version")
        require(counts["handoffs"] + counts["records"] + counts["records_lost"] == 0, "order")
        facts = exact_object(text)
        require(facts is not None and seq == task.seq + 1 and same(facts.get("seq"), seq), "chain")
        require(same(facts.get("prev"), task.prev), "chain")
        require(same(facts.get("task"), task.id) and same(facts.get("tenant"), task.head["tenant"]), "chain")
        if seq in task.removals:
            is_removal = same(facts.get("op"), "remove") and same(facts.get("checkpoint_id"), task.removals[seq])
            require(is_removal, "version")
        counts["entries"] += 1
        task.seq, task.prev = seq, sha256(text)
        if same(facts.get("v"), 2):
            task.fence = facts.get("fence", MISSING)
        self.note(task, facts)
        self.entries.add(task, seq, text, facts, line)

    @staticmethod
    def note(task, facts):
        op, made = facts.get("op"), facts.get("checkpoint_id")
        if same(op, "handoff") and isinstance(facts.get("handoff_id"), str):
            task.begun.add(facts["handoff_id"])
        version, digest = facts.get("version"), facts.get("new_hash")
        is_version = isinstance(made, str) and is_number(version) and isinstance(digest, str)
        task.due = (made, version, digest) if is_version else None
        if (is_version and version == 1) or same(op, "import_removed"):
            task.created += 1
        records = facts.get("records")
        for one in records if isinstance(records, list) else []:
            found = re.fullmatch("(?s)([0-9a-f]{64}) (.+)", one) if isinstance(one, str) else None
            if found is not None:
                task.records[found.group(2)] = found.group(1)

    def version(self, task, line):
        value, digest = line.get("checkpoint"), line.get("hash")
        require(isinstance(value, dict) and is_hash(digest), "line")
        require(task.due is not None, "version")
        made, version, due = task.due
        metadata, compliance = object_in(value, "metadata"), object_in(value, "compliance")
        require(same(metadata.get("checkpoint_id"), made) and same(metadata.get("version"), version), "version")
        require(same(metadata.get("task_id"), task.id), "version")
        require(same(metadata.get("tenant"), task.head["tenant"]), "version")
        place = "audit/%s/%s#%d" % (task.head["tenant"], task.id, task.seq)
        require(same(compliance.get("event_log_ref"), place), "version")
        require(version > 1 or same(metadata.get("seq"), task.created), "version")
        require("hash" not in compliance and "signature" not in compliance, "version")
        require(sha256(exact_text(value)) == digest and digest == due, "version")
        self.artifacts.reference(value)
        task.counts["versions"] += 1
        task.due = None

    def lost(self, task, line):
        removal = line.get("removed_entry", MISSING)
        require(task.due is not None, "version")
        require(same(line.get("checkpoint_id"), task.due[0]) and same(line.get("version"), task.due[1]), "version")
        task.counts["lost"] += 1
        made, task.due = task.due[0], None
        if removal is MISSING:
            return self.gap("version %d of %s, task %s" % (line["version"], made, task.id))
        require(is_count(removal, task.seq + 1), "version")
        self.counts["removed"] += 1
        task.removals[removal] = made

    def record(self, task, line):
        name = line.get("name")
        require(isinstance(name, str), "line")
        require(task.due is None, "version")
        require(name in task.records and name not in task.recorded, "record")
        task.recorded.add(name)
        if line["kind"] == "record_lost":
            task.counts["records_lost"] += 1
            return self.gap("record %s, task %s" % (name, task.id))
        data = exact_base64(line.get("bytes"))
        require(data is not None and sha256(data) == task.records[name], "record")
        task.counts["records"] += 1

    def handoff(self, task, line):
        handoff = line.get("handoff")
        require(isinstance(handoff, dict) and isinstance(handoff.get("handoff_id"), str), "line")
        require(task.due is None, "version")
        name = handoff["handoff_id"]
        is_of_task = same(handoff.get("task_id"), task.id) and same(handoff.get("tenant"), task.head["tenant"])
        require(is_of_task and name in task.begun and name not in task.handed, "handoff")
        task.handed.add(name)
        task.counts["handoffs"] += 1

    def end_task(self, task, line):
        counts, head = task.counts, task.head
        require(task.due is None, "version")
        if self.header["format"] >= 3:
            require(counts["records"] + counts["records_lost"] == len(task.records), "record")
        require(same(line.get("task_id"), task.id), "order")
        require(head["audit_seq"] == task.seq and same(head.get("audit_hash"), task.prev), "head")
        require(head["seq"] == task.created, "head")
        require(task.fence is MISSING or same(head.get("fence", MISSING), task.fence), "head")
        for name in COUNTED:
            stated = line.get(name)
            require(same(0 if stated is None else stated, counts[name]), "count")
        require(same(line.get("digest"), task.digest.hexdigest()), "digest")
        for name in COUNTED:
            self.counts[name] += counts[name]
        # Of a checkpoint that was removed during the export, no entry of the file proves the removal.
        for seq in task.removals:
            if seq > task.seq:
                self.findings.add(("%s/%d" % (task.id, seq), "incomplete"))
        self.ends.update(("%s %d %s\n" % (task.id, task.seq, task.prev)).encode("utf-8"))
        self.counts["tasks"] += 1
        self.done.add(task.id)
        self.task = None
        self.entries.close(None)


class Entries:
    """The signature of each entry, and its place in the log."""

    def __init__(self, keys, log, anchors, proofs, findings, must_prove, exported_at):
        self.esignatures, self.anchors = Esignatures(findings, keys), anchors
        self.keys, self.log, self.proofs, self.exported_at = keys, log, proofs, exported_at
        self.newest = None
        self.findings, self.must_prove = findings, must_prove
        self.counts = dict.fromkeys(["signed", "unsigned", "signatures_unread", "included", "pending"], 0)
        self.proof_line, self.are_proofs_read = 0, False
        self.open = []

    def begin(self, is_required, task):
        if is_required != self.keys.is_required:
            self.findings.add((task, "requirement"))
        self.esignatures.begin(is_required)
        self.has_signed = False
        self.open, self.before, self.is_required, self.waiting = [], None, is_required, []
        self.newest_of_task = None

    def add(self, task, seq, text, facts, line):
        self.esignatures.add(task, seq, facts, line)
        at = "%s/%d" % (task.id, seq)
        is_proved = self.prove(task.id, seq, text, at, facts)
        written = exact_time(facts.get("at"))
        if written is not None:
            newest = written if self.newest_of_task is None else max(self.newest_of_task, written)
            if written < newest - LATE_MS:
                self.findings.add((at, "time_order"))
            self.newest_of_task = newest
            self.newest = newest if self.newest is None else max(self.newest, newest)
        entry = {"tenant": task.head["tenant"], "task": task.id, "seq": seq, "hash": sha256(text), "facts": facts}
        entry["before"], self.before = self.before, facts.get("at")
        self.compare_key(line)
        if line.get("signature_unread") is True and not self.is_required:
            self.counts["signatures_unread"] += 1
            self.findings.add((at, "signature_unread"))
            return
        self.open.append((entry, is_proved, at))
        if "signature" in line:
            self.close((seq, self.keys.judge_envelope(line["signature"])))

    def close(self, after):
        for entry, is_proved, at in self.open:
            problem = self.keys.judge_entry(entry, after, self.is_required)
            if problem is None:
                self.counts["signed"] += 1
                if not is_proved and self.keys.is_revoked(entry["facts"]["signed_by"]):
                    self.findings.add((at, "unproved"))
            elif problem != "unsigned":
                self.findings.add((at, problem))
            else:
                self.counts["unsigned"] += 1
                if (self.must_prove or self.has_signed) and not is_proved:
                    self.findings.add((at, "unproved"))
            if "signed_by" in entry["facts"]:
                self.has_signed = True
        self.open = []

    def end(self):
        if not self.are_proofs_read and next(self.proofs, MISSING) is not MISSING:
            self.findings.add(("proofs.jsonl:%d" % (self.proof_line + 1), "proof_extra"))

    def next_proof(self, task, seq, at):
        if self.are_proofs_read:
            return None
        data = next(self.proofs, MISSING)
        self.proof_line += 1
        line = None if data is MISSING else exact_object_in(data)
        if line is not None and same(line.get("task"), task) and same(line.get("seq"), seq):
            return line
        self.are_proofs_read = True
        if data is MISSING:
            self.findings.add((at, "proof_missing"))
        else:
            self.findings.add(("proofs.jsonl:%d" % self.proof_line, "proof_order"))
        return None

    def prove(self, task, seq, text, at, facts):
        line = self.next_proof(task, seq, at)
        if line is None:
            return False
        if "pending" in line:
            self.counts["pending"] += 1
            pending = line["pending"]
            if not isinstance(pending, str) or pending not in ("not_in_log", "damaged", "unsigned_log"):
                self.findings.add((at, "proof_invalid"))
            elif (pending == "unsigned_log") != (self.log is None):
                self.findings.add((at, "proof_missing"))
            if same(pending, "damaged"):
                self.findings.add((at, "proof_damaged"))
            if same(pending, "not_in_log"):
                self.waiting.append(at)
                written = exact_time(facts.get("at"))
                if written is None or written < self.exported_at - LOG_DELAY_MS:
                    self.findings.add((at, "proof_missing"))
            return False
        for earlier in self.waiting:
            self.findings.add((earlier, "proof_missing"))
        self.waiting = []
        if self.log is None:
            self.findings.add(("log.note", "log_missing"))
        if self.log is None or not self.is_in_log(line, text):
            self.findings.add((at, "proof_invalid"))
            return False
        self.counts["included"] += 1
        fault = self.anchors.judge(line["index"], facts.get("at"))
        if fault is not None:
            self.findings.add((at, fault))
        return True

    def is_in_log(self, line, text):
        index, hashes = line.get("index"), hashes_of(line.get("proof"))
        if not is_count(index) or hashes is None:
            return False
        leaf = hashlib.sha256(b"\x00" + text.encode("utf-8")).digest()
        return root_above(index, leaf, self.log["size"], hashes) == self.log["root"]

    def compare_key(self, line):
        """A key in a line of the export is that of the keyset, which may have ended since."""
        if "signing_key" not in line:
            return
        record = line["signing_key"]
        key_id = record.get("key_id") if isinstance(record, dict) and is_hash(record.get("key_id")) else ""
        if key_id in self.keys.all:
            late = self.keys.all[key_id]["record"]
            fixed = ("algorithm", "public_key", "purpose", "owner", "not_before", "replaces")
            is_same = all(same(record.get(name, MISSING), late.get(name, MISSING)) for name in fixed)
            for name in ("not_after", "revoked_at"):
                early = record.get(name, MISSING)
                is_same = is_same and (early is None or same(early, late.get(name, MISSING)))
            if is_same:
                return
        self.findings.add(("key:" + key_id, "key_conflict"))


def judge_proof(proof, statement, nonce):
    """The code of the fault, or None and the value whose hash the entry has."""
    if same(proof.get("kind"), "webauthn"):
        return judge_passkey(proof, statement, nonce)
    fault = login_fault(proof, statement, nonce) if same(proof.get("kind"), "oidc") else "esign_proof"
    return fault, None if fault else {name: proof[name] for name in ("kind", "id_token", "jwk")}


def login_fault(login, statement, nonce):
    token, jwk, person = login.get("id_token"), login.get("jwk"), statement["signer"]["id"]
    claims = token_claims(token, jwk) if isinstance(token, str) and isinstance(jwk, dict) else None
    if claims is None:
        return "esign_proof"
    expected = (("iss", person["issuer"]), ("sub", person["subject"]), ("nonce", nonce))
    return None if all(same(claims.get(name), value) for name, value in expected) else "esign_mismatch"


ASSERTION = ("authenticator_data", "client_data", "signature")


def judge_passkey(proof, statement, nonce):
    login = object_in(proof, "enrolment")
    payload = exact_base64(login.get("payload"))
    enrolment = None if payload is None else exact_object_in(payload)
    if enrolment is None or not same(enrolment.get("v"), 1):
        return "esign_proof", None
    passkey = object_in(enrolment, "passkey")
    jwk, rp_id = passkey.get("jwk"), passkey.get("rp_id")
    texts = [rp_id] + [proof.get(name) for name in ASSERTION]
    if not isinstance(jwk, dict) or not all(isinstance(text, str) for text in texts):
        return "esign_proof", None
    fault = assertion_fault(proof, jwk, rp_id, nonce)
    if fault == "esign_proof":
        return fault, None
    digest = hashlib.sha256(dsse(ENROLMENT_TYPE, payload)).digest()
    unproved = login_fault(login, statement, base64url(digest))
    if unproved is not None:
        return unproved, None
    signer, enrolled = statement["signer"], object_in(enrolment, "signer")
    here, there = signer["id"], object_in(enrolled, "id")
    is_of_signer = (
        same(enrolment.get("tenant"), statement["subject"]["tenant"])
        and same(enrolled.get("printed_name"), signer["printed_name"])
        and same(there.get("issuer"), here["issuer"])
        and same(there.get("subject"), here["subject"])
    )
    if fault is not None or not is_of_signer:
        return "esign_mismatch", None
    hashed = {name: proof[name] for name in ("kind",) + ASSERTION}
    hashed["enrolment"] = {name: login[name] for name in ("payload", "id_token", "jwk")}
    return None, hashed


def passkey_act_at(value, action, tenant):
    """An act of the tenant's chain about a passkey. None: it is no such act."""
    text = value.get("entry") if isinstance(value, dict) else None
    facts = exact_object(text) if isinstance(text, str) else None
    if facts is None or not is_count(value.get("seq"), 1) or not is_count(value.get("end"), value["seq"]):
        return None
    expected = (("seq", value["seq"]), ("action", action), ("tenant", tenant))
    if "task" in facts or not all(same(facts.get(name), one) for name, one in expected):
        return None
    signature = value.get("signature", MISSING)
    return {"seq": value["seq"], "text": text, "facts": facts, "end": value["end"], "signature": signature}


def is_act_signed(act, keys, facts, is_required):
    """A service that signs the entries of the task signs the acts of the tenant too."""
    entry = {"tenant": facts["tenant"], "task": None, "hash": sha256(act["text"]), "before": None}
    entry.update({name: act[name] for name in ("seq", "facts")})
    after = None if act["signature"] is None else (act["end"], keys.judge_envelope(act["signature"]))
    return keys.judge_entry(entry, after, is_required or "signed_by" in facts) in (None, "unsigned")


def passkey_fault(line, facts, login, keys, is_required):
    """None: a signed act of the tenant enrolled exactly this passkey, and none revoked it before the signature."""
    acts = line.get("passkey_acts")
    enrolment = exact_object_in(exact_base64(login["payload"]))
    credential = object_in(enrolment, "passkey").get("credential_id")
    if not isinstance(acts, list) or not 1 <= len(acts) <= 2 or not isinstance(credential, str):
        return "esign_passkey"
    added = passkey_act_at(acts[0], "passkey_add", facts["tenant"])
    if added is None or not same(added["seq"], facts.get("passkey_seq")):
        return "esign_passkey"
    passkey_id, stated = sha256(credential), object_in(added["facts"], "subject")
    expected = {
        "issuer": facts["signer_issuer"],
        "subject": facts["signer_subject"],
        "passkey_id": passkey_id,
        "enrolment_hash": sha256(exact_text(login)),
    }
    is_enrolled = all(same(stated.get(name), value) for name, value in expected.items())
    if not is_enrolled or not is_act_signed(added, keys, facts, is_required):
        return "esign_passkey"
    if len(acts) == 1:
        return None
    revoked = passkey_act_at(acts[1], "passkey_revoke", facts["tenant"])
    if (
        revoked is None
        or revoked["seq"] <= added["seq"]
        or not same(object_in(revoked["facts"], "subject").get("passkey_id"), passkey_id)
        or not is_act_signed(revoked, keys, facts, is_required)
    ):
        return "esign_passkey"
    signed_at, revoked_at = exact_time(facts.get("at")), exact_time(revoked["facts"].get("at"))
    is_before = None not in (signed_at, revoked_at) and signed_at <= revoked_at + CLOCK_SKEW_MS
    return None if is_before else "esign_revoked"


class Esignatures:
    """The electronic signatures of people: the proof is for exactly the signed bytes, and the entry has their hashes."""

    def __init__(self, findings, keys):
        self.findings, self.keys, self.valid, self.versions = findings, keys, [], {}
        self.of_task, self.newest = [], {}

    def begin(self, is_required):
        self.end_task()
        self.newest = {}
        self.versions, self.is_required = {}, is_required

    def end_task(self):
        """A version that supersedes a signed one comes after the signature."""
        for one in self.of_task:
            newest = self.newest.get(one["checkpoint_id"], 0)
            self.valid.append(dict(one, newest_version=max(one["version"], newest)))
        self.of_task = []

    def add(self, task, seq, facts, line):
        made, version, digest = facts.get("checkpoint_id"), facts.get("version"), facts.get("new_hash")
        is_named = isinstance(made, str) and is_number(version)
        if is_named and isinstance(digest, str):
            self.versions[(made, version)] = digest
            if is_count(version, 1):
                self.newest[made] = max(version, self.newest.get(made, 0))
        if not same(facts.get("op"), "signature_add") and "esignature" not in line and "passkey_acts" not in line:
            return
        known = self.versions.get((made, version)) if is_named else None
        fault, shown, hashed = self.judge(line.get("esignature"), facts, known)
        if fault is None and hashed["kind"] == "webauthn":
            fault = passkey_fault(line, facts, hashed["enrolment"], self.keys, self.is_required)
        elif fault is None and "passkey_acts" in line:
            fault = "esign_passkey"
        at = "%s/%d" % (task.id, seq)
        if fault is not None:
            self.findings.add((at, fault))
        else:
            self.of_task.append(dict(shown, at=at))

    @staticmethod
    def judge(signed, facts, known):
        """The fault, what is shown, and the verified proof. `known`: the hash of the version, if an entry before states it."""
        signed = signed if isinstance(signed, dict) else {}
        payload = exact_base64(signed.get("payload"))
        statement = None if payload is None else exact_object_in(payload)
        if not same(signed.get("payload_type"), ESIGN_TYPE) or not is_esign_statement(statement):
            return "esign_statement", None, None
        subject, signer = statement["subject"], statement["signer"]
        issuer, person = signer["id"]["issuer"], signer["id"]["subject"]
        digest = hashlib.sha256(dsse(ESIGN_TYPE, payload)).digest()
        fault, hashed = judge_proof(object_in(signed, "proof"), statement, base64url(digest))
        if fault is not None:
            return fault, None, None
        if not all(same(subject[name], facts.get(name)) for name in ("tenant", "task", "checkpoint_id", "version")):
            return "esign_moved", None, None
        if known is not None and known != subject["hash"]:
            return "esign_content", None, None
        recorded = {
            "op": "signature_add",
            "old_hash": subject["hash"],
            "meaning": statement["meaning"],
            "signer_issuer": issuer,
            "signer_subject": person,
            "statement_hash": digest.hex(),
            "proof_hash": sha256(exact_text(hashed)),
        }
        if not all(same(facts.get(name), value) for name, value in recorded.items()):
            return "esign_unrecorded", None, None
        shown = {
            "checkpoint_id": subject["checkpoint_id"],
            "version": subject["version"],
            "printed_name": signer["printed_name"],
            "meaning": statement["meaning"],
            "reason": statement.get("reason"),
            "signed_at": statement["signed_at"],
            "zone": statement["zone"],
            "issuer": issuer,
            "subject": person,
            "method": hashed["kind"],
        }
        return None, shown, hashed


def is_esign_statement(value):
    if value is None or not same(value.get("v"), 1):
        return False
    subject, signer = object_in(value, "subject"), object_in(value, "signer")
    person = object_in(signer, "id")
    texts = [subject.get(name) for name in ("tenant", "task", "checkpoint_id")]
    texts += [person.get("issuer"), person.get("subject"), signer.get("printed_name")]
    return (
        all(isinstance(text, str) for text in texts + [value.get("meaning"), value.get("zone")])
        and ("reason" not in value or isinstance(value["reason"], str))
        and is_count(subject.get("version"), 1)
        and is_hash(subject.get("hash"))
        and exact_time(value.get("signed_at")) is not None
    )


# --- The bundle ------------------------------------------------------------------------------------------------------

NEEDED = ["export.jsonl", "proofs.jsonl", "keyset.json"]
MANIFEST_COUNTS = ["entries", "included", "key_changes", "keys", "lines", "pending", "tasks", "versions"]


# --- access.jsonl ----------------------------------------------------------------------------------------------------

ACCESS_CHAIN = "=access"
ACCESS_BEGIN = (0, "0" * 64)
COUNT_MAX = 2**53 - 1
ACCESS_COUNTS = ["access_blocks", "access_records", "access_lost", "access_statements"]


def access_place(value):
    """The place before the first block for null. None: it is no place."""
    if value is None:
        return ACCESS_BEGIN
    if not isinstance(value, dict) or not is_count(value.get("seq"), 1) or not is_hash(value.get("hash")):
        return None
    return int(value["seq"]), value["hash"]


def lost_in(facts):
    return int(facts["lost"]) if is_count(facts.get("lost"), 1) else 0


class Access:
    """The chain of the access log, its signatures, and what the chain of the tenant states of it."""

    def __init__(self, keys, findings, tenant, must_prove):
        self.keys, self.findings, self.tenant, self.must_prove = keys, findings, tenant, must_prove
        self.counts = dict.fromkeys(ACCESS_COUNTS + ["access_open"], 0)
        self.start = None
        self.pruned, self.stated, self.sessions = ACCESS_BEGIN, {}, {}
        self.statement, self.stated_at = 0, None
        self.commit, self.before, self.has_signed = [], None, False

    def add(self, data):
        line = None if data is None else exact_object_in(data)
        require(line is not None, "line")
        kind = line.get("kind")
        if same(kind, "log"):
            require(self.start is None, "order")
            start, head = access_place(line.get("start", MISSING)), access_place(line.get("head", MISSING))
            require(start is not None and head is not None and start[0] <= head[0], "line")
            self.start = self.last = start
            self.head, self.proved = head, start[0]
            return
        require(self.start is not None, "order")
        if same(kind, "block"):
            self.add_block(line)
            return
        require(same(kind, "statement"), "line")
        require(self.counts["access_blocks"] == 0, "order")
        self.add_statement(line)

    def add_statement(self, line):
        seq, end, text = line.get("seq"), line.get("end"), line.get("entry")
        facts = exact_object(text) if isinstance(text, str) else None
        require(facts is not None and is_count(seq, self.statement + 1) and is_count(end, seq), "line")
        subject = object_in(facts, "subject")
        is_of_chain = same(facts.get("tenant"), self.tenant) and same(facts.get("seq"), seq) and "task" not in facts
        require(same(facts.get("action"), "access_log") and is_of_chain, "line")
        require(is_count(subject.get("block"), 1) and is_hash(subject.get("hash")), "line")
        entry = {"tenant": self.tenant, "task": None, "seq": seq, "hash": sha256(text), "facts": facts}
        entry["before"] = self.stated_at
        after = (end, self.keys.judge_envelope(line["signature"])) if "signature" in line else None
        problem = self.keys.judge_entry(entry, after, self.keys.is_required)
        if problem not in (None, "unsigned"):
            self.findings.add(("access.jsonl:%d" % (self.counts["access_statements"] + 2), problem))
        self.statement, self.stated_at = seq, facts.get("at")
        self.stated[int(subject["block"])] = subject["hash"]
        self.counts["access_statements"] += 1

    def add_block(self, line):
        seq, text = line.get("seq"), line.get("entry")
        facts = exact_object(text) if isinstance(text, str) else None
        require(facts is not None and isinstance(facts.get("entries"), list), "line")
        # A number that no program can state exactly.
        require(self.counts["access_lost"] + lost_in(facts) <= COUNT_MAX, "line")
        number, hashed = self.last
        require(is_count(seq, 1) and seq == number + 1 and same(facts.get("seq"), seq), "chain")
        require(same(facts.get("prev"), hashed) and same(facts.get("tenant"), self.tenant), "chain")
        require(number != self.head[0], "head")
        self.last = (number + 1, sha256(text))
        if self.stated.get(number + 1, self.last[1]) != self.last[1]:
            self.findings.add(("%s/%d" % (ACCESS_CHAIN, number + 1), "access_contradicted"))
        self.note(facts)
        # In a fleet without keys all blocks wait for a signature, so each is without its entries.
        judged = {name: facts[name] for name in ("action", "at", "signed_by") if name in facts}
        entry = {"tenant": self.tenant, "task": ACCESS_CHAIN, "seq": number + 1, "hash": self.last[1], "facts": judged}
        entry["before"], self.before = self.before, facts.get("at")
        self.commit.append(entry)
        if "signature" in line:
            self.close((number + 1, self.keys.judge_envelope(line["signature"])))

    def note(self, facts):
        self.counts["access_blocks"] += 1
        self.counts["access_records"] += len(facts["entries"])
        self.counts["access_lost"] += lost_in(facts)
        session = object_in(facts, "session")
        if isinstance(session.get("id"), str):
            self.sessions[session["id"]] = session.get("state")
        pruned = access_place(facts["pruned"]) if isinstance(facts.get("pruned"), dict) else None
        if pruned is not None:
            self.pruned = pruned

    def close(self, after):
        for entry in self.commit:
            problem = self.keys.judge_entry(entry, after, self.keys.is_required)
            if problem not in (None, "unsigned"):
                self.findings.add(("%s/%d" % (ACCESS_CHAIN, entry["seq"]), problem))
            if problem is None and not self.keys.is_revoked(entry["facts"]["signed_by"]):
                self.proved = entry["seq"]
            if "signed_by" in entry["facts"]:
                self.has_signed = True
        self.commit = []

    def end(self):
        require(self.start is not None and self.last == self.head, "truncated")
        self.close(None)
        for seq, hashed in self.stated.items():
            if seq > self.head[0] or (seq == self.start[0] and hashed != self.start[1]):
                self.findings.add(("%s/%d" % (ACCESS_CHAIN, seq), "access_contradicted"))
        if self.pruned != self.start:
            self.findings.add(("%s/%d" % (ACCESS_CHAIN, self.start[0] + 1), "access_cut"))
        if (self.must_prove or self.has_signed) and self.proved < self.head[0]:
            self.findings.add(("%s/%d" % (ACCESS_CHAIN, self.proved + 1), "unproved"))
        self.counts["access_open"] = sum(1 for state in self.sessions.values() if same(state, "open"))


BUNDLE_FORMAT = 2


def is_of_other_format(value):
    """Whether another version of the verifier reads the bundle."""
    is_bundle = value is not None and same(value.get("kind"), "fleet-evidence")
    return is_bundle and is_count(value.get("format"), 1) and value["format"] != BUNDLE_FORMAT


def is_manifest(value):
    return (
        value is not None
        and same(value.get("kind"), "fleet-evidence")
        and same(value.get("format"), BUNDLE_FORMAT)
        and isinstance(value.get("tenant"), str)
        and isinstance(value.get("fleet", MISSING), (str, type(None)))
        and exact_time(value.get("exported_at")) is not None
        and is_count(value.get("mtime"))
        and isinstance(value.get("counts"), dict)
        and isinstance(value.get("files"), list)
        and all(
            isinstance(one, dict)
            and isinstance(one.get("name"), str)
            and is_member_name(one["name"])
            and is_count(one.get("size"))
            and is_hash(one.get("sha256"))
            for one in value["files"]
        )
    )


FINDINGS_MAX = 1_000
PLACE_MAX = 300


class Findings:
    """Each once, in the order of their places: the first ones, since a forged bundle can have millions."""

    def __init__(self):
        self.found, self.has_more = set(), False

    def add(self, finding):
        self.found.add((finding[0][:PLACE_MAX], finding[1]))
        if len(self.found) > 2 * FINDINGS_MAX:
            self.sorted()

    def sorted(self):
        findings = sorted(self.found, key=lambda one: utf16(one[0] + "\n" + one[1]))
        self.has_more = self.has_more or len(findings) > FINDINGS_MAX
        self.found = set(findings[:FINDINGS_MAX])
        return findings[:FINDINGS_MAX]


def has_exactly(value, *names):
    return isinstance(value, dict) and set(value) == set(names)


def is_of_seal_form(seal):
    """Nothing else covers the bytes of the file: a further member could be changed after the seal."""
    signature = seal.get("signature")
    return (
        has_exactly(seal, "entry", "seq", "signature")
        and has_exactly(signature, "payload", "payloadType", "signatures")
        and isinstance(signature["signatures"], list)
        and all(has_exactly(one, "keyid", "sig") for one in signature["signatures"])
    )


class Bundle:
    def __init__(self, archive, trusted, revoked, kept, authorities):
        self.archive, self.trusted, self.revoked, self.kept = archive, trusted, revoked, kept
        self.newest, self.authorities, self.anchors = None, authorities, None
        self.findings, self.keys, self.log, self.manifest = Findings(), Keys(), None, {}
        self.esignatures = []
        self.counts, self.continues, self.is_sealed = {}, None, False
        self.complete = self.ends_digest = None
        # The last block of the access log. None: the bundle has none, or it cannot be read to its end.
        self.access_end, self.is_access_broken, self.access_complete = None, False, None

    def find(self, code, at):
        self.findings.add((at, code))

    def verify(self):
        if not self.read_manifest():
            return
        self.read_keys()
        self.read_log()
        self.read_anchors()
        self.read_entries()
        self.read_access()
        self.read_seal()
        if self.kept is not None:
            problem = self.continuation_problem()
            self.continues = problem is None
            if problem is not None:
                self.find(problem, "log.note")
        for key_id in self.keys.used if self.trusted is not None else []:
            if key_id not in self.trusted:
                self.find("key_untrusted", "key:" + key_id)

    def read_manifest(self):
        archive = self.archive
        if archive.fault is not None:
            self.find("archive", "byte:%d" % archive.fault)
            return False
        manifest = exact_object_in(archive.only_line("manifest.json"))
        if not is_manifest(manifest):
            self.find("format" if is_of_other_format(manifest) else "manifest", "manifest.json")
            return False
        self.manifest = manifest
        names = list(archive.members)
        expected = [one["name"] for one in manifest["files"]] + ["manifest.json"]
        if names and names[-1] == "seal.json":
            expected.append("seal.json")
        for name in NEEDED:
            if name not in archive.members:
                self.find("files", name)
        if names != expected:
            self.find("files", "manifest.json")
        # Nothing is hashed then: a list may name one file often.
        if any(code == "files" for _, code in self.findings.sorted()):
            return False
        for one in manifest["files"]:
            member = archive.members[one["name"]]
            if member[1] != one["size"] or archive.hash(one["name"]) != one["sha256"]:
                self.find("file_hash", one["name"])
        for name, (_, _, mtime) in archive.members.items():
            if mtime != manifest["mtime"]:
                self.find("archive", name)
        return True

    def read_keys(self):
        keyset = exact_object_in(self.archive.only_line("keyset.json"))
        if keyset is None:
            self.find("keyset", "keyset.json")
        else:
            self.keys = keys_in(keyset, self.manifest["tenant"], self.revoked, self.findings)
        changes = None if keyset is None else keyset.get("changes")
        self.counts["keys"] = len(self.keys.all)
        self.counts["key_changes"] = len(changes) if isinstance(changes, list) else 0

    def read_log(self):
        if "log.note" not in self.archive.members:
            return
        start, size, _ = self.archive.members["log.note"]
        try:
            note = self.archive.at(start, min(size, NOTE_BYTES_MAX)).decode("utf-8")
            keys = [key for key in self.keys.all.values() if key["purpose"] == "commits"]
            opened = open_checkpoint(note, NoteKeys(keys))
        except UnicodeDecodeError:
            opened = None
        if opened is None:
            self.find("log_invalid", "log.note")
            return
        log, key = opened
        self.keys.used.add(key["id"])
        if self.keys.is_revoked(key["id"]):
            self.find("log_key_revoked", "log.note")
        if log["origin"] == "fleet/audit/" + self.manifest["tenant"]:
            self.log = log
        else:
            self.find("log_invalid", "log.note")

    def read_anchors(self):
        keys = [key for key in self.keys.all.values() if key["purpose"] == "commits"]
        origin = "fleet/audit/" + self.manifest["tenant"]
        self.anchors = Anchors(self.log, keys, origin, self.authorities, self.findings)
        self.anchors.read(self.archive_lines("anchors.jsonl") if "anchors.jsonl" in self.archive.members else [])
        self.counts["anchors"] = self.anchors.count

    def read_entries(self):
        proofs = self.archive_lines("proofs.jsonl")
        must_prove, exported_at = self.trusted is not None, exact_time(self.manifest["exported_at"])
        entries = Entries(self.keys, self.log, self.anchors, proofs, self.findings, must_prove, exported_at)
        lines = Lines(entries, self.findings)
        number, fault = 0, None
        for data in self.archive_lines("export.jsonl"):
            number += 1
            try:
                lines.add(data)
            except Fault as error:
                fault = str(error)
                break
        if fault is not None:
            self.find(fault, "export.jsonl:%d" % number)
        elif not lines.is_complete:
            self.find("truncated", "export.jsonl:%d" % (number + 1))
        else:
            entries.end()
        self.counts.update(lines.counts)
        self.counts.update(entries.counts)
        self.counts["timestamped"] = self.anchors.timestamped
        entries.esignatures.end_task()
        self.esignatures = entries.esignatures.valid
        self.counts["electronic_signatures"] = len(self.esignatures)
        self.ends_digest = lines.ends_digest() if fault is None and lines.is_complete else None
        self.newest = entries.newest
        if must_prove and self.log is None and entries.counts["signed"] > 0:
            self.find("log_missing", "log.note")
        header, manifest = lines.header, self.manifest
        if header is not None:
            for name in ("fleet", "tenant", "exported_at", "tool"):
                if not same(header.get(name, MISSING), manifest.get(name, MISSING)):
                    self.find("manifest", "manifest.json")
        if fault is None and lines.is_complete:
            stated = manifest["counts"]
            if not all(same(stated.get(name), self.counts[name]) for name in MANIFEST_COUNTS):
                self.find("count", "manifest.json")

    def read_access(self):
        is_there = "access.jsonl" in self.archive.members
        access = Access(self.keys, self.findings, self.manifest["tenant"], self.trusted is not None)
        number = 0
        try:
            for data in self.archive_lines("access.jsonl") if is_there else []:
                number += 1
                access.add(data)
            if is_there:
                number += 1
                access.end()
            stated = self.manifest["counts"]
            if not all(same(stated[name] if stated.get(name) is not None else 0, access.counts[name]) for name in ACCESS_COUNTS):
                self.find("count", "manifest.json")
        except Fault as error:
            self.find(str(error), "access.jsonl:%d" % number)
            self.is_access_broken = True
        if is_there:
            self.counts.update(access.counts)
            self.access_complete = False
            self.access_end = None if self.is_access_broken else access.last

    def archive_lines(self, name):
        return self.archive.lines(name)

    def read_seal(self):
        if "seal.json" not in self.archive.members:
            # A bundle without it may have nothing that a key of the auditor has signed.
            if self.trusted is not None or self.keys.used:
                self.find("seal_missing", "seal.json")
            return
        seal = exact_object_in(self.archive.only_line("seal.json"))
        text = None if seal is None else seal.get("entry")
        facts = exact_object(text) if isinstance(text, str) else None
        if (
            facts is None
            or not is_of_seal_form(seal)
            or not is_count(seal.get("seq"), 1)
            or not same(facts.get("seq"), seal["seq"])
            or not same(facts.get("action"), "export")
            or not same(facts.get("tenant"), self.manifest["tenant"])
            or "task" in facts
            or not same(object_in(facts, "subject").get("manifest"), self.archive.hash("manifest.json"))
            or not self.is_of_this_export(facts)
        ):
            self.find("seal", "seal.json")
            return
        entry = {"tenant": facts["tenant"], "task": None, "seq": seal["seq"], "hash": sha256(text), "facts": facts}
        entry["before"] = None
        after = (seal["seq"], self.keys.judge_envelope(seal.get("signature")))
        problem = self.keys.judge_entry(entry, after, True)
        if problem is not None:
            self.find(problem, "seal.json")
        elif self.keys.is_revoked(facts["signed_by"]):
            self.find("seal_key_revoked", "seal.json")
        else:
            self.is_sealed = True
            subject = object_in(facts, "subject")
            self.complete = subject.get("extent")
            if not self.is_access_broken:
                self.compare_access_end(subject)

    def compare_access_end(self, subject):
        """The fleet states the end of the access log, and none if the bundle has no log."""
        seq, digest = (MISSING, MISSING) if self.access_end is None else self.access_end
        is_stated = same(subject.get("access_seq", MISSING), seq) and same(subject.get("access_hash", MISSING), digest)
        if not is_stated:
            self.find("access_unsealed", "access.jsonl")
        if self.access_end is not None:
            self.access_complete = is_stated

    def is_of_this_export(self, facts):
        """The seal is made at the end of the export: later than all that is in it."""
        subject, at = object_in(facts, "subject"), exact_time(facts.get("at"))
        times = [exact_time(self.manifest["exported_at"])] + ([] if self.newest is None else [self.newest])
        if at is None or at < max(times) - CLOCK_SKEW_MS:
            return False
        is_of_contents = all(same(subject.get(name), self.counts[name]) for name in ("tasks", "entries"))
        return is_of_contents and self.are_ends(subject)

    def are_ends(self, subject):
        """The seal of an export with very many tasks has no ends. What was compared must be of the time of the manifest."""
        has_ends = "ends" in subject or "extent" in subject
        is_compared = has_ends or "access_seq" in subject or "access_hash" in subject
        if is_compared and not same(subject.get("exported_at", MISSING), self.manifest["exported_at"]):
            return False
        if not has_ends:
            return True
        extent, scope = subject.get("extent"), object_in(self.manifest, "scope")
        is_whole = scope.get("tasks", MISSING) is None and scope.get("since", MISSING) is None
        is_of_scope = same(extent, "tasks") or (same(extent, "tenant") and is_whole)
        return is_of_scope and same(subject.get("ends"), self.ends_digest)

    def continuation_problem(self):
        keys = [key for key in self.keys.all.values() if self.trusted is None or key["id"] in self.trusted]
        opened = open_checkpoint(self.kept, NoteKeys(keys))
        if opened is None:
            return "kept_invalid"
        older = opened[0]
        if self.log is None:
            return "kept_unproved"
        if older["origin"] != self.log["origin"]:
            return "kept_other_log"
        if older["size"] > self.log["size"]:
            return "log_older"
        hashes = []
        if older["size"] not in (0, self.log["size"]):
            proof = exact_object_in(self.archive.only_line("consistency.json"))
            is_of_size = proof is not None and same(proof.get("size"), older["size"])
            hashes = hashes_of(proof.get("proof") if is_of_size else self.anchors.proofs.get(older["size"]))
            if hashes is None:
                return "kept_unproved"
        return None if is_consistent(older, self.log, hashes) else "log_forked"

    def report(self):
        findings, anchors = self.findings.sorted(), self.anchors
        newest = {} if anchors is None else anchors.newest
        return {
            "ok": not findings,
            "tenant": self.manifest.get("tenant"),
            "fleet": self.manifest.get("fleet"),
            "exported_at": self.manifest.get("exported_at"),
            "keys_compared": self.trusted is not None,
            "keys_proved": self.keys.are_proved,
            "keys": sorted(self.keys.used),
            "keys_revoked": self.keys.revocations(),
            "continues": self.continues,
            "log_size": None if self.log is None else self.log["size"],
            "sealed": self.is_sealed,
            "complete": self.complete,
            "access_complete": self.access_complete,
            "counts": self.counts,
            "electronic_signatures": self.esignatures,
            "anchors": [newest[target] for target in ANCHOR_TARGETS if target in newest],
            "anchors_omitted_before": None if anchors is None else anchors.omitted_before,
            "findings": [{"at": at, "code": code} for at, code in findings],
            "more_findings": self.findings.has_more,
        }


COMPLETE = {
    "tenant": "compared by the fleet: it has all tasks of the tenant, each with all entries at the time of the export",
    "tasks": "compared by the fleet: each task has all its entries at the time of the export; other tasks may exist",
    None: "The fleet did not compare the bundle with its store: newest entries and tasks may be missing.",
}

ACCESS_WHOLE = "access log: compared by the fleet: it has all blocks at the time of the export"
ACCESS_END = "access log: its end was not compared by the fleet: blocks after the last one that an entry of the tenant states may be missing"
ACCESS_NONE = "access log: none was read, so nothing is shown about reads of content and refused requests"


OTHER_FORMAT = (
    "  The bundle has another format than this verifier reads (%d). Nothing of it was verified: "
    "take the verifier of the version of Fleet that wrote it, or export again."
)


ANCHOR_TIME = {
    "verified": "by an authority that you trust",
    "unverified": "UNVERIFIED: give the certificate of the authority with --tsa-ca",
    "stated": "as the fleet states: compare it with the copy at its place",
}


def anchor_texts(anchors, omitted_before):
    if not anchors:
        return ["  No anchors: nothing but a checkpoint that you have kept shows a log that was written again."]
    lines = []
    for one in anchors:
        place = "" if one["object"] is None else ", %s locked until %s" % (one["object"], text_of(one["retained_until"]))
        about = (one["target"], one["size"], one["at"], place, ANCHOR_TIME[one["time"]])
        lines.append("  newest anchor, %s: %d entries of the log at %s%s, %s" % about)
    if omitted_before is not None:
        lines.append("  anchors of fewer than %d entries are not in the bundle" % omitted_before)
    return lines


def text_of(value):
    return "unknown" if value is None else value


def revocation_text(one):
    if one["revoked_at"] is None:
        return "REVOKED, as you state, and the bundle does not"
    return "REVOKED at %s (%s)" % (one["revoked_at"], "no reason" if one["reason"] is None else one["reason"])


# Each code in one sentence. A test compares them with those of the other verifier.
FINDING_TEXTS = {
    "archive": "it is not a whole tar file as an export writes it: it was cut off, changed, or is another file; nothing behind this place was read",
    "format": "it is of another version of Fleet",
    "manifest": "the list of its files is missing, cannot be read, or states another tenant, fleet or time than the export",
    "files": "files are missing, were added, or are in another order than the list states; nothing else was verified",
    "file_hash": "the file is not the one that the list states",
    "key_invalid": "a signing key of the list cannot be used",
    "keyset": "the list of signing keys, or a change of it, cannot be what a fleet recorded",
    "key_revoked": "a signature is later than the revocation of its key, or you state a revocation that the bundle lacks",
    "key_unproved": "the list of keys states something else about the key than its signed changes",
    "key_conflict": "the export names another key under the id of a key of the list",
    "key_untrusted": "the key has signed something, and you have not named it with --key",
    "key_unknown": "the key of the signature is not in the list of keys",
    "key_purpose": "the key of the signature is for another purpose",
    "key_expired": "it was signed outside of the validity of its key",
    "log_invalid": "the checkpoint of the log is not signed by a key of the fleet, or is of another log",
    "log_key_revoked": "the key that signed the checkpoint of the log is revoked",
    "log_missing": "there is no signed checkpoint of the log, so nothing shows that the entries are in it",
    "log_older": "the log is shorter than the checkpoint that you have kept: entries were taken away, or the store is an older copy",
    "log_forked": "the log does not continue the checkpoint that you have kept: it was written again",
    "kept_invalid": "the checkpoint that you have kept is not signed by a key of the bundle, or that key is not named with --key",
    "kept_other_log": "the checkpoint that you have kept is of another log",
    "kept_unproved": "the bundle cannot prove that its log continues the checkpoint that you have kept: export with --checkpoint",
    "anchor": "an anchor cannot be read",
    "anchor_invalid": "an anchor is not signed by a key of the fleet",
    "anchor_longer": "an anchor has more entries than the log: the end of the log was taken away",
    "anchor_unproved": "nothing proves that the log continues an anchor",
    "anchor_forked": "the log does not continue an anchor: it was written again",
    "timestamp_invalid": "a time-stamp does not verify, or is of something else",
    "timestamp_untrusted": "a time-stamp is of an authority that --tsa-ca does not name",
    "timestamp_missing": "no time-stamp is of an authority that --tsa-ca names",
    "limit": "the bundle needs more work here than that of any fleet; nothing behind this place was read in this file",
    "line": "the line cannot be read; nothing behind it was read in this file",
    "order": "the line cannot stand at this place; nothing behind it was read in this file",
    "chain": "the entry does not follow the one before it: an entry was changed, taken away or added",
    "version": "the version of a checkpoint is not the one that its audit entry states",
    "record": "the record is not the one that an audit entry states",
    "handoff": "the handoff is not the one that the audit entries state",
    "artifact": "the artifact is not the one that its checkpoint states",
    "head": "the state of the task, or of the access log, does not fit its last entry",
    "count": "a stated number is not the number of what is there",
    "digest": "the lines are not those that their digest states",
    "truncated": "the end of the file is missing",
    "incomplete": "the fleet could not read this when it exported, so the bundle lacks it: restore it from a backup and export again, or keep the bundle as evidence of the loss",
    "signature_missing": "the signature is lost",
    "signature_invalid": "the signature does not verify",
    "signature_moved": "the signature is that of another commit",
    "signature_mismatch": "it is not what was signed",
    "signature_unread": "the signature was left out, because a program of the fleet could not read it",
    "time_contradicted": "the entry before it states a time after the end of the key",
    "requirement": "the task states another need of signatures than the list of keys",
    "unproved": "nothing proves the entry: it is unsigned or of a revoked key, and not in the log",
    "proof_invalid": "the entry is not at its stated place in the log: it, or the log, was changed",
    "proof_damaged": "the fleet states that the entry was damaged when the log came to it",
    "proof_missing": "the entry must be in the log by now, and nothing shows it",
    "proof_order": "the proof is that of another entry",
    "proof_extra": "there are proofs of entries that are not in the export",
    "time_order": "the entry states a much earlier time than an entry before it",
    "postdated": "the entry states a later time than the time-stamp that covers it",
    "backdated": "the entry states a time long before a time-stamp that does not cover it: it was written later, or the log was behind",
    "esign_statement": "the statement that the person signed cannot be read",
    "esign_proof": "the proof that the person signed does not verify",
    "esign_mismatch": "the proof is of another statement or of another person",
    "esign_moved": "the signature of the person is about another checkpoint, version or task",
    "esign_content": "the person signed other content than that of the version",
    "esign_unrecorded": "no audit entry states this signature of the person",
    "esign_passkey": "the passkey of the person is not the one that the acts of the tenant state",
    "esign_revoked": "the person signed with a passkey that was revoked before",
    "seal": "the signed act of the export is about another bundle",
    "seal_missing": "the fleet has not signed the list of the files",
    "seal_key_revoked": "the key of the signed act of the export is revoked",
    "access_unsealed": "the fleet has not stated this end of the access log: blocks may be missing at the end",
    "access_contradicted": "an act of the tenant states another block of the access log",
    "access_cut": "the access log lacks its beginning, and its blocks do not state that it was removed",
}
PLACES_MAX = 10

# In the order of the text, which leaves out those that are 0.
COUNT_TEXTS = (
    ("tasks", "task", "tasks"),
    ("versions", "version of checkpoints", "versions of checkpoints"),
    ("lost", "version that is not in the bundle", "versions that are not in the bundle"),
    ("unreadable", "task that could not be read", "tasks that could not be read"),
    ("entries", "audit entry", "audit entries"),
    ("signed", "signed entry", "signed entries"),
    ("included", "entry in the log", "entries in the log"),
    ("pending", "entry not yet in the log", "entries not yet in the log"),
    ("access_records", "read or refusal", "reads and refusals"),
    ("access_lost", "lost read or refusal", "lost reads and refusals"),
    ("access_open", "access session without an end", "access sessions without an end"),
)


def counts_text(counts):
    some = [(counts.get(name, 0), one, many) for name, one, many in COUNT_TEXTS]
    texts = ["%d %s" % (count, one if count == 1 else many) for count, one, many in some if count > 0]
    return ", ".join(texts) or "no tasks and no entries"


def finding_lines(findings):
    places = {}
    for one in findings:
        places.setdefault(one["code"], []).append(one["at"])
    lines = []
    for code, found in places.items():
        total = "" if len(found) == 1 else " (%d times)" % len(found)
        lines.append("  FINDING %s%s: %s" % (code, total, FINDING_TEXTS.get(code, "it does not verify")))
        lines += ["    at " + place for place in found[:PLACES_MAX]]
        if len(found) > PLACES_MAX:
            lines.append("    at %d more; --json lists them" % (len(found) - PLACES_MAX))
    return lines


def report_text(path, report):
    count = len(report["findings"])
    total = "no findings" if report["ok"] else "%d %s" % (count, "finding" if count == 1 else "findings")
    lines = ["%s: %s%s" % (path, "more than " if report["more_findings"] else "", total)]
    # Without a manifest nothing is known of what the bundle has.
    if report["ok"] or report["tenant"] is not None:
        lines += content_lines(report)
    if {"at": "manifest.json", "code": "format"} in report["findings"]:
        lines.append(OTHER_FORMAT % BUNDLE_FORMAT)
    lines += finding_lines(report["findings"])
    # A bundle must not write to the terminal of the auditor.
    return "".join(re.sub(r"[^\x20-\x7e]", "?", line) + "\n" for line in lines)


def content_lines(report):
    def known(name):
        return text_of(report[name])

    lines = [
        "  tenant %s of fleet %s, exported at %s" % (known("tenant"), known("fleet"), known("exported_at")),
        "  " + counts_text(report["counts"]),
        "  sealed by the fleet: %s; log of %d entries" % ("yes" if report["sealed"] else "no", report["log_size"] or 0),
    ]
    lines.append("  " + COMPLETE[report["complete"]])
    if "access_blocks" in report["counts"]:
        lines.append("  " + (ACCESS_WHOLE if report["access_complete"] is True else ACCESS_END))
    else:
        lines.append("  " + ACCESS_NONE)
    lines += anchor_texts(report["anchors"], report["anchors_omitted_before"])
    revocations = {one["key_id"]: ", " + revocation_text(one) for one in report["keys_revoked"]}
    lines += ["  signed by key " + key_id + revocations.get(key_id, "") for key_id in report["keys"]]
    for one in report["electronic_signatures"]:
        by = "  signed by {printed_name} ({subject} of {issuer}), {meaning}, {signed_at} ({zone})".format(**one)
        by += ", with a passkey" if one["method"] == "webauthn" else ""
        line = by + ": version {version} of {checkpoint_id}, entry {at}".format(**one)
        is_newest = one["newest_version"] == one["version"]
        line += "" if is_newest else ", SUPERSEDED by version %d" % one["newest_version"]
        lines.append(line if one["reason"] is None else line + ", reason: " + one["reason"])
    if not report["keys_compared"]:
        lines.append("  The keys are only those that the bundle states: compare them with --key, else they prove nothing.")
    if not report["keys_proved"]:
        lines.append("  The bundle lacks the audit entries about the keys: the fleet alone states when they were valid.")
    if report["continues"] is True:
        lines.append("  The log continues the checkpoint that you have kept.")
    return lines


KEY_FORM = "the id of a key has 64 hexadecimal digits, as `fleet keys list --json` prints it"


def call_of(arguments):
    """None: the arguments are wrong. A text says what is wrong with one."""
    bundles, keys, revoked, checkpoint, authorities, as_json = [], set(), set(), None, None, False
    rest = list(arguments)
    while rest:
        value = rest.pop(0)
        if value == "--json":
            as_json = True
        elif value in ("--key", "--revoked") and rest:
            key_id = rest.pop(0)
            if not re.fullmatch("[0-9a-fA-F]{64}", key_id):
                return "%s %s: %s" % (value, key_id, KEY_FORM)
            (keys if value == "--key" else revoked).add(key_id.lower())
        elif value == "--checkpoint" and rest:
            checkpoint = rest.pop(0)
        elif value == "--tsa-ca" and rest:
            authorities = rest.pop(0)
        elif value.startswith("-"):
            return None
        else:
            bundles.append(value)
    return (bundles, keys, revoked, checkpoint, authorities, as_json) if bundles else None


def text_in(path):
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        return file.read()


def main(arguments):
    call = call_of(arguments)
    if call is None:
        sys.stderr.write(USAGE)
        return 64
    if isinstance(call, str):
        sys.stderr.write("error: %s\n" % re.sub(r"[^\x20-\x7e]", "?", call))
        return 64
    bundles, keys, revoked, checkpoint, authorities, as_json = call
    code = 0
    try:
        kept = None if checkpoint is None else text_in(checkpoint)
        trusted = None if authorities is None else certificates_in(text_in(authorities))
        if authorities is not None and trusted is None:
            raise OSError("%s has no certificates that can be read (PEM)" % authorities)
        for path in bundles:
            archive = Archive(path)
            bundle = Bundle(archive, keys or None, revoked, kept, trusted)
            bundle.verify()
            archive.file.close()
            report = bundle.report()
            if not report["ok"]:
                code = 8
            sys.stdout.write(exact_text(report) + "\n" if as_json else report_text(path, report))
    except OSError as error:
        sys.stderr.write("error: %s\n" % error)
        return 65
    return code


if __name__ == "__main__":
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8")
    sys.exit(main(sys.argv[1:]))
