/** Tampers with the anchors in a bundle, up to those of a thief of a key, and of an authority that lies about the time. */

import type { SigningKey } from "../../../shared/integrity/dsse.ts";
import { signCheckpoint } from "../../../shared/integrity/merkle/note.ts";
import type { TimestampAuthority } from "../anchors/timestamp-authority.ts";
import { type Any, type BundleParts, line, linesOf, rehashed, withFile } from "./forgery.ts";
import { editValue, type Maker, made, turns } from "./tampers.ts";

const HOUR_MS = 3_600_000;

const withAnchors = (parts: BundleParts, anchors: readonly Any[]): Buffer =>
  rehashed(withFile(parts, "anchors.jsonl", anchors.map(line).join("")));

const stampsIn = (anchors: readonly Any[]): Any[] => anchors.filter(({ token }) => token !== null);
const bytesOf = (stamp: Any): Buffer => Buffer.from(stamp.token, "base64");

const value: Maker = (parts, random) => {
  const anchors = linesOf(parts, "anchors.jsonl");
  const one = anchors[random(anchors.length)];
  if (random(5) === 0) one.consistency = null;
  else editValue(one, random);
  return made("value of an anchor", withAnchors(parts, anchors));
};

/** Some bytes mean nothing, such as those of the root, which the auditor has. */
const tokenByte: Maker = (parts, random) => {
  const anchors = linesOf(parts, "anchors.jsonl");
  const stamps = stampsIn(anchors);
  const one = stamps[random(stamps.length)];
  const bytes = bytesOf(one);
  const at = random(bytes.length);
  bytes[at] = bytes[at]! ^ (1 << random(8));
  one.token = (random(8) === 0 ? bytes.subarray(0, at) : bytes).toString("base64");
  return made(`byte ${at} of a time-stamp`, withAnchors(parts, anchors), false);
};

const moved: Maker = (parts, random) => {
  const anchors = linesOf(parts, "anchors.jsonl");
  const stamps = stampsIn(anchors);
  const [a, b] = [stamps[random(stamps.length)], stamps[random(stamps.length)]];
  if (a === b) return null;
  [a.token, b.token] = [b.token, a.token];
  return made("time-stamps of other checkpoints", withAnchors(parts, anchors));
};

const removed: Maker = (parts, random) => {
  const anchors = linesOf(parts, "anchors.jsonl");
  if (random(2) === 0)
    return made(
      "no time-stamps",
      withAnchors(
        parts,
        anchors.filter(({ token }) => token === null),
      ),
    );
  anchors.splice(random(anchors.length), 1);
  if (random(2) === 0) anchors.push({ omitted_before: 1 + random(9) });
  return made("fewer anchors", withAnchors(parts, anchors), false);
};

/** An anchor of a longer log, of another one of the same size, or by a key of the forger. */
const contradicting = (stolen: SigningKey, own: SigningKey): Maker => {
  const turn = turns();
  return (parts, random) => {
    const anchors = linesOf(parts, "anchors.jsonl");
    const one = anchors.find(({ target }) => target === "folder");
    const [origin = "", size] = one.checkpoint.split("\n");
    // In turn: each of them has a code that nothing else leads to.
    const what = turn(3);
    const wanted = Number(size) + (what === 0 ? 1_000 : 0);
    const root = Buffer.alloc(32, 1 + random(255));
    one.size = wanted;
    one.checkpoint = signCheckpoint(what === 2 ? own : stolen, { origin, size: wanted, root });
    anchors.sort((a, b) => b.size - a.size);
    return made(`contradicting anchor ${what}`, withAnchors(parts, anchors));
  };
};

/** Time-stamps by an authority of the forger. */
const otherAuthority =
  (other: TimestampAuthority): Maker =>
  (parts, random) => {
    const anchors = linesOf(parts, "anchors.jsonl");
    const stamps = stampsIn(anchors);
    const one = stamps[random(stamps.length)];
    const token = other.stamp(Buffer.from(one.checkpoint));
    Object.assign(one, { token: token.toString("base64"), at: other.timeIn(token).toISOString() });
    return made("another authority", withAnchors(parts, anchors));
  };

/** A time-stamp that contradicts the entries, as if they were written much earlier or much later than they say. */
const retimed = (authority: TimestampAuthority): Maker => {
  const turn = turns();
  return (parts) => {
    const anchors = linesOf(parts, "anchors.jsonl");
    // The newest one covers all entries; the oldest one does not.
    const stamps = stampsIn(anchors);
    const isLater = turn(2) === 0;
    const one = stamps.at(isLater ? -1 : 0);
    const time = new Date(Date.parse(one.at) + (isLater ? HOUR_MS : -HOUR_MS));
    const token = authority.retimed(bytesOf(one), time);
    Object.assign(one, { token: token.toString("base64"), at: time.toISOString() });
    return made(isLater ? "backdated entries" : "postdated entries", withAnchors(parts, anchors));
  };
};

/** A time-stamp that is larger than those that a fleet keeps, or more anchors of a target than it exports. */
const tooMuch = (): Maker => {
  const turn = turns();
  return (parts, random) => {
    const anchors = linesOf(parts, "anchors.jsonl");
    const stamps = stampsIn(anchors);
    const one = stamps[random(stamps.length)];
    const isLarge = turn(2) === 0;
    if (isLarge) one.token = Buffer.alloc(24_577, random(256)).toString("base64");
    else anchors.splice(anchors.indexOf(one), 0, ...Array.from({ length: 1_000 }, () => one));
    return made(`too much work ${isLarge ? "in" : "for"} time-stamps`, withAnchors(parts, anchors));
  };
};

export interface AnchorForgers {
  readonly stolen: SigningKey;
  readonly own: SigningKey;
  readonly authority: TimestampAuthority;
  readonly otherAuthority: TimestampAuthority;
}

export const anchorTampers = ({
  stolen,
  own,
  authority,
  otherAuthority: other,
}: AnchorForgers): readonly (readonly [Maker, number])[] => [
  [value, 8],
  [tokenByte, 12],
  [moved, 2],
  [removed, 4],
  [contradicting(stolen, own), 5],
  [otherAuthority(other), 2],
  [retimed(authority), 3],
  [tooMuch(), 1],
];
