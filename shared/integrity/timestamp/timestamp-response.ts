/**
 * Verifies the response of a time-stamp authority (RFC 3161, section 2.4.2), which is signed CMS (RFC 5652). It comes from
 * outside, so each fault is an answer. The verifiers of bundles use it too: what the fleet has accepted, they can verify.
 */
import { createHash } from "node:crypto";
import {
  type Certificate,
  certificateOf,
  certificatesIn,
  isCertifiedSignature,
  isTimestampCertificate,
  leadsToTrusted,
  type SignatureCheck,
} from "./certificates.ts";
import {
  DER,
  type DerValue,
  derAlgorithm,
  derContent,
  derMembers,
  derOid,
  derOnly,
  derTime,
  derValue,
  NotDer,
} from "./der.ts";

/** The response to one request. */
export interface JudgedTimestamp {
  /** null: the time-stamp is that of the content, and its signature is valid. */
  readonly problem: string | null;
  /** Whether all is valid but the authority, which is none of the trusted ones. */
  readonly isUntrusted: boolean;
  /** The time of the authority, ISO 8601. null: it could not be read. */
  readonly at: string | null;
}

export interface TimestampTrust {
  /** Certificates of authorities, PEM. Empty: any authority, so the verifier compares it later. */
  readonly authorities: readonly string[];
  /** Of the request. null: a kept response is verified. */
  readonly nonce: Uint8Array | null;
  /** Absent: {@link isCertifiedSignature}. What it throws, {@link judgeTimestamp} throws. */
  readonly check?: SignatureCheck;
}

const SIGNED_DATA = "2a864886f70d010702";
const TST_INFO = "2a864886f70d0109100104";
const CONTENT_TYPE = "2a864886f70d010903";
const MESSAGE_DIGEST = "2a864886f70d010904";
const SIGNING_CERTIFICATE = "2a864886f70d010910020c";
const SIGNING_CERTIFICATE_V2 = "2a864886f70d010910022f";
const SHA_256 = "608648016503040201";
const DIGESTS: Readonly<Record<string, string>> = {
  [SHA_256]: "sha256",
  "608648016503040202": "sha384",
  "608648016503040203": "sha512",
};
/** Granted, and granted with changes of the request. */
const GRANTED_MAX = 1;
const CERTIFICATES_MAX = 16;

class RefusedTimestamp extends Error {
  override readonly name = "RefusedTimestamp";
}

function refuse(problem: string): never {
  throw new RefusedTimestamp(problem);
}

export function judgeTimestamp(
  response: Uint8Array,
  content: Uint8Array,
  { authorities, nonce, check = isCertifiedSignature }: TimestampTrust,
): JudgedTimestamp {
  let at: string | null = null;
  try {
    const token = tokenIn(Buffer.from(response));
    const info = infoIn(token.content);
    at = new Date(info.atMs).toISOString();
    requireRequested(info, content, nonce);
    const signer = signerOf(token, check);
    if (!isTimestampCertificate(signer, info.atMs))
      refuse("its certificate is not one of a time-stamp authority");
    const trusted = authorities.flatMap(certificatesIn);
    const others = token.certificates;
    if (authorities.length === 0 || leadsToTrusted(signer, { trusted, others, check }, info.atMs))
      return { problem: null, isUntrusted: false, at };
    const problem = "its signature is not valid: its certificate does not lead to a trusted one";
    return { problem, isUntrusted: true, at };
  } catch (error) {
    if (!(error instanceof RefusedTimestamp || error instanceof NotDer)) throw error;
    const problem = error instanceof NotDer ? "it is not a time-stamp response" : error.message;
    return { problem, isUntrusted: false, at };
  }
}

/** The signed parts of a response. */
interface SignedToken {
  /** The time-stamp itself. */
  readonly content: Buffer;
  readonly certificates: readonly Certificate[];
  readonly digest: string;
  /** By their types. */
  readonly attributes: ReadonlyMap<string, DerValue>;
  /** As they were signed. */
  readonly signedText: Buffer;
  readonly algorithm: string;
  readonly signature: Buffer;
}

