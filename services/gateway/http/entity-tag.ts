/** Entity tags: the version of a checkpoint with the beginning of its hash, and a hash of any other record. */
import { hash } from "node:crypto";
import { FleetError } from "../../../shared/protocol/errors.ts";
import { SIGNATURE_MEMBERS } from "../../../shared/protocol/esign.ts";
import { HttpError } from "./problem.ts";

const HASH_CHARS = 16;
const SIGNATURES_CHARS = 8;
const VERSION = /^"(\d{1,15})-[0-9a-f]{16}(?:-[0-9a-f]{8})?"$/;

interface Versioned {
  readonly version: number;
  readonly hash: string;
}

export const versionTag = ({ version, hash: whole }: Versioned): string =>
  `"${version}-${whole.slice(0, HASH_CHARS)}"`;

interface ReadCheckpoint {
  readonly metadata?: { readonly version?: unknown };
  readonly compliance?: { readonly hash?: unknown };
}

/**
 * The tag that its writer got, with a part for the signatures of people beside it, which come while the version stays. A checkpoint in the form of an earlier
 * version may lack the members, and has that of any record.
 */
export function tagOfCheckpoint(checkpoint: ReadCheckpoint, json: Uint8Array): string {
  const { metadata, compliance } = checkpoint;
  if (typeof metadata?.version !== "number" || typeof compliance?.hash !== "string") return tagOf(json);
  const tag = versionTag({ version: metadata.version, hash: compliance.hash });
  const signatures = Object.entries(checkpoint).filter(([name]) => SIGNATURE_MEMBERS.includes(name));
  if (signatures.length === 0) return tag;
  const digest = hash("sha256", JSON.stringify(signatures), "hex").slice(0, SIGNATURES_CHARS);
  return `${tag.slice(0, -1)}-${digest}"`;
}

/** `json`: the record as it is sent. */
export const tagOf = (json: Uint8Array): string => `"${hash("sha256", json, "hex").slice(0, HASH_CHARS)}"`;

/** The tag of an artifact, whose bytes never change. */
export const digestTag = (sha256: string): string => `"${sha256}"`;

/** True if `If-None-Match` names the tag, so the caller has the record. */
export function isKnown(header: string | null, tag: string): boolean {
  if (header === null) return false;
  return header.split(",").some((one) => [tag, "*"].includes(one.trim().replace(/^W\//, "")));
}

/** The version that `If-Match` asks for; undefined: any. Throws 412 for a tag of another form. */
export function wantedVersion(header: string | null): number | undefined {
  if (header === null || header.trim() === "*") return undefined;
  const [, version] = VERSION.exec(header.trim()) ?? [];
  if (version === undefined)
    throw notMatched(new FleetError("CONFLICT", "`If-Match` is no tag of a checkpoint"));
  return Number(version);
}

/** With `If-Match`, another version than the expected one is 412. */
export function notMatched(error: FleetError): HttpError {
  return new HttpError(412, error);
}
