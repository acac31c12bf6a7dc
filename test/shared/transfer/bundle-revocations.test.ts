/** The revocation of a key in a bundle: removed, moved in time, or of another key, and what a thief of the key signs around it. Both verifiers agree. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { canonicalText } from "../../../shared/integrity/canonical.ts";
import type { SigningKey } from "../../../shared/integrity/dsse.ts";
import { bundleReportText } from "../../../shared/transfer/bundle/offline/verify-program.ts";
import { envelope, sha256 } from "../../harness/evidence/forgery.ts";
import {
  EXPORTED_AT,
  hasPython,
  judgeSmallBundle,
  writeSmallBundle,
} from "../../harness/evidence/small-bundle.ts";
import { newKey } from "../../harness/records/signed.ts";

const TENANT = "default";
const ADDED_AT = "2026-02-01T00:00:00.000Z";
const REVOKED_AT = EXPORTED_AT;
const after = (seconds: number) => new Date(Date.parse(REVOKED_AT) + seconds * 1_000).toISOString();

const own = newKey();
const stolen = newKey();

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "fleet-revocations-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const bundle = () => join(folder, "bundle.tar");
const programOf = (name: string) =>
  fileURLToPath(new URL(`../../../shared/transfer/bundle/${name}`, import.meta.url));
const PROGRAMS = [
  { name: "verify.mjs", command: process.execPath },
  ...(hasPython ? [{ name: "verify.py", command: "python3" }] : []),
];

interface KeyRecord {
  readonly key_id: string;
  readonly revoked_at: string | null;
  readonly revoked_reason: string | null;
  readonly [name: string]: unknown;
}

const added = { owner: "writer", purpose: "commits", not_before: ADDED_AT };
const recordOf = ({ id, publicKey }: SigningKey): KeyRecord => ({
  ...{ key_id: id, algorithm: "ed25519", public_key: publicKey, ...added },
  ...{ not_after: null, revoked_at: null, revoked_reason: null, replaces: null },
});

interface Change {
  readonly seq: number;
  readonly end: number;
  readonly entry: string;
  readonly signature: object;
}

function change(seq: number, by: SigningKey, action: string, at: string, subject: object): Change {
  const facts = { action, at, prev: "0".repeat(64), seq, signed_by: by.id, subject, tenant: TENANT, v: 1 };
  const entry = canonicalText(facts);
  return { seq, end: seq, entry, signature: envelope(by, { ...facts, task: null }, sha256(entry)) };
}

const addition = (seq: number, key: SigningKey, by = key, at = ADDED_AT) =>
  change(seq, by, "key_add", at, { key_id: key.id, ...added });
const revocation = (seq: number, key: SigningKey, { by = own, at = REVOKED_AT, ...stated }: Stated = {}) =>
  change(seq, by, "key_revoke", at, {
    ...{ key_id: key.id, revoked_at: at, reason: "compromised", ...stated },
  });
interface Stated {
  readonly by?: SigningKey;
  readonly at?: string;
  readonly revoked_at?: string;
  readonly reason?: string;
}

const HONEST = [addition(1, own), addition(2, stolen), revocation(5, stolen)];
const OWN = recordOf(own);
const STOLEN = { ...recordOf(stolen), revoked_at: REVOKED_AT, revoked_reason: "compromised" };

interface Entry {
  readonly by: SigningKey;
  readonly at: string;
}

/** A task with these entries, each a commit of its own. */
function taskOf(entries: readonly Entry[]) {
  let prev = "0".repeat(64);
  const lines = entries.map(({ by, at }, i) => {
    const facts = {
      ...{ at, op: "take", prev, seq: i + 1, signed_by: by.id, task: "auth", tenant: TENANT },
    };
    const entry = canonicalText(facts);
    prev = sha256(entry);
    return { kind: "audit", seq: i + 1, entry, signature: envelope(by, facts, prev) };
  });
  const count = lines.length;
  const task = { task_id: "auth", tenant: TENANT, seq: 0, audit_seq: count, audit_hash: prev };
  const counts = { entries: count, versions: 0, lost: 0, records: 0, records_lost: 0, handoffs: 0 };
  const proofs = lines.map(({ seq }) => ({ task: "auth", seq, pending: "unsigned_log" }));
  return {
    lines: [{ kind: "task", task }, ...lines, { kind: "task_end", task_id: "auth", ...counts }],
    proofs,
  };
}