function tokenIn(response: Buffer): SignedToken {
  const [state, token] = derMembers(derValue(response));
  const status = derContent(derMembers(state)[0], DER.integer);
  if (status.length !== 1) throw new NotDer();
  if (status[0]! > GRANTED_MAX) refuse(`the authority has refused it with the status ${status[0]}`);
  const [type, wrapped] = derMembers(token);
  if (derOid(type) !== SIGNED_DATA) refuse("its time-stamp is not signed");
  const [, , encapsulated, ...rest] = derMembers(derOnly(wrapped, DER.part0));
  const signers = derMembers(rest.pop(), DER.set);
  // An authority has one signature (section 2.4.2).
  const [signer, ...others] = signers;
  if (others.length > 0) refuse("it does not have one signature");
  const [kind, content] = derMembers(encapsulated);
  if (derOid(kind) !== TST_INFO) refuse("its content is not a time-stamp");
  const certificates = rest
    .filter(({ tag }) => tag === DER.part0)
    .flatMap((set) => derMembers(set, DER.part0))
    .filter(({ tag }) => tag === DER.sequence);
  if (certificates.length > CERTIFICATES_MAX) refuse("it has too many certificates");
  return {
    content: derContent(derOnly(content, DER.part0), DER.octetString),
    certificates: certificates.map(certificateOf),
    ...signatureIn(signer),
  };
}

function signatureIn(signer: DerValue | undefined): Omit<SignedToken, "content" | "certificates"> {
  const [, , digest, attributes, algorithm, signature] = derMembers(signer);
  const found = new Map<string, DerValue>();
  for (const attribute of derMembers(attributes, DER.part0)) {
    const [type, values] = derMembers(attribute);
    const id = derOid(type);
    if (found.has(id)) throw new NotDer();
    found.set(id, derOnly(values, DER.set));
  }
  const signedText = Buffer.from(attributes!.whole);
  // They are signed as a set (RFC 5652, section 5.4).
  signedText[0] = DER.set;
  return {
    digest: DIGESTS[derAlgorithm(digest)] ?? refuse("it names an unknown digest"),
    attributes: found,
    signedText,
    algorithm: derAlgorithm(algorithm),
    signature: derContent(signature, DER.octetString),
  };
}

interface StampedInfo {
  readonly hashAlgorithm: string;
  readonly hash: Buffer;
  readonly atMs: number;
  readonly nonce: Buffer | null;
}

function infoIn(content: Buffer): StampedInfo {
  const [version, , imprint, , time, ...rest] = derMembers(derValue(content));
  if (derContent(version, DER.integer).toString("hex") !== "01") throw new NotDer();
  const [algorithm, hash] = derMembers(imprint);
  if (time?.tag !== DER.generalizedTime) throw new NotDer();
  return {
    hashAlgorithm: derAlgorithm(algorithm),
    hash: derContent(hash, DER.octetString),
    atMs: derTime(time),
    nonce: rest.find(({ tag }) => tag === DER.integer)?.content ?? null,
  };
}

function requireRequested(
  { hashAlgorithm, hash, nonce: answered }: StampedInfo,
  content: Uint8Array,
  nonce: Uint8Array | null,
): void {
  if (hashAlgorithm !== SHA_256 || !createHash("sha256").update(content).digest().equals(hash))
    refuse("it is of another content");
  if (nonce !== null && !answered?.equals(nonce)) refuse("it is the response to another request");
}

/** The certificate that the authority means and whose key has signed the time-stamp. */
function signerOf(token: SignedToken, check: SignatureCheck): Certificate {
  const { attributes, digest, content, algorithm, signedText: text, signature } = token;
  if (derOid(attributes.get(CONTENT_TYPE)) !== TST_INFO) refuse("its signature is of another content");
  const hash = derContent(attributes.get(MESSAGE_DIGEST), DER.octetString);
  if (!createHash(digest).update(content).digest().equals(hash))
    refuse("its signature is of another content");
  const named = namedCertificate(attributes);
  const signer = token.certificates.find(({ whole }) => named?.(whole));
  if (signer === undefined) return refuse("it names another certificate than that of its signature");
  if (!check(signer, { algorithm, digest, text, signature })) refuse("its signature is not valid");
  return signer;
}

/** Whether a certificate is the one of the signed attribute (RFC 5035; RFC 2634 with SHA-1). null: there is none. */
function namedCertificate(
  attributes: SignedToken["attributes"],
): ((certificate: Uint8Array) => boolean) | null {
  const second = attributes.get(SIGNING_CERTIFICATE_V2);
  const attribute = second ?? attributes.get(SIGNING_CERTIFICATE);
  if (attribute === undefined) return null;
  const [list] = derMembers(attribute);
  const parts = derMembers(derMembers(list)[0]);
  const isNamed = second !== undefined && parts[0]?.tag === DER.sequence;
  const named = isNamed ? derAlgorithm(parts[0]) : SHA_256;
  const digest = second === undefined ? "sha1" : (DIGESTS[named] ?? refuse("it names an unknown digest"));
  const hash = derContent(isNamed ? parts[1] : parts[0], DER.octetString);
  return (certificate) => createHash(digest).update(certificate).digest().equals(hash);
}
