/** Certificates (X.509, RFC 5280) as far as time-stamps need them: what they are for, and whether a trusted one vouches for them. */
import { constants, type KeyObject, verify } from "node:crypto";
import { providerKey } from "../esign/provider-key.ts";
import {
  DER,
  type DerValue,
  derAlgorithm,
  derBytes,
  derContent,
  derMembers,
  derOid,
  derOnly,
  derPositive,
  derTime,
  derValue,
  NotDer,
} from "./der.ts";

interface CertificateExtension {
  readonly isCritical: boolean;
  readonly value: Buffer;
}

export interface Certificate {
  /** DER. */
  readonly whole: Buffer;
  /** What the issuer has signed. */
  readonly signed: Buffer;
  readonly issuer: Buffer;
  readonly subject: Buffer;
  readonly fromMs: number;
  readonly untilMs: number;
  readonly publicKey: DerValue;
  readonly algorithm: string;
  readonly signature: Buffer;
  readonly extensions: ReadonlyMap<string, CertificateExtension>;
}

const PEM = /-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]+)-----END CERTIFICATE-----/g;

/** The certificates in a text (PEM). Throws NotDer for one that cannot be read. */
export function certificatesIn(pem: string): Certificate[] {
  return [...pem.matchAll(PEM)].map(([, text = ""]) =>
    certificateOf(derValue(Buffer.from(text.replaceAll(/\s/g, ""), "base64"))),
  );
}

/** Whether the text has certificates, and all can be read. */
export function hasCertificates(pem: string): boolean {
  try {
    return certificatesIn(pem).length > 0;
  } catch (error) {
    if (error instanceof NotDer) return false;
    throw error;
  }
}

/** Throws NotDer. */
export function certificateOf(value: DerValue): Certificate {
  const [signed, algorithm, signature] = derMembers(value);
  const members = derMembers(signed);
  if (members[0]?.tag === DER.part0) members.shift();
  const [, stated, issuer, validity, subject, publicKey, ...rest] = members;
  const [from, until] = derMembers(validity);
  if (signed === undefined || publicKey === undefined || stated === undefined) throw new NotDer();
  // The outer identifier is not signed.
  if (algorithm === undefined || !stated.whole.equals(algorithm.whole)) throw new NotDer();
  return {
    whole: value.whole,
    signed: signed.whole,
    issuer: derContent(issuer, DER.sequence),
    subject: derContent(subject, DER.sequence),
    fromMs: derTime(from),
    untilMs: derTime(until),
    publicKey,
    algorithm: derAlgorithm(algorithm),
    signature: derBytes(signature),
    extensions: extensionsIn(rest.find(({ tag }) => tag === DER.part3)),
  };
}

function extensionsIn(value: DerValue | undefined): Map<string, CertificateExtension> {
  const found = new Map<string, CertificateExtension>();
  for (const one of value === undefined ? [] : derMembers(derOnly(value, DER.part3))) {
    const members = derMembers(one);
    const id = derOid(members[0]);
    const isCritical = members[1]?.tag === DER.boolean && members[1].content[0] === 0xff;
    if (found.has(id)) throw new NotDer();
    found.set(id, { isCritical, value: derContent(members.at(-1), DER.octetString) });
  }
  return found;
}

const RSA_ENCRYPTION = "2a864886f70d010101";
const EC_PUBLIC_KEY = "2a8648ce3d0201";
const CURVES: Readonly<Record<string, { readonly name: "P-256" | "P-384"; readonly bytes: number }>> = {
  "2a8648ce3d030107": { name: "P-256", bytes: 32 },
  "2b81040022": { name: "P-384", bytes: 48 },
};
/** The algorithms of signatures: RSA (PKCS #1, version 1.5) and ECDSA, with SHA-2. */
const SIGNATURES: Readonly<Record<string, { readonly key: string; readonly hash: string }>> = {
  "2a864886f70d01010b": { key: RSA_ENCRYPTION, hash: "sha256" },
  "2a864886f70d01010c": { key: RSA_ENCRYPTION, hash: "sha384" },
  "2a864886f70d01010d": { key: RSA_ENCRYPTION, hash: "sha512" },
  "2a8648ce3d040302": { key: EC_PUBLIC_KEY, hash: "sha256" },
  "2a8648ce3d040303": { key: EC_PUBLIC_KEY, hash: "sha384" },
  "2a8648ce3d040304": { key: EC_PUBLIC_KEY, hash: "sha512" },
};

/** `digest`: the hash of a signature whose algorithm names none. */
export interface CertifiedSignature {
  readonly algorithm: string;
  readonly digest?: string;
  readonly text: Uint8Array;
  readonly signature: Buffer;
}

/** {@link isCertifiedSignature}, or one that bounds the number of its calls. */
export type SignatureCheck = (
  certificate: Pick<Certificate, "publicKey">,
  signature: CertifiedSignature,
) => boolean;

/** Whether the signature is that of the key in the certificate. */
export function isCertifiedSignature(
  { publicKey }: Pick<Certificate, "publicKey">,
  { algorithm, digest, text, signature }: CertifiedSignature,
): boolean {
  try {
    const [identifier, bits] = derMembers(publicKey);
    const [kind, curve] = derMembers(identifier);
    const known =
      algorithm === RSA_ENCRYPTION && digest !== undefined
        ? { key: RSA_ENCRYPTION, hash: digest }
        : SIGNATURES[algorithm];
    if (known === undefined || derOid(kind) !== known.key) return false;
    const { hash } = known;
    return known.key === RSA_ENCRYPTION
      ? isRsaSignature(derBytes(bits), { hash, text, signature })
      : isEcSignature({ curve: derOid(curve), point: derBytes(bits) }, { hash, text, signature });
  } catch (error) {
    if (error instanceof NotDer) return false;
    throw error;
  }
}