interface Attempt {
  readonly keys?: readonly KeyRecord[];
  readonly changes?: readonly Change[];
  readonly entries?: readonly Entry[];
  readonly known?: readonly string[];
}

function judged({ keys = [OWN, STOLEN], changes = HONEST, entries = [], known = [] }: Attempt) {
  const path = bundle();
  const task = entries.length === 0 ? {} : taskOf(entries);
  writeSmallBundle(path, { tenant: TENANT, keys, changes, ...task });
  return judgeSmallBundle(path, null, known);
}
const codesOf = (attempt: Attempt) => judged(attempt).codes;

test("a revocation as the fleet states it has no findings", () => {
  expect(codesOf({})).toEqual([]);
  expect(codesOf({ known: [stolen.id] })).toEqual([]);
});

test("the report and the texts of both verifiers say when and why a key was revoked", () => {
  const said = (attempt: Attempt) => {
    const report = judged({ ...attempt, entries: [{ by: stolen, at: after(-60) }] });
    const text = bundleReportText(bundle(), report);
    const args = [bundle(), ...(attempt.known ?? []).flatMap((id) => ["--revoked", id])];
    for (const { name, command } of PROGRAMS) {
      const { stdout } = spawnSync(command, [programOf(name), ...args], { encoding: "utf8" });
      expect(stdout, name).toBe(text);
    }
    return { revoked: report.keys_revoked, text };
  };
  const stated = said({});
  expect(stated.text).toContain(`signed by key ${stolen.id}, REVOKED at ${REVOKED_AT} (compromised)\n`);
  expect(stated.text).toContain(`signed by key ${own.id}\n`);
  expect(stated.revoked).toEqual([{ key_id: stolen.id, revoked_at: REVOKED_AT, reason: "compromised" }]);
  const removed = { keys: [OWN, recordOf(stolen)], changes: HONEST.slice(0, 2), known: [stolen.id] };
  const known = said(removed);
  expect(known.text).toContain(
    `signed by key ${stolen.id}, REVOKED, as you state, and the bundle does not\n`,
  );
  expect(known.revoked).toEqual([{ key_id: stolen.id, revoked_at: null, reason: null }]);
  expect(said({ ...removed, known: [] }).revoked).toEqual([]);
});

test("a revocation is removed, which an auditor finds that knows of it", () => {
  const removed = { keys: [OWN, recordOf(stolen)], changes: HONEST.slice(0, 2) };
  expect(codesOf({ ...removed, known: [stolen.id] })).toEqual([`key_revoked key:${stolen.id}`]);
  expect(codesOf({ changes: removed.changes })).toEqual([`key_unproved key:${stolen.id}`]);
  expect(codesOf({ keys: removed.keys })).toEqual([`key_unproved key:${stolen.id}`]);
});

test.each(["earlier", "later"])("a revocation is moved in time: %s", (which) => {
  const moved = after(which === "earlier" ? -3_600 : 3_600);
  const keys = [OWN, { ...STOLEN, revoked_at: moved }];
  expect(codesOf({ keys })).toEqual([`key_unproved key:${stolen.id}`]);
  const { signature } = HONEST[2]!;
  const edited = { ...revocation(5, stolen, { revoked_at: moved }), signature };
  expect(codesOf({ keys, changes: [...HONEST.slice(0, 2), edited] })).toEqual(
    ["signature_mismatch keyset.json/5", `key_unproved key:${stolen.id}`].sort(byPlace),
  );
});

test("a thief states a later revocation of the key, or another reason", () => {
  for (const stated of [{ revoked_at: after(3_600) }, { reason: "replaced" }]) {
    const forged = revocation(6, stolen, { by: stolen, ...stated });
    const record = {
      ...STOLEN,
      ...(stated.reason === undefined ? stated : { revoked_reason: stated.reason }),
    };
    expect(codesOf({ keys: [OWN, record], changes: [...HONEST, forged] })).toEqual(
      ["key_revoked keyset.json/6", `key_unproved key:${stolen.id}`].sort(byPlace),
    );
  }
});

