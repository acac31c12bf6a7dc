/** The small files of a bundle as their exact bytes. EXPORT.md specifies them. */
import { readFileSync } from "node:fs";
import { canonicalText } from "../../integrity/canonical.ts";
import type { ExportSeal } from "../../protocol/audit-log.ts";
import type { ExportScope } from "../../protocol/export-lines.ts";
import type { PlacedEnvelope, SigningKeyList } from "../../protocol/signing-keys.ts";
import type { ListedFile } from "./archive-writer.ts";
import { BUNDLE_FORMAT, BUNDLE_KIND } from "./offline/bundle-manifest.ts";

/** An entry that changes a key, with the signature of its commit, which may end later. */
export interface KeyChangeEntry {
  readonly seq: number;
  readonly end: number;
  readonly entry: string;
  readonly signature: PlacedEnvelope["envelope"];
}

export interface BundleManifest {
  readonly tenant: string;
  readonly fleet: string | null;
  readonly exported_at: string;
  readonly tool: string;
  readonly scope: ExportScope;
  readonly mtime: number;
  readonly counts: Readonly<Record<string, number>>;
  readonly files: readonly ListedFile[];
}

/** Why an entry has no proof. */
export type PendingReason = "not_in_log" | "damaged" | "unsigned_log";

export type ProofLine = { readonly task: string; readonly seq: number } & (
  | { readonly index: number; readonly proof: readonly string[] }
  | { readonly pending: PendingReason }
);

interface AccessChainPlace {
  readonly seq: number;
  readonly hash: string;
}

/** A line of access.jsonl. */
export type AccessLine =
  | {
      readonly kind: "log";
      readonly start: AccessChainPlace | null;
      readonly head: AccessChainPlace | null;
    }
  /** An act in which the chain of the tenant states a block; `end`: as in {@link KeyChangeEntry}. */
  | {
      readonly kind: "statement";
      readonly seq: number;
      readonly end: number;
      readonly entry: string;
      readonly signature?: object;
    }
  | { readonly kind: "block"; readonly seq: number; readonly entry: string; readonly signature?: object };

/** One line of canonical JSON. */
export function jsonLine(value: object): Buffer {
  return Buffer.from(`${canonicalText(value)}\n`);
}

export function manifestBytes(manifest: BundleManifest): Buffer {
  return jsonLine({ ...manifest, kind: BUNDLE_KIND, format: BUNDLE_FORMAT });
}

/** `changes` null: the tenant cannot read the chain that has them. */
export function keysetBytes(
  { keys, signatures_required }: SigningKeyList,
  changes: readonly KeyChangeEntry[] | null,
): Buffer {
  return jsonLine({ keys, signatures_required, changes });
}

/** Only the members that a verifier accepts: a newer fleet may answer others. */
export function sealBytes({ seq, entry, signature }: ExportSeal): Buffer {
  if (signature === null) return jsonLine({ seq, entry, signature });
  const { payload, payloadType } = signature;
  const signatures = signature.signatures.map(({ keyid, sig }) => ({ keyid, sig }));
  return jsonLine({ seq, entry, signature: { payload, payloadType, signatures } });
}

/** The verifiers, which stand beside this module. */
export function verifierFiles(): readonly { readonly name: string; readonly bytes: Buffer }[] {
  return ["verify.mjs", "verify.py"].map((name) => ({
    name,
    bytes: readFileSync(new URL(name, import.meta.url)),
  }));
}
