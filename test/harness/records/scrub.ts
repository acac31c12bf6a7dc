/** A scrub without its service: passes over a test store, step by step, as the instance with the lease makes them. */
import { setImmediate } from "node:timers/promises";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { EndedScrubPass, ScrubFinding } from "../../../shared/protocol/scrub.ts";
import type { EventStream, StoredEvent } from "../../../shared/records/scrub/events.ts";
import { stepScrub } from "../../../shared/records/scrub/scrub.ts";
import type { ArtifactBytes } from "../../../shared/records/scrub/scrub-reader.ts";
import { readScrubState } from "../../../shared/records/scrub/state.ts";
import type { Store } from "../../../shared/store/store.ts";
import { OPERATOR, type TestRecords } from "./records.ts";

/** A stream without events. */
export const NO_EVENTS: EventStream = { newest: async () => 0, read: async () => [] };

/** A stream of these events. */
export function streamOf(bodies: readonly string[]): EventStream {
  const events = bodies.map((body, i): StoredEvent => ({ seq: i + 1, body: Buffer.from(body) }));
  return {
    newest: async () => events.length,
    read: async (fromSeq, limit) => events.slice(fromSeq - 1, fromSeq - 1 + limit),
  };
}

interface ScrubOptions {
  /** The size of one step; a small one spreads the verification of a task over many snapshots. */
  readonly stepBytes?: number;
  /** Whether to quarantine corrupt checkpoints. Default: true, as the service does. */
  readonly quarantines?: boolean;
  /** The event stream. Default: it has no events. */
  readonly events?: EventStream;
  /** The bytes of artifacts. Default: they are not verified. */
  readonly artifacts?: ArtifactBytes;
  /** Called after each step. */
  readonly between?: () => Promise<unknown>;
  /** The scrub's clock, for a store that is not of the present. Default: `Date.now`. */
  readonly now?: () => number;
}

interface ScrubResult {
  readonly pass: EndedScrubPass;
  readonly steps: number;
  readonly findings: readonly ScrubFinding[];
}

/** Makes one complete pass. */
export async function scrub(
  { store, repository }: Pick<TestRecords, "store" | "repository">,
  {
    stepBytes = LIMITS.scrub_step_bytes_max,
    quarantines = true,
    events = NO_EVENTS,
    artifacts,
    between = async () => {},
    now = Date.now,
  }: ScrubOptions = {},
): Promise<ScrubResult> {
  await nextMillisecond();
  await repository.startScrub(OPERATOR);
  for (let steps = 1; ; steps += 1) {
    const done = await stepScrub({
      store,
      events,
      artifacts,
      settings: { rateBytes: stepBytes * 4, everyMs: null },
      now,
      guard: async () => {},
      quarantine: async ({ tenant, task, corrupt }) => {
        if (quarantines) await repository.quarantine(tenant, task, [corrupt]);
      },
    });
    if (done?.kind === "ended") {
      return { pass: await lastPass(store), steps, findings: await findingsOf(repository) };
    }
    await between();
  }
}

/**
 * Waits for the next millisecond. A pass counts a quarantine of the millisecond in which it begins as its own, because it cannot
 * know which of the two was first.
 */
async function nextMillisecond(): Promise<void> {
  for (const now = Date.now(); Date.now() === now; ) await setImmediate();
}

async function lastPass(store: Store): Promise<EndedScrubPass> {
  const { last } = await store.read({ label: "test", deadlineMs: 3_000 }, readScrubState);
  if (last === null) throw new Error("no pass has ended");
  return last;
}

/** The findings of the default tenant. */
export async function findingsOf(repository: TestRecords["repository"]): Promise<readonly ScrubFinding[]> {
  return (await repository.scrubFindings("default", { limit: LIMITS.scrub_findings_limit_max })).findings;
}