test.each([
  ["replaced", "lost"],
  ["replaced", "compromised"],
  ["lost", "compromised"],
])("a key is revoked as %s, and again as %s", (first, second) => {
  const changes = [
    ...HONEST.slice(0, 2),
    revocation(5, stolen, { reason: first }),
    revocation(6, stolen, { reason: second, revoked_at: REVOKED_AT, at: after(60) }),
  ];
  const keys = [OWN, { ...STOLEN, revoked_reason: second }];
  expect(codesOf({ keys, changes })).toEqual([]);
  // The first entry ends what the key may change. The stronger reason ends the allowance for clocks.
  const forged = addition(7, newKey(), stolen, after(-60));
  expect(codesOf({ keys, changes: [...changes, forged] })).toEqual(["key_revoked keyset.json/7"]);
  const entries = [
    { by: own, at: after(10) },
    { by: stolen, at: after(-10) },
  ];
  expect(codesOf({ keys, changes, entries })).toEqual(["time_contradicted auth/2"]);
  // The record must have what the second one states.
  const older = [OWN, { ...STOLEN, revoked_reason: first }];
  expect(codesOf({ keys: older, changes })).toEqual([`key_unproved key:${stolen.id}`]);
});

test.each([
  ["compromised", "lost", 0],
  ["compromised", "replaced", 0],
  ["lost", "replaced", 0],
  ["lost", "a word that no fleet knows", 0],
  ["lost", "a word that no fleet knows", -60],
])("a revocation as %s is weakened to %s, also with a key of the fleet: %i s", (first, second, seconds) => {
  const changes = [
    ...HONEST.slice(0, 2),
    revocation(5, stolen, { reason: first }),
    revocation(6, stolen, { reason: second, revoked_at: after(seconds) }),
  ];
  const keys = [OWN, { ...STOLEN, revoked_at: after(seconds), revoked_reason: second }];
  expect(codesOf({ keys, changes })).toEqual(
    ["keyset keyset.json/6", `key_unproved key:${stolen.id}`].sort(byPlace),
  );
});

test.each([
  ["compromised", "lost"],
  ["compromised", "replaced"],
  ["lost", "replaced"],
])(
  "an earlier version has recorded a key revoked as %s again as %s, with an earlier time",
  (first, second) => {
    const since = after(-60);
    const weaker = revocation(6, stolen, { reason: second, revoked_at: since });
    const changes = [...HONEST.slice(0, 2), revocation(5, stolen, { reason: first }), weaker];
    const recorded = { ...STOLEN, revoked_at: since, revoked_reason: second };
    expect(codesOf({ keys: [OWN, recorded], changes })).toEqual([]);
    // The stronger reason still leaves no allowance for clocks, and is reported.
    const entries = [
      { by: stolen, at: after(-100) },
      { by: own, at: after(-50) },
      { by: stolen, at: after(-70) },
    ];
    const { codes, keys_revoked } = judged({ keys: [OWN, recorded], changes, entries });
    expect(codes).toEqual(["unproved auth/1", "time_contradicted auth/3"]);
    expect(keys_revoked).toEqual([{ key_id: stolen.id, revoked_at: since, reason: first }]);
    // Without the entry, or with another reason than it states, the record is not proved.
    const unproved = [`key_unproved key:${stolen.id}`];
    expect(codesOf({ keys: [OWN, recorded], changes: changes.slice(0, 3) })).toEqual(unproved);
    expect(codesOf({ keys: [OWN, { ...recorded, revoked_at: REVOKED_AT }], changes })).toEqual(unproved);
    expect(codesOf({ keys: [OWN, { ...recorded, revoked_reason: first }], changes })).toEqual(unproved);
    // The remedy: the key is revoked again.
    const stronger = revocation(7, stolen, { reason: first, revoked_at: since, at: after(60) });
    const repaired = { ...recorded, revoked_reason: first };
    expect(codesOf({ keys: [OWN, repaired], changes: [...changes, stronger] })).toEqual([]);
  },
);

test("a revocation is turned into one of another key", () => {
  const keys = [{ ...OWN, revoked_at: REVOKED_AT, revoked_reason: "compromised" }, recordOf(stolen)];
  const { signature } = HONEST[2]!;
  const edited = { ...revocation(5, own), signature };
  expect(codesOf({ keys, changes: [...HONEST.slice(0, 2), edited] })).toEqual(
    ["signature_mismatch keyset.json/5", `key_unproved key:${own.id}`].sort(byPlace),
  );
});