interface HashedSignature {
  readonly hash: string;
  readonly text: Uint8Array;
  readonly signature: Buffer;
}

function isRsaSignature(bytes: Buffer, { hash, text, signature }: HashedSignature): boolean {
  const [modulus, exponent] = derMembers(derValue(bytes));
  const [n, e] = [modulus, exponent].map((one) => derPositive(one).toString("base64url"));
  const key = providerKey({ kty: "RSA", n, e }, "RS256");
  return key !== null && verify(hash, text, { key, padding: constants.RSA_PKCS1_PADDING }, signature);
}

function isEcSignature(
  { curve: id, point }: { readonly curve: string; readonly point: Buffer },
  { hash, text, signature }: HashedSignature,
): boolean {
  const curve = CURVES[id];
  if (curve === undefined || point.length !== 1 + 2 * curve.bytes || point[0] !== 4) return false;
  const [x, y] = [point.subarray(1, 1 + curve.bytes), point.subarray(1 + curve.bytes)];
  const members = { kty: "EC", crv: curve.name, x: x.toString("base64url"), y: y.toString("base64url") };
  const key: KeyObject | null = providerKey(members, curve.name === "P-256" ? "ES256" : "ES384");
  const numbers = derMembers(derValue(signature)).map(derPositive);
  if (key === null || numbers.length !== 2) return false;
  if (numbers.some(({ length }) => length > curve.bytes)) return false;
  const padded = numbers.map((one) => Buffer.concat([Buffer.alloc(curve.bytes - one.length), one]));
  return verify(hash, text, { key, dsaEncoding: "ieee-p1363" }, Buffer.concat(padded));
}

const EXTENSION = {
  basicConstraints: "551d13",
  keyUsage: "551d0f",
  extendedKeyUsage: "551d25",
  policies: "551d20",
} as const;
const KNOWN_EXTENSIONS: readonly string[] = Object.values(EXTENSION);
const TIME_STAMPING = "2b06010505070308";
/** Of the first byte of a key usage. */
const KEY_USAGE = { signing: 0xc0, certificates: 0x04 } as const;
const CHAIN_MAX = 6;

/** Whether the certificate was valid then, and demands nothing that is not known here. */
function isUsable({ fromMs, untilMs, extensions }: Certificate, atMs: number): boolean {
  const isKnown = [...extensions].every(
    ([id, { isCritical }]) => !isCritical || KNOWN_EXTENSIONS.includes(id),
  );
  return isKnown && fromMs <= atMs && atMs <= untilMs;
}

function hasUsage({ extensions }: Certificate, bits: number): boolean {
  const usage = extensions.get(EXTENSION.keyUsage);
  if (usage === undefined) return true;
  const [, first = 0] = derContent(derValue(usage.value), DER.bitString);
  return (first & bits) !== 0;
}

/** A certificate of a time-stamp authority may do nothing else (RFC 3161, section 2.3). Throws NotDer. */
export function isTimestampCertificate(certificate: Certificate, atMs: number): boolean {
  const usage = certificate.extensions.get(EXTENSION.extendedKeyUsage);
  if (usage === undefined || !usage.isCritical) return false;
  const purposes = derMembers(derValue(usage.value)).map(derOid);
  const isOnly = purposes.length === 1 && purposes[0] === TIME_STAMPING;
  return isOnly && isUsable(certificate, atMs) && hasUsage(certificate, KEY_USAGE.signing);
}

/** A number of one byte. */
function smallNumber(value: DerValue): number {
  const content = derContent(value, DER.integer);
  if (content.length !== 1) throw new NotDer();
  return content[0]!;
}

/** `below`: the authorities between it and the certificate of the signer. */
function mayIssue(certificate: Certificate, below: number, atMs: number): boolean {
  const constraints = certificate.extensions.get(EXTENSION.basicConstraints);
  if (constraints === undefined) return false;
  const [isAuthority, most] = derMembers(derValue(constraints.value));
  if (isAuthority?.tag !== DER.boolean || isAuthority.content[0] !== 0xff) return false;
  if (most !== undefined && smallNumber(most) < below) return false;
  return isUsable(certificate, atMs) && hasUsage(certificate, KEY_USAGE.certificates);
}

export interface KnownCertificates {
  readonly trusted: readonly Certificate[];
  readonly others: readonly Certificate[];
  readonly check?: SignatureCheck | undefined;
}

/** Whether issuers lead from the certificate to a trusted one, or it is one itself. Throws NotDer. Revocations are not looked up. */
export function leadsToTrusted(
  certificate: Certificate,
  { trusted, others, check = isCertifiedSignature }: KnownCertificates,
  atMs: number,
): boolean {
  const known = [...trusted, ...others];
  const seen = new Set<Certificate>();
  let level: Certificate[] = [certificate];
  for (let below = 0; below < CHAIN_MAX && level.length > 0; below += 1) {
    if (level.some((one) => trusted.some(({ whole }) => whole.equals(one.whole)))) return true;
    const issuers = known.filter(
      (issuer) =>
        !seen.has(issuer) &&
        mayIssue(issuer, below, atMs) &&
        level.some((one) => issuer.subject.equals(one.issuer) && check(issuer, issuedIn(one))),
    );
    for (const issuer of issuers) seen.add(issuer);
    level = issuers;
  }
  return false;
}

const issuedIn = ({ algorithm, signed: text, signature }: Certificate): CertifiedSignature => ({
  ...{ algorithm, text, signature },
});
