/**
 * The scrub: passes over everything that is stored, in small steps. A step reads on one snapshot, has what it found quarantined, and writes
 * findings, counts and the place to go on from in one short transaction that checks that the scrub stands where the step began. A crash
 * between them makes the step again, which finds the same: marks and findings are made once.
 */
import { LIMITS } from "../../protocol/limits.ts";
import type { ScrubPass, ScrubTally } from "../../protocol/scrub.ts";
import type { Store, Tx } from "../../store/store.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import { decodeHead, encodeHead, isFirstHead } from "../task/head.ts";
import { forgetOthers, type KeptFinding, keepFindings, markTold, readUntold } from "./findings.ts";
import { type CorruptVersion, type FoundDamage, NOTHING, ScrubStep } from "./scrub-reader.ts";
import { isDue, readScrubState, type ScrubSettings, type ScrubState, writeScrubState } from "./state.ts";
import { WALK_BEGINS, walkOn } from "./walk.ts";

const READ_DEADLINE_MS = 3_500;
const WRITE = { deadlineMs: 3_000, priority: "batch", onUnknown: "safe" } as const;

export interface Scrubbing {
  readonly store: Store;
  readonly settings: ScrubSettings;
  readonly now: () => number;
  /** Runs first in every transaction, and throws when this instance may no longer write. */
  readonly guard: (tx: Tx) => Promise<void>;
  /** Before the step is written: a mark that is made twice is one, and one that is not made would be lost. */
  readonly quarantine: (corrupt: CorruptVersion) => Promise<void>;
}

export interface ScrubStepDone {
  readonly kind: "began" | "went_on" | "ended" | "overtaken";
  readonly pass: ScrubPass;
  readonly read: ScrubTally;
  /** What no pass had met before. */
  readonly fresh: readonly FoundDamage[];
}

/** Takes one step; null: there is nothing to do. */
export async function stepScrub(scrubbing: Scrubbing): Promise<ScrubStepDone | null> {
  const { store, settings, now } = scrubbing;
  const state = await store.read({ label: "scrub_state", deadlineMs: READ_DEADLINE_MS }, readScrubState);
  const { current } = state;
  if (current === null) {
    return isDue(state, settings.everyMs, now()) ? begin(scrubbing, state) : null;
  }
  return current.at.stage === "walk" ? walk(scrubbing, state, current) : forget(scrubbing, state, current);
}

type Current = NonNullable<ScrubState["current"]>;

async function begin(scrubbing: Scrubbing, state: ScrubState): Promise<ScrubStepDone> {
  const { settings, now } = scrubbing;
  const pass = state.passes + 1;
  const current: Current = {
    ...NOTHING,
    pass,
    began_at: new Date(now()).toISOString(),
    at: { stage: "walk", place: WALK_BEGINS },
  };
  const next: ScrubState = { ...state, passes: pass, current, settings };
  const isWritten = await write(scrubbing, state, async () => next);
  return { kind: isWritten ? "began" : "overtaken", pass: current, read: NOTHING, fresh: [] };
}

async function walk(scrubbing: Scrubbing, state: ScrubState, current: Current): Promise<ScrubStepDone> {
  const { store, settings, now } = scrubbing;
  const { at } = current;
  if (at.stage !== "walk") throw new RangeError("the pass does not walk any more");
  // A step is at most a part of what may be read in a second.
  const bytesMax = Math.min(LIMITS.scrub_step_bytes_max, settings.rateBytes / 4);
  const { step, place } = await store.read(
    { label: "scrub", deadlineMs: READ_DEADLINE_MS },
    async (reader) => {
      const step = new ScrubStep(reader, { passBeganMs: Date.parse(current.began_at), bytesMax });
      return { step, place: await walkOn(step, at.place) };
    },
  );
  for (const corrupt of step.corrupt) await scrubbing.quarantine(corrupt);
  const gone: Current = {
    ...added(current, step.tally),
    at: place === null ? { stage: "forget", after: null } : { stage: "walk", place },
  };
  let fresh: readonly FoundDamage[] = [];
  const isWritten = await write(scrubbing, state, async (tx) => {
    await upgradeHeads(tx, step.earlierHeads);
    fresh = await keepFindings(tx, step.damages, { pass: current.pass, nowMs: now() });
    const untold = fresh.filter(({ quarantined }) => !quarantined).length;
    return { ...state, current: gone, settings, untold: state.untold + untold };
  });
  return {
    kind: isWritten ? "went_on" : "overtaken",
    pass: gone,
    read: step.tally,
    fresh: isWritten ? fresh : [],
  };
}

