/**
 * Canonical bytes (RFC 8785, JSON Canonicalization Scheme) and their SHA-256. Bytes are made once, on write, and stored as they
 * were hashed; verifying never canonicalises again.
 */
import { createHash } from "node:crypto";
import canonicalize from "canonicalize";
import { FleetError } from "../protocol/errors.ts";
import { gate } from "./gate.ts";

const encoder = new TextEncoder();

/** Canonical text of plain JSON data that has passed {@link gate} already. */
export function canonicalText(value: unknown): string {
  const text = canonicalize(value);
  if (text === undefined)
    throw new FleetError("INTERNAL", "a value without canonical form reached the canonicaliser");
  return text;
}

/** Gate, then canonical UTF-8 bytes. Throws INVALID for anything that is not plain JSON data. */
export function canonicalBytes(value: unknown): Uint8Array {
  gate(value);
  return encoder.encode(canonicalText(value));
}

/** Lower-case hex, 64 characters. */
export function sha256Hex(bytes: Uint8Array | string): string {
  return createHash("sha256").update(bytes).digest("hex");
}
