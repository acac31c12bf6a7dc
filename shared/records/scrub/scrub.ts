/**
 * The scrub: passes over the whole store and the event stream, in small steps. A step reads one snapshot and quarantines corrupt
 * versions. Then it writes its findings, counts and position in one short transaction, which checks that the
 * state of the scrub is unchanged. After a crash in between, the step is repeated and finds the same.
 * Quarantine marks and findings are idempotent.
 */
import { withoutOrigin } from "../../lifecycle/apply.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { ScrubPass, ScrubTally } from "../../protocol/scrub.ts";
import type { Bytes, Store, Tx } from "../../store/store.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { indexRecovery } from "../recovery/due.ts";
import { decodeHead, encodeHead, isEarlierHead } from "../task/head.ts";
import {
  afterSampled,
  isSampleFull,
  nextSampled,
  SAMPLE_START,
  type SampleAt,
  verifySampled,
  writeVerdicts,
} from "./artifact-sample.ts";
import { readCountersAtStart, verifyCounters } from "./counters.ts";
import { EVENTS_START, type EventStream, readEvents, verifyEvents } from "./events.ts";
import { deleteResolved, type KeptFinding, keepFindings, markAlerted, readUnalerted } from "./findings.ts";
import {
  type ArtifactBytes,
  type CorruptCurrentVersion,
  type FoundDamage,
  NOTHING,
  ScrubStep,
} from "./scrub-reader.ts";
import {
  isDue,
  type PassPlace,
  readScrubState,
  type ScrubSettings,
  type ScrubState,
  writeScrubState,
} from "./state.ts";
import { WALK_START, walkStore } from "./walk.ts";

const READ_DEADLINE_MS = 3_500;
const WRITE = { deadlineMs: 3_000, priority: "batch", onUnknown: "safe" } as const;

export interface Scrubbing {
  readonly store: Store;
  readonly events: EventStream;
  readonly settings: ScrubSettings;
  readonly now: () => number;
  /** Runs first in every transaction, and throws when this instance may no longer write. */
  readonly guard: (tx: Tx) => Promise<void>;
  /**
   * Runs before the step is written. Quarantine is idempotent, but a mark that a crash prevented would
   * otherwise be lost.
   */
  readonly quarantine: (corrupt: CorruptCurrentVersion) => Promise<void>;
  /** undefined: this process has no access to the bytes of artifacts. */
  readonly artifacts?: ArtifactBytes | undefined;
}

export interface ScrubStepDone {
  readonly kind: "began" | "went_on" | "ended" | "overtaken";
  readonly pass: ScrubPass;
  readonly read: ScrubTally;
  /** The new findings. */
  readonly fresh: readonly FoundDamage[];
}

/** Makes one step. Returns null if no pass is due. */
export async function stepScrub(scrubbing: Scrubbing): Promise<ScrubStepDone | null> {
  const { store, settings, now } = scrubbing;
  const state = await store.read({ label: "scrub_state", deadlineMs: READ_DEADLINE_MS }, readScrubState);
  const { current } = state;
  if (current === null) {
    return isDue(state, settings.everyMs, now()) ? begin(scrubbing, state) : null;
  }
  const { at } = current;
  switch (at.stage) {
    case "walk":
      return verify(scrubbing, state, current, async (step) => {
        const place = await walkStore(step, at.place);
        if (place !== null) return { stage: "walk", place };
        await verifyCounters(step, current.counters, current);
        return { stage: "events", place: EVENTS_START };
      });
    case "events": {
      const { events, next } = await readEvents(scrubbing.events, at.place, stepBytes(settings));
      return verify(scrubbing, state, current, async (step) => {
        await verifyEvents(step, events);
        if (next !== null) return { stage: "events", place: next };
        if (scrubbing.artifacts === undefined) return { stage: "forget", after: null };
        return { stage: "artifacts", place: { ...(state.sampled ?? SAMPLE_START), count: 0, bytes: 0 } };
      });
    }
    case "artifacts":
      return sample(scrubbing, state, current, at.place);
    case "forget":
      return forget(scrubbing, state, current, at.after);
  }
}