test("a thief changes keys after the revocation, at a time before it", () => {
  const third = newKey();
  const addedByThief = { keys: [OWN, STOLEN, recordOf(third)], id: third.id };
  const revoked = { ...OWN, revoked_at: REVOKED_AT, revoked_reason: "compromised" };
  const revokedByThief = { keys: [revoked, STOLEN], id: own.id };
  for (const at of [REVOKED_AT, after(-60)]) {
    const forged = [addition(6, third, stolen, at), revocation(6, own, { by: stolen, at })];
    for (const [i, { keys, id }] of [addedByThief, revokedByThief].entries())
      expect(codesOf({ keys, changes: [...HONEST, forged[i]!] })).toEqual(
        ["key_revoked keyset.json/6", `key_unproved key:${id}`].sort(byPlace),
      );
  }
});

test("what a revoked key signs counts until the entry of the revocation, and after no entry of a later time", () => {
  const thief = (seconds: number) => ({ by: stolen, at: after(seconds) });
  const fleet = (seconds: number) => ({ by: own, at: after(seconds) });
  // The entry has no proof that it was written before the revocation.
  expect(codesOf({ entries: [thief(0)] })).toEqual(["unproved auth/1"]);
  expect(codesOf({ entries: [thief(0.001)] })).toEqual(["key_revoked auth/1"]);
  expect(codesOf({ entries: [fleet(0), thief(-1)] })).toEqual(["unproved auth/2"]);
  expect(codesOf({ entries: [fleet(0.001), thief(-1)] })).toEqual(["time_contradicted auth/2"]);
});

test("a key that was replaced as planned keeps the allowance for clocks", () => {
  const planned = { revoked_at: after(30), reason: "replaced" };
  const keys = [OWN, { ...STOLEN, revoked_at: planned.revoked_at, revoked_reason: planned.reason }];
  const changes = [...HONEST.slice(0, 2), revocation(5, stolen, planned)];
  const entries = (seconds: number) => [
    { by: own, at: after(60) },
    { by: stolen, at: after(seconds) },
  ];
  expect(codesOf({ keys, changes, entries: entries(30) })).toEqual(["unproved auth/2"]);
  expect(codesOf({ keys, changes, entries: entries(30.001) })).toEqual(["key_revoked auth/2"]);
});

test("an entry behind one of a fast clock is no fault of its key, and a thief of the ended key is found", () => {
  const endedAt = after(-3_600);
  const retired = newKey();
  const keys = [OWN, { ...recordOf(retired), not_after: endedAt }];
  const changes = [
    ...[addition(1, own), addition(2, retired)],
    change(3, own, "key_retire", after(-3_630), { key_id: retired.id, not_after: endedAt }),
  ];
  const [ofFleet, ofRetired] = [own, retired].map((by) => (seconds: number) => ({
    by,
    at: new Date(Date.parse(endedAt) + seconds * 1_000).toISOString(),
  }));
  const codes = (...entries: readonly Entry[]) => codesOf({ keys, changes, entries });
  expect(codes(ofFleet!(30), ofRetired!(0))).toEqual([]);
  // A wrong clock, or a thief: the entries alone do not show which.
  expect(codes(ofFleet!(30.001), ofRetired!(-10))).toEqual(["time_contradicted auth/2"]);
  expect(codes(ofFleet!(30.001), ofRetired!(0.001))).toEqual(["key_expired auth/2"]);
});

test("a key that a clock behind its begin has replaced is still in use, and signs nothing before its begin", () => {
  const [ahead, next] = [newKey(), newKey()];
  const begin = { ...added, not_before: after(-60) };
  const replaces = { replaces: ahead.id };
  const keys = [
    { ...recordOf(ahead), ...begin },
    { ...recordOf(next), ...replaces },
  ];
  const changes = [
    change(1, ahead, "key_add", after(-30), { key_id: ahead.id, ...begin }),
    change(2, next, "key_add", ADDED_AT, { key_id: next.id, ...added, ...replaces }),
  ];
  const early = (by: SigningKey) => ({ by, at: after(-3_600) });
  expect(codesOf({ keys, changes, entries: [early(next), { by: ahead, at: after(-30) }] })).toEqual([]);
  expect(codesOf({ keys, changes, entries: [early(next), early(ahead)] })).toEqual(["key_expired auth/2"]);
});

/** Findings are in the order of their places. */
function byPlace(a: string, b: string): number {
  const [one, other] = [a, b].map((text) => text.slice(text.indexOf(" ")));
  return one! < other! ? -1 : 1;
}