/** Writes heads of an earlier layout in the present one. What leads to them stays as it is. */
async function upgradeHeads(
  tx: Tx,
  tasks: readonly { readonly tenant: string; readonly task: string }[],
): Promise<void> {
  for (const { tenant, task } of tasks) {
    const key = tenantKeys(tenant).task(task);
    const value = await tx.get(key);
    if (value !== undefined && isFirstHead(value)) tx.set(key, encodeHead(decodeHead(value)));
  }
}

async function forget(scrubbing: Scrubbing, state: ScrubState, current: Current): Promise<ScrubStepDone> {
  const { at: _at, ...pass } = current;
  let hasEnded = false;
  const isWritten = await write(scrubbing, state, async (tx) => {
    const from = current.at.stage === "forget" ? current.at.after : null;
    const { next, untold } = await forgetOthers(tx, pass.pass, from, LIMITS.scrub_step_rows_max);
    hasEnded = next === null;
    const left = { ...state, untold: Math.max(0, state.untold - untold) };
    if (next !== null) return { ...left, current: { ...pass, at: { stage: "forget", after: next } } };
    return { ...left, current: null, last: { ...pass, ended_at: new Date(scrubbing.now()).toISOString() } };
  });
  const kind = !isWritten ? "overtaken" : hasEnded ? "ended" : "went_on";
  return { kind, pass, read: NOTHING, fresh: [] };
}

/** False: the scrub does not stand where the step began, and nothing is written. */
async function write(
  { store, guard }: Scrubbing,
  state: ScrubState,
  next: (tx: Tx) => Promise<ScrubState>,
): Promise<boolean> {
  const { value } = await store.transact({ ...WRITE, label: "write_scrub" }, async (tx) => {
    await guard(tx);
    const now = await readScrubState(tx);
    // Asked for meanwhile: that changes nothing of the step.
    if (now.revision !== state.revision && !isSameBut(now, state)) return false;
    writeScrubState(tx, { ...(await next(tx)), revision: now.revision, requested: now.requested });
    return true;
  });
  return value;
}

/** Whether nothing but a request came between the two. */
function isSameBut(now: ScrubState, before: ScrubState): boolean {
  return now.requested > before.requested && now.revision === before.revision + 1;
}

function added(pass: Current, tally: ScrubTally): Current {
  return {
    ...pass,
    tasks: pass.tasks + tally.tasks,
    checkpoints: pass.checkpoints + tally.checkpoints,
    versions: pass.versions + tally.versions,
    audit_entries: pass.audit_entries + tally.audit_entries,
    bytes: pass.bytes + tally.bytes,
    quarantined: pass.quarantined + tally.quarantined,
    findings: pass.findings + tally.findings,
  };
}

/** Tells what is not told yet: `tell` resolves when the alert is durable, and may be called again for the same finding after a crash. */
export async function tellFindings(
  { store, guard }: Pick<Scrubbing, "store" | "guard">,
  tell: (finding: KeptFinding) => Promise<void>,
): Promise<void> {
  const reading = { label: "scrub_untold", deadlineMs: READ_DEADLINE_MS };
  if ((await store.read(reading, readScrubState)).untold === 0) return;
  for (let from: Uint8Array | null = null; ; ) {
    const page = await store.read(reading, (reader) => readUntold(reader, from, LIMITS.scrub_step_rows_max));
    for (const finding of page.findings) await tell(finding);
    from = page.next;
    const isLast = from === null;
    await store.transact({ ...WRITE, label: "scrub_told" }, async (tx) => {
      await guard(tx);
      const state = await readScrubState(tx);
      const marked = await markTold(tx, page.findings);
      // At the end of all none is left, whatever was counted.
      const untold = isLast ? 0 : Math.max(0, state.untold - marked);
      writeScrubState(tx, { ...state, untold });
    });
    if (isLast) return;
  }
}