type Current = NonNullable<ScrubState["current"]>;

async function begin(scrubbing: Scrubbing, state: ScrubState): Promise<ScrubStepDone> {
  const { store, settings, now } = scrubbing;
  const pass = state.passes + 1;
  const reading = { label: "scrub_counters", deadlineMs: READ_DEADLINE_MS };
  const counters = await store.read(reading, readCountersAtStart);
  const current: Current = {
    ...NOTHING,
    pass,
    began_at: new Date(now()).toISOString(),
    counters,
    at: { stage: "walk", place: WALK_START },
  };
  const next: ScrubState = { ...state, passes: pass, current, settings };
  const isWritten = await write(scrubbing, state, async () => next);
  return { kind: isWritten ? "began" : "overtaken", pass: current, read: NOTHING, fresh: [] };
}

/** A step reads at most a quarter of the bytes allowed per second. */
function stepBytes({ rateBytes }: ScrubSettings): number {
  return Math.min(LIMITS.scrub_step_bytes_max, rateBytes / 4);
}

/** `verifyMore` reads one snapshot, and returns where the next step continues. */
async function verify(
  scrubbing: Scrubbing,
  state: ScrubState,
  current: Current,
  verifyMore: (step: ScrubStep) => Promise<PassPlace>,
): Promise<ScrubStepDone> {
  const { store, settings, now, artifacts } = scrubbing;
  const { step, at } = await store.read({ label: "scrub", deadlineMs: READ_DEADLINE_MS }, async (reader) => {
    const passBeganMs = Date.parse(current.began_at);
    const artifactSize = artifacts?.size;
    const step = new ScrubStep(reader, { passBeganMs, bytesMax: stepBytes(settings), artifactSize });
    return { step, at: await verifyMore(step) };
  });
  for (const corrupt of step.corrupt) await scrubbing.quarantine(corrupt);
  const advanced: Current = { ...added(current, step.tally), at };
  let fresh: readonly FoundDamage[] = [];
  const isWritten = await write(scrubbing, state, async (tx) => {
    await upgradeHeads(tx, step.earlierHeads);
    await writeVerdicts(tx, step.verdicts);
    fresh = await keepFindings(tx, step.damages, { pass: current.pass, nowMs: now() });
    const unalerted = fresh.filter(({ quarantined }) => !quarantined).length;
    return { ...state, current: advanced, settings, untold: state.untold + unalerted };
  });
  return {
    kind: isWritten ? "went_on" : "overtaken",
    pass: advanced,
    read: step.tally,
    fresh: isWritten ? fresh : [],
  };
}

/**
 * Rewrites heads of earlier versions in the present form, and adds the index entries of the blocks that these
 * versions did not index.
 */
async function upgradeHeads(
  tx: Tx,
  tasks: readonly { readonly tenant: string; readonly task: string }[],
): Promise<void> {
  for (const { tenant, task } of tasks) {
    const keys = tenantKeys(tenant);
    const value = await tx.get(keys.task(task));
    if (value === undefined || !isEarlierHead(value)) continue;
    const before = decodeHead(value);
    const head = withoutOrigin(before);
    tx.set(keys.task(task), encodeHead(head));
    indexRecovery(tx, keys, before, head);
  }
}

/** One artifact of the sample. The pass ends its sample at the last artifact, and the next one begins with the first. */
async function sample(
  scrubbing: Scrubbing,
  state: ScrubState,
  current: Current,
  at: SampleAt,
): Promise<ScrubStepDone> {
  const { store, artifacts, now } = scrubbing;
  const reading = { label: "scrub_sample", deadlineMs: READ_DEADLINE_MS };
  const next =
    artifacts === undefined || isSampleFull(at)
      ? null
      : await store.read(reading, (reader) => nextSampled(reader, at));
  const isAtEnd = next === null && !isSampleFull(at);
  const { tenant, hash } = at;
  const sampled = isAtEnd ? undefined : next === null ? { tenant, hash } : state.sampled;
  if (artifacts === undefined || next === null)
    return verify(scrubbing, { ...state, sampled }, current, async () => ({ stage: "forget", after: null }));
  const { artifact } = next;
  const found =
    artifact && (await artifacts.hash({ tenant: next.tenant, upload: artifact.upload, size: artifact.size }));
  return verify(scrubbing, state, current, async (step) => {
    await verifySampled(step, next, found, { nowMs: now(), graceMs: artifacts.graceMs });
    return { stage: "artifacts", place: afterSampled(at, next) };
  });
}

