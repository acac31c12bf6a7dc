/** The parts of a bundle, and how a careful forger puts changed ones together again: with every hash and digest that needs no key. */
import { createHash } from "node:crypto";
import { canonicalText } from "../../../shared/integrity/canonical.ts";
import { signStatements } from "../../../shared/integrity/commit-signature.ts";
import type { SigningKey } from "../../../shared/integrity/dsse.ts";
import { paddingOf, TAR_BLOCK, tarHeader } from "../../../shared/transfer/bundle/offline/archive.ts";

// biome-ignore lint/suspicious/noExplicitAny: the members of each line are known to the tampers alone.
export type Any = any;
export type Random = (below: number) => number;

/** The files of a bundle. */
export type BundleParts = Map<string, Buffer>;

export function seeded(seed: number): Random {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

export function unpacked(archive: Buffer): BundleParts {
  const parts: BundleParts = new Map();
  for (let at = 0; archive[at] !== 0; ) {
    const name = archive.toString("latin1", at, archive.indexOf(0, at));
    const size = Number.parseInt(archive.toString("latin1", at + 124, at + 135), 8);
    parts.set(name, archive.subarray(at + TAR_BLOCK, at + TAR_BLOCK + size));
    at += TAR_BLOCK + size + paddingOf(size);
  }
  return parts;
}

export const mtimeOf = (parts: BundleParts): number => JSON.parse(String(parts.get("manifest.json"))).mtime;

export function packed(files: Iterable<readonly [string, Buffer]>, mtime: number): Buffer {
  const blocks = [...files].flatMap(([name, bytes]) => [
    tarHeader({ name, size: bytes.length, mtime }),
    bytes,
    Buffer.alloc(paddingOf(bytes.length)),
  ]);
  return Buffer.concat([...blocks, Buffer.alloc(2 * TAR_BLOCK)]);
}

export const sha256 = (bytes: Buffer | string): string => createHash("sha256").update(bytes).digest("hex");
export const line = (value: object): string => `${canonicalText(value)}\n`;
export const linesOf = (parts: BundleParts, name: string): Any[] =>
  String(parts.get(name))
    .trimEnd()
    .split("\n")
    .map((text) => JSON.parse(text));

/** The bundle with a manifest that lists its files as they are. The seal stays that of the fleet. */
export function rehashed(parts: BundleParts): Buffer {
  const manifest = JSON.parse(String(parts.get("manifest.json")));
  const listed = [...parts].filter(([name]) => name !== "manifest.json" && name !== "seal.json");
  manifest.files = listed.map(([name, bytes]) => ({ name, size: bytes.length, sha256: sha256(bytes) }));
  return packed(
    [...parts].map(([name, bytes]) => [name, name === "manifest.json" ? Buffer.from(line(manifest)) : bytes]),
    manifest.mtime,
  );
}

export const withFile = (parts: BundleParts, name: string, bytes: Buffer | string): BundleParts =>
  new Map(parts).set(name, Buffer.from(bytes as string));

/** The lines with the digests of tasks and of the file as a careful forger writes them. */
export function redigested(lines: readonly Any[]): string {
  const all = createHash("sha256");
  let task = createHash("sha256");
  const texts = lines.map((one, i) => {
    if (one.kind === "task") task = createHash("sha256");
    if (one.kind === "task_end") one.digest = task.copy().digest("hex");
    if (one.kind === "trailer") Object.assign(one, { lines: i, digest: all.copy().digest("hex") });
    const text = line(one);
    if (one.kind !== "task_end" && one.kind !== "trailer") task.update(text);
    all.update(text);
    return text;
  });
  return texts.join("");
}

export const withLines = (parts: BundleParts, lines: readonly Any[]): BundleParts =>
  withFile(parts, "export.jsonl", redigested(lines));

/** The head, counts and proofs of a task whose lines were changed. */
export function settled(parts: BundleParts, lines: readonly Any[]): BundleParts {
  let head: Any;
  let counts = { entries: 0, versions: 0, lost: 0 };
  const kept = new Set<string>();
  for (const one of lines) {
    if (one.kind === "task") [head, counts] = [one.task, { entries: 0, versions: 0, lost: 0 }];
    if (one.kind === "audit") {
      Object.assign(head, { audit_seq: one.seq, audit_hash: sha256(one.entry) });
      counts.entries += 1;
      kept.add(`${head.task_id}/${one.seq}`);
    }
    if (one.kind === "checkpoint") counts.versions += 1;
    if (one.kind === "lost") counts.lost += 1;
    if (one.kind === "task_end") Object.assign(one, counts);
  }
  const proofs = linesOf(parts, "proofs.jsonl").filter(({ task, seq }) => kept.has(`${task}/${seq}`));
  return withLines(withFile(parts, "proofs.jsonl", proofs.map(line).join("")), lines);
}

/** Changes the content of a version, and every hash above it; with a key also the signatures. */
export function forged(
  parts: BundleParts,
  random: Random,
  thief: SigningKey | null,
  written: string | null = null,
): BundleParts | null {
  const lines = linesOf(parts, "export.jsonl");
  const versions = lines.flatMap((one, i) => (one.kind === "checkpoint" ? [i] : []));
  const at = versions[random(versions.length)]!;
  const { checkpoint } = lines[at];
  checkpoint.summary = `another ${random(1_000_000)}`;
  lines[at].hash = sha256(canonicalText(checkpoint));
  let prev: string | null = null;
  // A thief rewrites the whole task, so that no entry of it has a later time.
  const first =
    written === null ? at - 1 : lines.slice(0, at).findLastIndex(({ kind }) => kind === "task") + 1;
  for (let i = first; i < lines.length && lines[i].kind !== "task_end"; i += 1) {
    if (lines[i].kind !== "audit") continue;
    const facts = JSON.parse(lines[i].entry);
    if (i === at - 1) facts.new_hash = lines[at].hash;
    if (prev !== null) facts.prev = prev;
    if (thief !== null) facts.signed_by = thief.id;
    if (written !== null) facts.at = written;
    lines[i].entry = canonicalText(facts);
    prev = sha256(lines[i].entry);
    if (thief !== null) lines[i].signature = envelope(thief, facts, prev);
  }
  return settled(parts, lines);
}

export function envelope(key: SigningKey, { at, seq, task, tenant }: Any, hash: string): object {
  const statement = { at, checkpoints: [], entries: [hash], first: seq, task, tenant };
  const [made] = signStatements(key, [statement]);
  const { payload, signature, keyId } = made!;
  return {
    payloadType: "application/vnd.fleet.commit.v1+json",
    payload: Buffer.from(payload).toString("base64"),
    signatures: [{ keyid: keyId, sig: Buffer.from(signature).toString("base64") }],
  };
}
