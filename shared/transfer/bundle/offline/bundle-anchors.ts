/**
 * Verifies anchors.jsonl: the copies of the log's checkpoints at places outside the store, with the time-stamps of authorities. Each must be
 * a beginning of the log in the bundle. A time-stamp also bounds the times of the entries before and after its checkpoint.
 */
import { exactBase64, type LogCheckpoint, NoteKeys, openCheckpoint } from "../../../integrity/merkle/note.ts";
import { isConsistent } from "../../../integrity/merkle/proofs.ts";
import { judgeTimestamp } from "../../../integrity/timestamp/timestamp-response.ts";
import { hashesOf } from "./bundle-log.ts";
import { type ExactJson, type ExactObject, exactObjectIn, exactTime, isCountFrom } from "./exact-json.ts";
import type { BundleFindings } from "./findings.ts";
import { CertificateChecks, TooMuchWork } from "./limits/certificate-checks.ts";

const ANCHOR_FILE = "anchors.jsonl";
const ANCHOR_TARGETS = ["bucket", "folder", "timestamp"] as const;
/** Of each target; an exporter writes no more. */
const ANCHORS_MAX = 1_000;
/** The fleet keeps no larger one. */
const TOKEN_BYTES_MAX = 24_576;
/** Between the clocks of the fleet and of an authority. */
const CLOCK_DIFFERENCE_MS = 300_000;
/** And the time within which the log of a working fleet has an entry. No process that was paused writes an older entry. */
export const LATE_MS = CLOCK_DIFFERENCE_MS + 600_000;

/** The newest anchor of a target that has no finding. */
export interface NewestAnchor {
  readonly target: string;
  readonly size: number;
  readonly at: string;
  /** Of a bucket. */
  readonly object: string | null;
  readonly retained_until: string | null;
  /**
   * `verified`: the time is that of an authority whose certificate the auditor has. `unverified`: that of an authority that no certificate
   * names. `stated`: the fleet alone states it.
   */
  readonly time: "verified" | "unverified" | "stated";
}

export interface AnchorParts {
  readonly log: LogCheckpoint | null;
  /** Of the keys that may sign the log: DER, in base64. */
  readonly publicKeys: readonly string[];
  readonly origin: string;
  /** Certificates of the authorities that the auditor trusts, PEM. null: none are named. */
  readonly authorities: string | null;
  readonly findings: BundleFindings;
}

interface AnchorLine {
  readonly target: (typeof ANCHOR_TARGETS)[number];
  readonly size: number;
  readonly at: string;
  readonly checkpoint: string;
  readonly token: Buffer | null;
  readonly object: string | null;
  readonly retained_until: string | null;
  readonly consistency: ExactJson;
}

/** A valid time-stamp of a checkpoint of the log. */
interface StampedSize {
  readonly size: number;
  readonly time: number;
}

/** What the time-stamps together say about checkpoints of this size. */
interface TimeBound extends StampedSize {
  /** The latest time-stamp of a checkpoint that is not larger. */
  readonly latestUpTo: number;
  /** The earliest time-stamp of a checkpoint that is not smaller. */
  readonly earliestFrom: number;
}

function boundsOf(stamps: readonly StampedSize[]): readonly TimeBound[] {
  const sorted = stamps.toSorted((one, other) => one.size - other.size);
  let latest = Number.NEGATIVE_INFINITY;
  const rising = sorted.map(({ size, time }) => {
    latest = Math.max(latest, time);
    return { size, time, latestUpTo: latest };
  });
  let earliest = Number.POSITIVE_INFINITY;
  return rising
    .toReversed()
    .map((one) => {
      earliest = Math.min(earliest, one.time);
      return { ...one, earliestFrom: earliest };
    })
    .toReversed();
}

export class BundleAnchors {
  readonly #parts: AnchorParts;
  readonly #keys: NoteKeys;
  readonly #checks = new CertificateChecks();
  readonly #ofTarget = new Map<string, number>();
  readonly #newest = new Map<string, NewestAnchor>();
  readonly #stamps: StampedSize[] = [];
  /** By size, ascending. */
  #bounds: readonly TimeBound[] = [];
  /** The proofs that the log begins with the checkpoints of these sizes. */
  readonly proofs = new Map<number, ExactJson>();
  count = 0;
  /** The number of entries that a time-stamp covers. */
  timestamped = 0;
  /** Anchors of checkpoints with fewer entries were left out. null: none were. */
  omittedBefore: number | null = null;

  constructor(parts: AnchorParts) {
    this.#parts = parts;
    this.#keys = new NoteKeys(parts.publicKeys);
  }

