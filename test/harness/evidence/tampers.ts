/** Tampers with a real bundle: from a flipped bit to a thief that re-signs what was changed. All follow from one seed. */
import { canonicalText } from "../../../shared/integrity/canonical.ts";
import type { SigningKey } from "../../../shared/integrity/dsse.ts";
import {
  type Any,
  type BundleParts,
  envelope,
  forged,
  line,
  linesOf,
  mtimeOf,
  packed,
  type Random,
  rehashed,
  settled,
  sha256,
  unpacked,
  withFile,
  withLines,
} from "./forgery.ts";

export interface Tamper {
  readonly kind: string;
  readonly bytes: Buffer;
  /** Whether every byte that it changes is proved without the seal. */
  readonly isProvedTwice: boolean;
}

/** Another value of the same type. */
function changed(value: unknown, random: Random): unknown {
  if (typeof value === "string") {
    const at = random(value.length + 1);
    return `${value.slice(0, at)}${String.fromCharCode(97 + random(26))}${value.slice(at + random(2))}x`;
  }
  if (typeof value === "number") return value + 1 + random(5);
  if (typeof value === "boolean") return !value;
  return value === null ? "x" : null;
}

/** Changes one value somewhere in a JSON value. Returns the path. */
export function editValue(value: Any, random: Random): string {
  let [at, path] = [value, ""];
  for (;;) {
    const names = Object.keys(at);
    const name = names[random(names.length)];
    if (name === undefined) return editValue(value, random);
    path += `/${name}`;
    const inner = at[name];
    if (typeof inner === "object" && inner !== null && Object.keys(inner).length > 0) at = inner;
    else {
      at[name] = changed(inner, random);
      return path;
    }
  }
}

/** What the entries and hashes of the export prove without the seal. */
const UNPROVED =
  /^(\/task\/(?!audit_seq|audit_hash|seq|fence|task_id|tenant)|\/handoff\/(?!handoff_id|task_id|tenant)|\/signatures_required|\/by|\/artifacts$|\/scope|\/reason|\/fallback_id|\/signing_key\/(entries|revoked_reason|rotation_requested_at))/;

export type Maker = (parts: BundleParts, random: Random, archive: Buffer) => Tamper | null;
export const made = (kind: string, bytes: Buffer, isProvedTwice = true): Tamper => ({
  kind,
  bytes,
  isProvedTwice,
});

const flip: Maker = (_parts, random, archive) => {
  const bytes = Buffer.from(archive);
  const at = random(bytes.length);
  bytes[at] = bytes[at]! ^ (1 << random(8));
  // Nothing but itself proves the seal.
  return made(`flip at ${at}`, bytes, at < archive.lastIndexOf("seal.json"));
};

const cut: Maker = (_parts, random, archive) =>
  random(3) === 0
    ? made("append", Buffer.concat([archive, Buffer.alloc(1 + random(2_000), random(2))]))
    : made("truncate", archive.subarray(0, random(archive.length)));

/** 0, 1 and so on, in turn: a variant that chance chooses might not come up at all. */
export function turns(): (count: number) => number {
  let calls = 0;
  return (count) => calls++ % count;
}

const files = (): Maker => {
  const turn = turns();
  return (parts, random) => {
    const entries = [...parts];
    const [a, b] = [random(entries.length), random(entries.length)];
    if (a === b) return null;
    const now = turn(6);
    const what = now % 3;
    if (what === 0) entries.splice(a, 1);
    else if (what === 1) entries.splice(b, 0, entries[a]!);
    else [entries[a], entries[b]] = [entries[b]!, entries[a]!];
    const isRehashed = now < 3 && what !== 1 && entries.some(([name]) => name === "manifest.json");
    const bytes = isRehashed ? rehashed(new Map(entries)) : packed(entries, mtimeOf(parts));
    return made(`files ${what} ${entries[a]?.[0]}`, bytes, false);
  };
};

const rawLines: Maker = (parts, random) => {
  const name = ["export.jsonl", "proofs.jsonl", "access.jsonl"][random(3)]!;
  const lines = String(parts.get(name)).trimEnd().split("\n");
  const [a, b] = [random(lines.length), random(lines.length)];
  if (lines[a] === lines[b]) return null;
  const what = random(3);
  if (what === 0) lines.splice(a, 1);
  else if (what === 1) lines.splice(b, 0, lines[a]!);
  else [lines[a], lines[b]] = [lines[b]!, lines[a]!];
  return made(`lines ${what} of ${name}`, rehashed(withFile(parts, name, `${lines.join("\n")}\n`)));
};

const exportValue: Maker = (parts, random) => {
  const lines = linesOf(parts, "export.jsonl");
  const one = lines[random(lines.length)];
  if (one.kind === "trailer" || one.kind === "task_end") return null;
  const path = editValue(one, random);
  return made(`edit ${one.kind}${path}`, rehashed(withLines(parts, lines)), !UNPROVED.test(path));
};

