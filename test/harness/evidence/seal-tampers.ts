/**
 * Bundles with a valid seal by the key of the fleet that states less than the fleet has compared: what an operator gets whose program leaves
 * something out of the request for the seal.
 */
import { canonicalText } from "../../../shared/integrity/canonical.ts";
import type { SigningKey } from "../../../shared/integrity/dsse.ts";
import { ACCESS_FILE, cutAfter, withAccess } from "./access-tampers.ts";
import {
  type Any,
  type BundleParts,
  envelope,
  line,
  linesOf,
  mtimeOf,
  packed,
  rehashed,
  sha256,
  unpacked,
  withFile,
  withLines,
} from "./forgery.ts";
import { type Maker, made, turns } from "./tampers.ts";

/** The bundle with the hashes of its files, and a seal for them with these members of the subject; undefined: it lacks one. */
export function sealedAgain(
  parts: BundleParts,
  key: SigningKey,
  changes: Readonly<Record<string, unknown>>,
): Buffer {
  return packed(resealedParts(unpacked(rehashed(parts)), key, changes), mtimeOf(parts));
}

/** The bundle with a seal for its manifest as it is. */
function resealedParts(
  changed: BundleParts,
  key: SigningKey,
  changes: Readonly<Record<string, unknown>>,
): BundleParts {
  const [seal] = linesOf(changed, "seal.json");
  const facts = JSON.parse(seal.entry);
  const subject = { ...facts.subject, manifest: sha256(changed.get("manifest.json")!), ...changes };
  const kept = Object.fromEntries(Object.entries(subject).filter(([, value]) => value !== undefined));
  const entry = canonicalText({ ...facts, signed_by: key.id, subject: kept });
  const signature = envelope(key, { ...facts, task: null }, sha256(entry));
  return withFile(changed, "seal.json", line({ seq: seal.seq, entry, signature }));
}

/** With a further member in the file of the seal, in its envelope, or beside its signature. */
export function withFurtherMember(parts: BundleParts, place: number): BundleParts {
  const [seal] = linesOf(parts, "seal.json");
  const at = [seal, seal.signature, seal.signature.signatures[0]][place];
  at.note = "approved";
  return withFile(parts, "seal.json", line(seal));
}

/** A manifest with one name for all files, which is equal to their list if both are joined. */
export const joinedNames = (manifest: Any): Any => ({
  ...manifest,
  files: [{ name: manifest.files.map(({ name }: Any) => name).join("\n"), size: 0, sha256: "0".repeat(64) }],
});

/** The fleet seals any manifest that a caller with the right to export states. The report is another one than at the seal. */
function exchangedReport(parts: BundleParts, key: SigningKey): BundleParts {
  const [manifest] = linesOf(parts, "manifest.json");
  const sealed = resealedParts(withFile(parts, "manifest.json", line(joinedNames(manifest))), key, {});
  return withFile(sealed, "report.html", "<h1>Everything was approved</h1>");
}

/** Without the newest blocks of the access log, with the numbers of what is left. */
export function withoutNewestBlocks(parts: BundleParts, count: number): BundleParts {
  const lines = linesOf(parts, ACCESS_FILE);
  const blocks = (): Any[] => lines.filter(({ kind }) => kind === "block");
  cutAfter(lines, blocks().at(-1 - count).seq);
  const left = blocks().map(({ entry }) => JSON.parse(entry));
  const [manifest] = linesOf(parts, "manifest.json");
  Object.assign(manifest.counts, {
    access_blocks: left.length,
    access_records: left.reduce((sum, { entries }) => sum + entries.length, 0),
    access_lost: left.reduce((sum, { lost = 0 }) => sum + lost, 0),
  });
  return withFile(withAccess(parts, lines), "manifest.json", line(manifest));
}

/** Without a task, with the numbers of what is left and the hashes of its files. The seal is that of the whole bundle. */
export function withoutTask(parts: BundleParts, hidden: string): BundleParts {
  let isHidden = false;
  const lines = linesOf(parts, "export.jsonl").filter(({ kind, task }) => {
    if (kind === "task") isHidden = task.task_id === hidden;
    const isLeftOut = isHidden;
    if (kind === "task_end") isHidden = false;
    return !isLeftOut;
  });
  const countOf = (wanted: string): number => lines.filter(({ kind }) => kind === wanted).length;
  lines.at(-1).tasks = countOf("task");
  const proofs = linesOf(parts, "proofs.jsonl").filter(({ task }) => task !== hidden);
  const [manifest] = linesOf(parts, "manifest.json");
  Object.assign(manifest.counts, {
    ...{ tasks: countOf("task"), entries: countOf("audit"), versions: countOf("checkpoint") },
    ...{ lines: lines.length, included: proofs.length, pending: 0 },
  });
  const left = withFile(withLines(parts, lines), "proofs.jsonl", proofs.map(line).join(""));
  return unpacked(rehashed(withFile(left, "manifest.json", line(manifest))));
}

/** `key`: the one with which the fleet signs now. */
export const sealTampers = (key: SigningKey): readonly (readonly [Maker, number])[] => {
  const turn = turns();
  const sealed: Maker = (parts) => {
    const what = turn(7);
    if (what > 3)
      return made(
        `further member ${what} of the seal`,
        packed(withFurtherMember(parts, what - 4), mtimeOf(parts)),
        false,
      );
    if (what === 3)
      return made("one name for all files", packed(exchangedReport(parts, key), mtimeOf(parts)));
    if (what === 2)
      return made(
        "seal of an earlier moment",
        sealedAgain(parts, key, { exported_at: "2026-01-01T00:00:00.000Z" }),
        false,
      );
    const none = { access_seq: undefined, access_hash: undefined };
    const cut = withoutNewestBlocks(parts, 1);
    return made(`sealed without the newest block ${what}`, sealedAgain(cut, key, what === 0 ? none : {}));
  };
  return [[sealed, 3]];
};