  get newest(): readonly NewestAnchor[] {
    return ANCHOR_TARGETS.flatMap((target) => this.#newest.get(target) ?? []);
  }

  read(lines: Iterable<Buffer | null>): void {
    const { findings, authorities } = this.#parts;
    let number = 0;
    let before = Number.MAX_SAFE_INTEGER;
    for (const bytes of lines) {
      number += 1;
      const at = `${ANCHOR_FILE}:${number}`;
      const line = bytes === null ? null : exactObjectIn(bytes);
      const size = line === null ? "anchor" : this.#add(line, before, at);
      if (typeof size === "string") {
        findings.add(size, at);
        break;
      }
      before = size;
    }
    this.#bounds = boundsOf(this.#stamps);
    if (authorities !== null && this.#stamps.length === 0) findings.add("timestamp_missing", ANCHOR_FILE);
  }

  /**
   * The size of the anchor, or of the last line. `anchor`: it is none, or cannot stand after one of this size. `limit`: to verify it is more work than
   * any bundle of a fleet needs.
   */
  #add(line: ExactObject, before: number, at: string): number | "anchor" | "limit" {
    if (this.omittedBefore !== null) return "anchor";
    if ("omitted_before" in line) {
      this.omittedBefore = isCountFrom(1, line.omitted_before) ? line.omitted_before : null;
      return this.omittedBefore ?? "anchor";
    }
    const anchor = anchorIn(line);
    if (anchor === null || anchor.size > before) return "anchor";
    const ofTarget = (this.#ofTarget.get(anchor.target) ?? 0) + 1;
    this.#ofTarget.set(anchor.target, ofTarget);
    if (ofTarget > ANCHORS_MAX || (anchor.token?.length ?? 0) > TOKEN_BYTES_MAX) return "limit";
    this.count += 1;
    const problem = this.#problemOf(anchor);
    if (problem === null) this.#keep(anchor);
    else if (problem === "limit") return problem;
    else this.#parts.findings.add(problem, at);
    return anchor.size;
  }

  #problemOf(anchor: AnchorLine): string | null {
    try {
      return this.#logProblem(anchor) ?? this.#stampProblem(anchor);
    } catch (error) {
      if (error instanceof TooMuchWork) return "limit";
      throw error;
    }
  }

  /** Why the log does not begin with the checkpoint. null: it does. */
  #logProblem({ size, checkpoint, consistency }: AnchorLine): string | null {
    const { log, origin } = this.#parts;
    // Before its keys are looked for: those of another name would be others.
    const isOfLog = checkpoint.startsWith(`${origin}\n`);
    const signed = isOfLog ? openCheckpoint(checkpoint, this.#keys)?.checkpoint : undefined;
    if (signed === undefined || signed.size !== size) return "anchor_invalid";
    if (log === null) return "anchor_unproved";
    if (size > log.size) return "anchor_longer";
    const proof = hashesOf(consistency);
    if (proof === null) return "anchor_unproved";
    if (!isConsistent(signed, log, proof)) return "anchor_forked";
    this.proofs.set(size, consistency);
    return null;
  }

  #stampProblem({ token, checkpoint, at }: AnchorLine): string | null {
    if (token === null) return null;
    const { authorities } = this.#parts;
    const { check } = this.#checks;
    const trust = { authorities: authorities === null ? [] : [authorities], nonce: null, check };
    const judged = judgeTimestamp(token, Buffer.from(checkpoint), trust);
    if (judged.isUntrusted) return "timestamp_untrusted";
    return judged.problem === null && exactTime(judged.at!) === exactTime(at) ? null : "timestamp_invalid";
  }

  #keep({ target, size, at, token, object, retained_until }: AnchorLine): void {
    const isVerified = this.#parts.authorities !== null;
    const time = token === null ? "stated" : isVerified ? "verified" : "unverified";
    if (token !== null) this.#stamps.push({ size, time: exactTime(at)! });
    if (!this.#newest.has(target))
      this.#newest.set(target, { target, size, at, object, retained_until, time });
  }

  /** What a time-stamp says against the time of the entry with this number in the log. null: nothing. */
  judge(index: number, at: ExactJson | undefined): "postdated" | "backdated" | null {
    const bounds = this.#bounds;
    let [first, end] = [0, bounds.length];
    while (first < end) {
      const middle = (first + end) >> 1;
      if (bounds[middle]!.size > index) end = middle;
      else first = middle + 1;
    }
    // It was in the log at the time of the first stamp that covers it, and not at that of the one before.
    const [before, covering] = [bounds[first - 1], bounds[first]];
    if (covering !== undefined) this.timestamped += 1;
    const written = exactTime(at);
    if (written === null) return null;
    if (covering !== undefined && written > covering.earliestFrom + CLOCK_DIFFERENCE_MS) return "postdated";
    return before !== undefined && written < before.latestUpTo - LATE_MS ? "backdated" : null;
  }
}

/** null: it is none. */
function anchorIn(line: ExactObject): AnchorLine | null {
  const { target, size, at, checkpoint, token, object, retained_until, consistency } = line;
  if (!ANCHOR_TARGETS.some((one) => one === target)) return null;
  if (!isCountFrom(1, size) || typeof checkpoint !== "string" || exactTime(at) === null) return null;
  const isOfBucket = [object, retained_until].every((one) =>
    target === "bucket" ? typeof one === "string" : one === null,
  );
  const bytes = typeof token === "string" ? exactBase64(token) : null;
  const isStamped = target === "timestamp" ? bytes !== null : token === null;
  if (!isOfBucket || !isStamped || consistency === undefined) return null;
  return { ...(line as unknown as AnchorLine), token: bytes };
}