const smallFile: Maker = (parts, random) => {
  const name = ["keyset.json", "manifest.json", "seal.json", "proofs.jsonl"][random(4)]!;
  const lines = linesOf(parts, name);
  const path = editValue(lines[random(lines.length)], random);
  const bytes = withFile(parts, name, lines.map(line).join(""));
  return made(
    `edit ${name}${path}`,
    name === "manifest.json" ? packed(bytes, mtimeOf(parts)) : rehashed(bytes),
    false,
  );
};

const keyset: Maker = (parts, random) => {
  const [set] = linesOf(parts, "keyset.json");
  const of = ["keys", "changes"][random(2)]!;
  const at = random(set[of].length);
  // The request of a rotation states nothing about the validity of its key.
  const isRotation = of === "changes" && set[of][at].entry.includes("key_rotate");
  set[of].splice(at, 1);
  return made(`remove ${of}`, rehashed(withFile(parts, "keyset.json", line(set))), !isRotation);
};

const note: Maker = (parts, random) => {
  const bytes = Buffer.from(parts.get("log.note")!);
  const at = random(bytes.length);
  bytes[at] = bytes[at]! ^ (1 << random(7));
  return made("note", rehashed(withFile(parts, "log.note", bytes)));
};

const signed = (lines: readonly Any[]): Any[] => lines.filter(({ signature }) => signature !== undefined);
const sigOf = (one: Any): Buffer => Buffer.from(one.signature.signatures[0].sig, "base64");

/** A bit of a signature, of its place in a batch, or of its path. */
const batch: Maker = (parts, random) => {
  const lines = linesOf(parts, "export.jsonl");
  const batches = signed(lines).filter((one) => sigOf(one).length > 64);
  const some = random(4) === 0 ? signed(lines) : batches;
  const one = some[random(some.length)];
  const sig = sigOf(one);
  const at = random(3) === 0 && sig.length > 64 ? 64 + random(4) : random(sig.length);
  sig[at] = sig[at]! ^ (1 << random(8));
  one.signature.signatures[0].sig = sig.toString("base64");
  return made(`signature byte ${at} of ${sig.length}`, rehashed(withLines(parts, lines)));
};

const move = (): Maker => {
  const turn = turns();
  return (parts, random) => {
    const lines = linesOf(parts, "export.jsonl");
    const some = signed(lines);
    const [a, b] = [some[random(some.length)], some[random(some.length)]];
    if (a === b) return null;
    if (turn(2) === 0) [a.signature, b.signature] = [b.signature, a.signature];
    else delete a.signature;
    return made("move a signature", rehashed(withLines(parts, lines)));
  };
};

/** Removes the newest entries of a task, and makes its head fit. */
const tail: Maker = (parts, random) => {
  const lines = linesOf(parts, "export.jsonl");
  const ends = lines.flatMap((one, i) => (one.kind === "task_end" ? [i] : []));
  const end = ends[random(ends.length)]!;
  let from = end;
  for (let n = 1 + random(2); n > 0 && lines[from - 1].kind !== "task"; ) {
    from -= 1;
    if (lines[from].kind === "audit") n -= 1;
  }
  lines.splice(from, end - from);
  return made("truncate a chain", rehashed(settled(parts, lines)), false);
};

const content: Maker = (parts, random) => {
  const forgery = forged(parts, random, null);
  return forgery && made("content and chain", rehashed(forgery));
};

/** A forger that adds a key of its own to the keyset. */
const ownKey =
  (key: SigningKey): Maker =>
  (parts, random) => {
    const forgery = forged(parts, random, key);
    if (forgery === null) return null;
    const [set] = linesOf(parts, "keyset.json");
    const victim = set.keys[random(set.keys.length)];
    set.keys.push({
      ...victim,
      key_id: key.id,
      public_key: key.publicKey,
      not_after: null,
      revoked_at: null,
    });
    if (random(2) === 0) set.changes = null;
    return made("own key", rehashed(withFile(forgery, "keyset.json", line(set))));
  };

/** A thief of a revoked key appends an entry of a time around the revocation. */
const backdated = (key: SigningKey): Maker => {
  const turn = turns();
  return (parts, random) => {
    const lines = linesOf(parts, "export.jsonl");
    const ends = lines.flatMap((one, i) =>
      one.kind === "task_end" && lines[i - 1].kind !== "record" ? [i] : [],
    );
    const end = ends[random(ends.length)]!;
    const last = lines.slice(0, end).findLast(({ kind }) => kind === "audit");
    const [set] = linesOf(parts, "keyset.json");
    const { revoked_at } = set.keys.find((one: Any) => one.key_id === key.id);
    const facts = JSON.parse(last.entry);
    const distance = 1 + random(100_000);
    const at = new Date(Date.parse(revoked_at) + (turn(2) === 0 ? distance : -distance)).toISOString();
    const { checkpoint_id: _id, version: _version, new_hash: _hash, records: _records, ...rest } = facts;
    const entry = canonicalText({
      ...rest,
      op: "release",
      seq: last.seq + 1,
      prev: sha256(last.entry),
      at,
      signed_by: key.id,
    });
    const signature = envelope(key, JSON.parse(entry), sha256(entry));
    lines.splice(end, 0, { kind: "audit", seq: last.seq + 1, entry, signature });
    return made("backdated", rehashed(settled(parts, lines)));
  };
};

