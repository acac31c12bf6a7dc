/**
 * X.509 certificates in DER, as in RFC 5280: an authority, and the certificate of a server. Node reads certificates and cannot make
 * them. Keys are on the curve P-256, which every TLS library supports.
 */
import { createHash, createPublicKey, type KeyObject, randomBytes, sign } from "node:crypto";
import { isIPv4, isIPv6 } from "node:net";

export interface Validity {
  readonly from: Date;
  readonly to: Date;
}

export interface AuthorityRequest extends Validity {
  readonly name: string;
  readonly key: KeyObject;
}

export interface ServerRequest extends Validity {
  readonly name: string;
  readonly key: KeyObject;
  /** Host names and IP addresses. */
  readonly hosts: readonly string[];
  readonly authority: { readonly name: string; readonly key: KeyObject };
  /** True: the server also shows it to other servers as their client. */
  readonly forRoutes?: boolean;
}

const TAGS = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  oid: 0x06,
  utf8String: 0x0c,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
} as const;
const OIDS = {
  commonName: "2.5.4.3",
  subjectKeyIdentifier: "2.5.29.14",
  keyUsage: "2.5.29.15",
  subjectAltName: "2.5.29.17",
  basicConstraints: "2.5.29.19",
  authorityKeyIdentifier: "2.5.29.35",
  extendedKeyUsage: "2.5.29.37",
  serverAuthentication: "1.3.6.1.5.5.7.3.1",
  clientAuthentication: "1.3.6.1.5.5.7.3.2",
  ecdsaWithSha256: "1.2.840.10045.4.3.2",
} as const;
/** The first byte counts the unused bits of the second one. */
const USAGES = { signCertificates: [1, 0b0000_0110], signHandshakes: [7, 0b1000_0000] } as const;
const VERSION_3 = 2;
const SERIAL_BYTES = 16;
const KEY_ID_BYTES = 20;
/** A UTCTime has two digits for the year. */
const UTC_TIME_UNTIL = 2050;

/** A certificate that is signed with its own key, in PEM. */
export function authorityCertificate({ name, key, from, to }: AuthorityRequest): string {
  return certificate({ name, key, from, to, authority: { name, key } }, [
    extension(OIDS.basicConstraints, sequence(der(TAGS.boolean, [0xff]), integer([0])), { critical: true }),
    extension(OIDS.keyUsage, der(TAGS.bitString, USAGES.signCertificates), { critical: true }),
  ]);
}

/** In PEM. Throws for a host that is neither an address nor written in ASCII. */
export function serverCertificate({ forRoutes = false, ...request }: ServerRequest): string {
  const purposes = [OIDS.serverAuthentication, ...(forRoutes ? [OIDS.clientAuthentication] : [])];
  return certificate(request, [
    extension(OIDS.basicConstraints, sequence(), { critical: true }),
    extension(OIDS.keyUsage, der(TAGS.bitString, USAGES.signHandshakes), { critical: true }),
    extension(OIDS.extendedKeyUsage, sequence(...purposes.map(oid))),
    extension(OIDS.subjectAltName, sequence(...request.hosts.map(alternativeName))),
  ]);
}

function certificate(
  { name, key, from, to, authority }: Omit<ServerRequest, "hosts" | "forRoutes">,
  extensions: readonly Buffer[],
): string {
  const algorithm = sequence(oid(OIDS.ecdsaWithSha256));
  const content = sequence(
    tagged(0, integer([VERSION_3])),
    integer(serialNumber()),
    algorithm,
    distinguishedName(authority.name),
    sequence(time(from), time(to)),
    distinguishedName(name),
    publicKey(key),
    tagged(
      3,
      sequence(
        ...extensions,
        extension(OIDS.subjectKeyIdentifier, der(TAGS.octetString, keyId(key))),
        extension(OIDS.authorityKeyIdentifier, sequence(implicit(0, keyId(authority.key)))),
      ),
    ),
  );
  const signature = sign("sha256", content, authority.key);
  const bytes = sequence(content, algorithm, der(TAGS.bitString, [0], signature));
  const lines = bytes.toString("base64").match(/.{1,64}/g) ?? [];
  return ["-----BEGIN CERTIFICATE-----", ...lines, "-----END CERTIFICATE-----", ""].join("\n");
}

/** Positive, and of the same length each time. */
function serialNumber(): Buffer {
  const bytes = randomBytes(SERIAL_BYTES);
  bytes[0] = (bytes[0]! & 0x3f) | 0x40;
  return bytes;
}

const publicKey = (key: KeyObject): Buffer => createPublicKey(key).export({ type: "spki", format: "der" });

/** Any bytes that distinguish the keys (RFC 7093). */
const keyId = (key: KeyObject): Buffer =>
  createHash("sha256").update(publicKey(key)).digest().subarray(0, KEY_ID_BYTES);

const distinguishedName = (name: string): Buffer =>
  sequence(der(TAGS.set, sequence(oid(OIDS.commonName), der(TAGS.utf8String, Buffer.from(name)))));

function extension(id: string, value: Buffer, { critical = false } = {}): Buffer {
  return sequence(oid(id), ...(critical ? [der(TAGS.boolean, [0xff])] : []), der(TAGS.octetString, value));
}

function alternativeName(host: string): Buffer {
  if (isIPv4(host)) return implicit(7, Buffer.from(host.split(".").map(Number)));
  if (isIPv6(host)) return implicit(7, ipv6Bytes(host));
  if (!/^[\x21-\x7e]+$/.test(host)) throw new Error(`${JSON.stringify(host)} is not a host name`);
  return implicit(2, Buffer.from(host));
}

function ipv6Bytes(host: string): Buffer {
  // The URL parser writes it in hexadecimal groups, with one gap.
  const [before = "", after] = new URL(`http://[${host}]`).hostname.slice(1, -1).split("::");
  const groups = (text: string): string[] => (text === "" ? [] : text.split(":"));
  const [first, last] = [groups(before), groups(after ?? "")];
  const gap = Array<string>(8 - first.length - last.length).fill("0");
  return Buffer.from([...first, ...gap, ...last].map((group) => group.padStart(4, "0")).join(""), "hex");
}

function time(date: Date): Buffer {
  const text = `${date.toISOString().slice(0, 19).replace(/[-:T]/g, "")}Z`;
  return date.getUTCFullYear() < UTC_TIME_UNTIL
    ? der(TAGS.utcTime, Buffer.from(text.slice(2)))
    : der(TAGS.generalizedTime, Buffer.from(text));
}

function oid(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split(".").map(Number);
  return der(TAGS.oid, [40 * first + second, ...rest.flatMap(sevenBitGroups)]);
}

/** The highest group first. All but the last have their eighth bit set. */
function sevenBitGroups(number: number): number[] {
  const groups = [number & 0x7f];
  for (let left = number >>> 7; left > 0; left >>>= 7) groups.unshift((left & 0x7f) | 0x80);
  return groups;
}

const integer = (bytes: Iterable<number>): Buffer => der(TAGS.integer, bytes);
const sequence = (...parts: readonly Buffer[]): Buffer => der(TAGS.sequence, ...parts);
const tagged = (number: number, content: Buffer): Buffer => der(0xa0 | number, content);
const implicit = (number: number, content: Buffer): Buffer => der(0x80 | number, content);

function der(tag: number, ...parts: readonly Iterable<number>[]): Buffer {
  const content = Buffer.concat(parts.map((part) => Uint8Array.from(part)));
  return Buffer.concat([Buffer.from([tag, ...lengthOf(content)]), content]);
}

function lengthOf({ length }: Buffer): number[] {
  if (length < 0x80) return [length];
  return length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
}