async function forget(
  scrubbing: Scrubbing,
  state: ScrubState,
  current: Current,
  from: Bytes | null,
): Promise<ScrubStepDone> {
  const { at: _at, counters: _counters, ...pass } = current;
  let hasEnded = false;
  const isWritten = await write(scrubbing, state, async (tx) => {
    const { next, unalerted } = await deleteResolved(tx, pass.pass, from, LIMITS.scrub_step_rows_max);
    hasEnded = next === null;
    const left = { ...state, untold: Math.max(0, state.untold - unalerted) };
    if (next !== null) return { ...left, current: { ...current, at: { stage: "forget", after: next } } };
    return { ...left, current: null, last: { ...pass, ended_at: new Date(scrubbing.now()).toISOString() } };
  });
  const kind = !isWritten ? "overtaken" : hasEnded ? "ended" : "went_on";
  return { kind, pass, read: NOTHING, fresh: [] };
}

/** Returns false, and writes nothing, if the state of the scrub has changed since the step began. */
async function write(
  { store, guard }: Scrubbing,
  state: ScrubState,
  next: (tx: Tx) => Promise<ScrubState>,
): Promise<boolean> {
  const { value } = await store.transact({ ...WRITE, label: "write_scrub" }, async (tx) => {
    await guard(tx);
    const now = await readScrubState(tx);
    // A request for another pass does not invalidate the step.
    if (now.revision !== state.revision && !hasOnlyNewRequest(now, state)) return false;
    writeScrubState(tx, { ...(await next(tx)), revision: now.revision, requested: now.requested });
    return true;
  });
  return value;
}

/** Whether the two states differ by one request only. */
function hasOnlyNewRequest(now: ScrubState, before: ScrubState): boolean {
  return now.requested > before.requested && now.revision === before.revision + 1;
}

function added(pass: Current, tally: ScrubTally): Current {
  return {
    ...pass,
    tasks: pass.tasks + tally.tasks,
    checkpoints: pass.checkpoints + tally.checkpoints,
    versions: pass.versions + tally.versions,
    audit_entries: pass.audit_entries + tally.audit_entries,
    // A pass that an earlier version has begun does not count them.
    unsigned_entries: (pass.unsigned_entries ?? 0) + tally.unsigned_entries,
    bytes: pass.bytes + tally.bytes,
    quarantined: pass.quarantined + tally.quarantined,
    findings: pass.findings + tally.findings,
  };
}

/**
 * Alerts operators to new findings. `alert` resolves when the alert is durable. After a crash it may be
 * called again for the same finding.
 */
export async function alertFindings(
  { store, guard }: Pick<Scrubbing, "store" | "guard">,
  alert: (finding: KeptFinding) => Promise<void>,
): Promise<void> {
  const reading = { label: "scrub_untold", deadlineMs: READ_DEADLINE_MS };
  if ((await store.read(reading, readScrubState)).untold === 0) return;
  for (let from: Uint8Array | null = null; ; ) {
    const page = await store.read(reading, (reader) =>
      readUnalerted(reader, from, LIMITS.scrub_step_rows_max),
    );
    for (const finding of page.findings) await alert(finding);
    from = page.next;
    const isLast = from === null;
    await store.transact({ ...WRITE, label: "scrub_told" }, async (tx) => {
      await guard(tx);
      const state = await readScrubState(tx);
      const marked = await markAlerted(tx, page.findings);
      // After the last page none is left, even if the counter was wrong.
      const untold = isLast ? 0 : Math.max(0, state.untold - marked);
      writeScrubState(tx, { ...state, untold });
    });
    if (isLast) return;
  }
}