/** The bundle with a seal by a stolen key. */
function resealed(archive: Buffer, key: SigningKey, at: string): Buffer {
  const parts = unpacked(archive);
  const seal = JSON.parse(String(parts.get("seal.json")));
  const facts = JSON.parse(seal.entry);
  const { tasks, entries } = JSON.parse(String(parts.get("manifest.json"))).counts;
  const subject = { manifest: sha256(parts.get("manifest.json")!), tasks, entries };
  const entry = canonicalText({ ...facts, at, signed_by: key.id, subject });
  const signature = envelope(key, { ...JSON.parse(entry), task: null }, sha256(entry));
  return packed(withFile(parts, "seal.json", line({ seq: seal.seq, entry, signature })), mtimeOf(parts));
}

export const revocationOf = (parts: BundleParts, id: string): number =>
  Date.parse(linesOf(parts, "keyset.json")[0].keys.find((one: Any) => one.key_id === id).revoked_at);

/** A thief of a revoked key rewrites a task, hides its entries from the log, and seals the bundle. */
const rewritten =
  (key: SigningKey): Maker =>
  (parts, random) => {
    const at = new Date(revocationOf(parts, key.id) - 1 - random(1_000)).toISOString();
    const forgery = forged(parts, random, key, at);
    if (forgery === null) return null;
    const proofs = linesOf(forgery, "proofs.jsonl").map(({ task, seq }) => ({
      ...{ task, seq },
      pending: random(2) === 0 ? "not_in_log" : "damaged",
    }));
    const hidden = withFile(forgery, "proofs.jsonl", proofs.map(line).join(""));
    return made("rewrite by a thief", resealed(rehashed(hidden), key, at));
  };

const sealOfThief =
  (key: SigningKey): Maker =>
  (parts, random, archive) => {
    const at = new Date(
      Date.parse(JSON.parse(String(parts.get("manifest.json"))).exported_at) + random(9),
    ).toISOString();
    return made(
      "seal by a thief",
      resealed(archive, key, random(2) === 0 ? at : new Date(revocationOf(parts, key.id)).toISOString()),
      false,
    );
  };

/** A thief of a revoked key states a later revocation of it, or leaves the changes out. */
const laterRevocation =
  (key: SigningKey): Maker =>
  (parts, random) => {
    const [set] = linesOf(parts, "keyset.json");
    if (random(4) === 0) set.changes = null;
    else {
      const last = set.changes.at(-1);
      const { seq } = last;
      const at = new Date(revocationOf(parts, key.id) - random(1_000)).toISOString();
      const subject = { key_id: key.id, revoked_at: "2099-01-01T00:00:00.000Z", reason: "lost" };
      const facts = {
        ...JSON.parse(last.entry),
        action: "key_revoke",
        seq: seq + 1,
        at,
        subject,
        signed_by: key.id,
      };
      const entry = canonicalText(facts);
      const signature = envelope(key, { ...facts, task: null }, sha256(entry));
      set.changes.push({ seq: seq + 1, end: seq + 1, entry, signature });
    }
    for (const one of set.keys)
      if (one.key_id === key.id)
        Object.assign(one, { revoked_at: "2099-01-01T00:00:00.000Z", revoked_reason: "lost" });
    return made("later revocation", rehashed(withFile(parts, "keyset.json", line(set))));
  };

export interface Forgers {
  readonly own: SigningKey;
  /** The private key of a revoked one. */
  readonly stolen: SigningKey;
  /** Further kinds, each with its share. */
  readonly others: readonly (readonly [Maker, number])[];
}

/** `count` tampers with a bundle, each kind in its share. */
export function* tampers(
  archive: Buffer,
  random: Random,
  count: number,
  { own, stolen, others }: Forgers,
): Generator<Tamper> {
  const shares: readonly (readonly [Maker, number])[] = [
    [flip, 30],
    [cut, 5],
    [files(), 8],
    [rawLines, 15],
    [exportValue, 25],
    [smallFile, 20],
    [keyset, 5],
    [note, 4],
    [batch, 10],
    [move(), 6],
    [tail, 5],
    [content, 5],
    [ownKey(own), 3],
    [backdated(stolen), 3],
    [rewritten(stolen), 4],
    [sealOfThief(stolen), 3],
    [laterRevocation(stolen), 4],
    ...others,
  ];
  const makers = shares.flatMap(([maker, share]) => Array.from({ length: share }, () => maker));
  const parts = unpacked(archive);
  for (let n = 0; n < count; ) {
    const tamper = makers[n % makers.length]!(parts, random, archive);
    if (tamper === null || tamper.bytes.equals(archive)) continue;
    yield tamper;
    n += 1;
  }
}
