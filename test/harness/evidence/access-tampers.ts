/** Tampers with the access log of a bundle: its values, its signatures, and chains that were written again or cut. */
import { canonicalText } from "../../../shared/integrity/canonical.ts";
import type { SigningKey } from "../../../shared/integrity/dsse.ts";
import {
  type Any,
  type BundleParts,
  envelope,
  line,
  linesOf,
  rehashed,
  sha256,
  withFile,
} from "./forgery.ts";
import { editValue, type Maker, made, revocationOf } from "./tampers.ts";

export const ACCESS_FILE = "access.jsonl";
const ACCESS_CHAIN = "=access";

export const withAccess = (parts: BundleParts, lines: readonly Any[]): BundleParts =>
  withFile(parts, ACCESS_FILE, lines.map(line).join(""));

/** `stolen`: a revoked key in the hands of a thief. */
export const accessTampers = (stolen: SigningKey): readonly (readonly [Maker, number])[] => [
  [access(stolen), 12],
  [withoutEnd, 2],
];

/** Without the last block, which the head still states. */
const withoutEnd: Maker = (parts) =>
  made("end of the access log", rehashed(withAccess(parts, linesOf(parts, ACCESS_FILE).slice(0, -1))));

const access =
  (key: SigningKey): Maker =>
  (parts, random) => {
    const lines = linesOf(parts, ACCESS_FILE);
    const blocks = lines.filter(({ kind }) => kind === "block");
    const one = blocks[random(blocks.length)];
    const what = random(6);
    if (what === 0) editValue(lines[random(lines.length)], random);
    else if (what === 1) editValue(one.signature ?? one, random);
    else if (what === 2) delete one.signature;
    else if (what === 3) rewriteBlocks(lines, one.seq, null);
    else if (what === 4) {
      const at = new Date(revocationOf(parts, key.id) - 1 - random(1_000)).toISOString();
      rewriteBlocks(lines, one.seq, { key, at });
    } else cutAfter(lines, one.seq);
    const changed = withAccess(parts, lines);
    if (changed.get(ACCESS_FILE)!.equals(parts.get(ACCESS_FILE)!)) return null;
    // Statements of the tenant, the seal and the counts show what was cut off.
    return made(`access log ${what}`, rehashed(changed), what !== 5);
  };

/** Changes the reads of a block, and every hash from there on; with a key also the signatures. */
export function rewriteBlocks(
  lines: readonly Any[],
  from: number,
  thief: { readonly key: SigningKey; readonly at: string } | null,
): void {
  let prev: string | null = null;
  for (const one of lines) {
    if (one.kind !== "block" || one.seq < from) continue;
    const facts = JSON.parse(one.entry);
    if (prev === null)
      facts.entries = [
        { at: facts.at, actor: { id: "forged", type: "agent" }, op: "query.get", outcome: "ok" },
      ];
    else facts.prev = prev;
    if (thief !== null) Object.assign(facts, { at: thief.at, signed_by: thief.key.id });
    one.entry = canonicalText(facts);
    prev = sha256(one.entry);
    if (thief !== null) one.signature = envelope(thief.key, { ...facts, task: ACCESS_CHAIN }, prev);
  }
  const last = lines.at(-1);
  lines[0].head = { seq: last.seq, hash: prev ?? sha256(last.entry) };
}

/** Removes the blocks after one, and makes the head fit. */
export function cutAfter(lines: Any[], seq: number): void {
  const end = lines.findIndex((one) => one.kind === "block" && one.seq === seq);
  lines.splice(end + 1);
  lines[0].head = { seq, hash: sha256(lines[end].entry) };
}
