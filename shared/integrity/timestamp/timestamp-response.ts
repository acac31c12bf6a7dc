/**
 * Verifies the response of a time-stamp authority (RFC 3161, section 2.4.2). It comes from outside, so each fault is an
 * answer. The library verifies the signature, the imprint and the certificates; what RFC 3161 demands beyond CMS is here.
 */
import { createHash, X509Certificate } from "node:crypto";
import type { Certificate, SignedData, TSTInfo } from "pkijs";

/** The response to one request. */
export interface JudgedTimestamp {
  /** null: the time-stamp is that of the content, and its signature is valid. */
  readonly problem: string | null;
  /** The time of the authority, ISO 8601. null: it could not be read. */
  readonly at: string | null;
}

export interface TimestampTrust {
  /** Certificates of authorities, PEM. Empty: any authority, so the verifier compares it later. */
  readonly authorities: readonly string[];
  /** Of the request. null: a kept response is verified. */
  readonly nonce: Uint8Array | null;
}

const SIGNED_DATA = "1.2.840.113549.1.7.2";
const TST_INFO = "1.2.840.113549.1.9.16.1.4";
const CONTENT_TYPE = "1.2.840.113549.1.9.3";
const SIGNING_CERTIFICATE_V2 = "1.2.840.113549.1.9.16.2.47";
const SIGNING_CERTIFICATE = "1.2.840.113549.1.9.16.2.12";
const SHA_256 = "2.16.840.1.101.3.4.2.1";
const DIGESTS: Readonly<Record<string, string>> = {
  [SHA_256]: "sha256",
  "2.16.840.1.101.3.4.2.2": "sha384",
  "2.16.840.1.101.3.4.2.3": "sha512",
};
const EXTENDED_KEY_USAGE = "2.5.29.37";
const TIME_STAMPING = "1.3.6.1.5.5.7.3.8";
/** The tag of ASN.1. */
const SEQUENCE = 16;
/** Granted, and granted with changes of the request. */
const GRANTED_MAX = 1;

class Refused extends Error {}

function refuse(problem: string): never {
  throw new Refused(problem);
}

export async function judgeTimestamp(
  response: Uint8Array,
  content: Uint8Array,
  trust: TimestampTrust,
): Promise<JudgedTimestamp> {
  let at: string | null = null;
  try {
    const token = await tokenIn(response);
    const info = await infoIn(token);
    at = info.genTime.toISOString();
    requireRequested(info, content, trust.nonce);
    await requireSigned(token, content, trust.authorities);
    return { problem: null, at };
  } catch (error) {
    return { problem: error instanceof Refused ? error.message : "it is not a time-stamp response", at };
  }
}

async function tokenIn(response: Uint8Array): Promise<SignedData> {
  const { SignedData, TimeStampResp } = await import("pkijs");
  const parsed = TimeStampResp.fromBER(new Uint8Array(response));
  const { status } = parsed.status;
  if (status > GRANTED_MAX) refuse(`the authority has refused it with the status ${status}`);
  const { contentType, content } = parsed.timeStampToken ?? refuse("it has no time-stamp");
  if (contentType !== SIGNED_DATA) refuse("its time-stamp is not signed");
  return new SignedData({ schema: content });
}

async function infoIn({ encapContentInfo }: SignedData): Promise<TSTInfo> {
  const { TSTInfo } = await import("pkijs");
  const { eContentType, eContent } = encapContentInfo;
  if (eContentType !== TST_INFO || eContent === undefined) refuse("its content is not a time-stamp");
  return TSTInfo.fromBER(eContent.getValue());
}

function requireRequested(
  { messageImprint, nonce: answered }: TSTInfo,
  content: Uint8Array,
  nonce: Uint8Array | null,
): void {
  const { hashAlgorithm, hashedMessage } = messageImprint;
  const hash = createHash("sha256").update(content).digest();
  if (hashAlgorithm.algorithmId !== SHA_256 || !hash.equals(hashedMessage.valueBlock.valueHexView))
    refuse("it is of another content");
  if (nonce === null) return;
  if (answered === undefined || !Buffer.from(nonce).equals(answered.valueBlock.valueHexView))
    refuse("it is the response to another request");
}

async function requireSigned(
  token: SignedData,
  content: Uint8Array,
  authorities: readonly string[],
): Promise<void> {
  const { Certificate } = await import("pkijs");
  const trustedCerts = authorities.map((pem) =>
    Certificate.fromBER(new Uint8Array(new X509Certificate(pem).raw)),
  );
  // An authority has one signature (section 2.4.2).
  if (token.signerInfos.length !== 1) refuse("it does not have one signature");
  const { signatureVerified, signerCertificate } = await token
    .verify({
      signer: 0,
      data: new Uint8Array(content).buffer,
      trustedCerts,
      checkChain: trustedCerts.length > 0,
      // Whether the certificate is revoked is not looked up.
      passedWhenNotRevValues: true,
      extendedMode: true,
    })
    .catch((error: unknown) => refuse(`its signature is not valid: ${(error as Error).message}`));
  if (signatureVerified !== true || !signerCertificate) refuse("its signature is not valid");
  requireAttributes(token, signerCertificate);
  requireTimestamping(signerCertificate);
}

/** They are signed: what was signed is a time-stamp, and the certificate is the one that the authority meant. */
function requireAttributes({ signerInfos }: SignedData, certificate: Certificate): void {
  const attributes = signerInfos[0]?.signedAttrs?.attributes ?? [];
  const attributeOf = (...types: string[]) => attributes.find(({ type }) => types.includes(type))?.values[0];
  if (attributeOf(CONTENT_TYPE)?.valueBlock.toString() !== TST_INFO)
    refuse("its signature is of another content");
  const [first] = listIn(listIn(attributeOf(SIGNING_CERTIFICATE_V2, SIGNING_CERTIFICATE))[0]);
  const parts = listIn(first);
  const isFirstVersion = attributeOf(SIGNING_CERTIFICATE_V2) === undefined;
  // By its type: the bytes of a hash may look like a list.
  const isNamed = parts[0]?.idBlock.tagNumber === SEQUENCE;
  const named: string | undefined = isNamed ? listIn(parts[0])[0]?.valueBlock.toString() : undefined;
  const digest = isFirstVersion
    ? "sha1"
    : (DIGESTS[named ?? SHA_256] ?? refuse("it names an unknown digest"));
  const hash: Uint8Array | undefined = (isNamed ? parts[1] : parts[0])?.valueBlock.valueHexView;
  const der = new Uint8Array(certificate.toSchema().toBER(false));
  if (hash === undefined || !createHash(digest).update(der).digest().equals(hash))
    refuse("it names another certificate than that of its signature");
}

// biome-ignore lint/suspicious/noExplicitAny: the library has no types for the values of attributes.
const listIn = (value: any): any[] => (Array.isArray(value?.valueBlock?.value) ? value.valueBlock.value : []);

/** A certificate of an authority may do nothing else (section 2.3). */
function requireTimestamping({ extensions = [] }: Certificate): void {
  const usage = extensions.find(({ extnID }) => extnID === EXTENDED_KEY_USAGE);
  const purposes: readonly string[] = usage?.parsedValue?.keyPurposes ?? [];
  if (usage?.critical !== true || purposes.length !== 1 || purposes[0] !== TIME_STAMPING)
    refuse("its certificate is not one of a time-stamp authority");
}
