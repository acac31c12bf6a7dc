/** Tampers with the revocation of a key: by a thief of that key, and by a program without any. */
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
import { type Forgers, type Maker, made, revocationOf, type Tamper, turns } from "./tampers.ts";

const withKeyset = (parts: BundleParts, set: Any, kind: string, isProvedTwice = true): Tamper =>
  made(kind, rehashed(withFile(parts, "keyset.json", line(set))), isProvedTwice);

const keyIn = (set: Any, id: string): Any => set.keys.find((one: Any) => one.key_id === id);
const revocationsIn = (set: Any): Any[] =>
  set.changes.filter(({ entry }: Any) => entry.includes('"key_revoke"'));
const revocationIn = (set: Any): Any => revocationsIn(set)[0];
const UNREVOKED = { revoked_at: null, revoked_reason: null };

/** From the registry, from the changes, or from both: then the seal alone proves it, and an auditor that knows of it. */
const removed = (id: string): Maker => {
  const turn = turns();
  return (parts) => {
    const [set] = linesOf(parts, "keyset.json");
    const where = turn(3);
    if (where !== 1) Object.assign(keyIn(set, id), UNREVOKED);
    const revocations = revocationsIn(set);
    if (where !== 0) set.changes = set.changes.filter((one: Any) => !revocations.includes(one));
    return withKeyset(parts, set, `revocation removed ${where}`, where !== 2);
  };
};

/** In the registry, or in its entry too. */
const moved = (id: string): Maker => {
  const turn = turns();
  return (parts, random) => {
    const [set] = linesOf(parts, "keyset.json");
    const now = turn(4);
    const distance = (1 + random(100_000)) * (now < 2 ? 1 : -1);
    const revoked_at = new Date(revocationOf(parts, id) + distance).toISOString();
    keyIn(set, id).revoked_at = revoked_at;
    if (now % 2 === 1) edit(revocationIn(set), (subject) => ({ ...subject, revoked_at }));
    return withKeyset(parts, set, `revocation moved ${now}`);
  };
};

/**
 * To the reason of the first revocation: in the registry, in the second entry too, by a thief that states it again, or without the second entry, which the
 * seal alone proves.
 */
const weakened = (key: SigningKey): Maker => {
  const turn = turns();
  return (parts, random) => {
    const [set] = linesOf(parts, "keyset.json");
    const [first, second] = revocationsIn(set);
    const { revoked_at, reason } = JSON.parse(first.entry).subject;
    const where = turn(4);
    const earlier = new Date(revocationOf(parts, key.id) - random(1_000)).toISOString();
    Object.assign(keyIn(set, key.id), { revoked_reason: reason });
    if (where === 1) edit(second, (subject) => ({ ...subject, reason }));
    if (where === 2) {
      Object.assign(keyIn(set, key.id), { revoked_at: earlier });
      const subject = { key_id: key.id, revoked_at: earlier, reason };
      set.changes.push(changeAfter(set.changes.at(-1), key, { action: "key_revoke", at: earlier, subject }));
    }
    if (where === 3) {
      Object.assign(keyIn(set, key.id), { revoked_at });
      set.changes.splice(set.changes.indexOf(second), 1);
    }
    return withKeyset(parts, set, `revocation weakened ${where}`, where !== 3);
  };
};

const ofOther =
  (id: string): Maker =>
  (parts, random) => {
    const [set] = linesOf(parts, "keyset.json");
    const others = set.keys.filter((one: Any) => one.key_id !== id);
    const other = others[random(others.length)];
    const { revoked_at, revoked_reason } = keyIn(set, id);
    Object.assign(other, { revoked_at, revoked_reason });
    Object.assign(keyIn(set, id), UNREVOKED);
    edit(revocationIn(set), (subject) => ({ ...subject, key_id: other.key_id }));
    return withKeyset(parts, set, "revocation of another key");
  };

function edit(change: Any, edited: (subject: Any) => Any): void {
  const facts = JSON.parse(change.entry);
  change.entry = canonicalText({ ...facts, subject: edited(facts.subject) });
}

/** The change that a thief makes after another one. */
function changeAfter(last: Any, thief: SigningKey, stated: object): Any {
  const seq = last.seq + 1;
  const facts = { ...JSON.parse(last.entry), ...stated, seq, signed_by: thief.id };
  const entry = canonicalText(facts);
  const signature = envelope(thief, { ...facts, task: null }, sha256(entry));
  return { seq, end: seq, entry, signature };
}

/** A thief adds a key of its own, or revokes that of the fleet, at the time of the revocation or before it. */
const changedByThief = ({ own, stolen }: Pick<Forgers, "own" | "stolen">): Maker => {
  const turn = turns();
  return (parts, random) => {
    const [set] = linesOf(parts, "keyset.json");
    const last = set.changes.at(-1);
    const at = new Date(revocationOf(parts, stolen.id) - turn(2) * random(1_000)).toISOString();
    const newest = JSON.parse(last.entry).signed_by;
    const revoked = { revoked_at: at, revoked_reason: "lost" };
    const isAdded = random(2) === 0;
    if (isAdded) {
      const added = { ...keyIn(set, newest), replaces: null, not_after: null, ...UNREVOKED };
      set.keys.push({ ...added, key_id: own.id, public_key: own.publicKey });
    } else Object.assign(keyIn(set, newest), revoked);
    const { owner, purpose, not_before } = keyIn(set, newest);
    const change = isAdded
      ? { action: "key_add", subject: { key_id: own.id, owner, purpose, not_before } }
      : { action: "key_revoke", subject: { key_id: newest, revoked_at: at, reason: "lost" } };
    set.changes.push(changeAfter(last, stolen, { ...change, at }));
    return withKeyset(parts, set, "change of keys by a thief");
  };
};

export function revocationTampers(keys: {
  readonly own: SigningKey;
  readonly stolen: SigningKey;
}): readonly (readonly [Maker, number])[] {
  const { id } = keys.stolen;
  return [
    [removed(id), 3],
    [moved(id), 4],
    [weakened(keys.stolen), 4],
    [ofOther(id), 2],
    [changedByThief(keys), 4],
  ];
}
