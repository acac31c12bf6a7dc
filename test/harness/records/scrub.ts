/** A scrub without a service around it: passes over a bench's store, step by step, as whoever has the duty makes them. */
import { setImmediate } from "node:timers/promises";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import type { EndedScrubPass, ScrubFinding } from "../../../shared/protocol/scrub.ts";
import { stepScrub } from "../../../shared/records/scrub/scrub.ts";
import { readScrubState } from "../../../shared/records/scrub/state.ts";
import type { Store } from "../../../shared/store/store.ts";
import type { Bench } from "./records.ts";

export interface ScrubOptions {
  /** Of one step; small ones have a task verified over many snapshots. */
  readonly stepBytes?: number;
  /** Default: as the service does. */
  readonly marks?: boolean;
  /** After each step. */
  readonly between?: () => Promise<unknown>;
}

export interface Scrubbed {
  readonly pass: EndedScrubPass;
  readonly steps: number;
  readonly findings: readonly ScrubFinding[];
}

/** One whole pass. */
export async function scrub(
  { store, repository }: Pick<Bench, "store" | "repository">,
  { stepBytes = LIMITS.scrub_step_bytes_max, marks = true, between = async () => {} }: ScrubOptions = {},
): Promise<Scrubbed> {
  await nextMillisecond();
  await repository.startScrub();
  for (let steps = 1; ; steps += 1) {
    const done = await stepScrub({
      store,
      settings: { rateBytes: stepBytes * 4, everyMs: null },
      now: Date.now,
      guard: async () => {},
      quarantine: async ({ tenant, task, corrupt }) => {
        if (marks) await repository.quarantine(tenant, task, [corrupt]);
      },
    });
    if (done?.kind === "ended") {
      return { pass: await lastPass(store), steps, findings: await findingsOf(repository) };
    }
    await between();
  }
}

/** A pass counts what was quarantined in the very millisecond in which it begins as its own: it cannot know which came first. */
async function nextMillisecond(): Promise<void> {
  for (const now = Date.now(); Date.now() === now; ) await setImmediate();
}

async function lastPass(store: Store): Promise<EndedScrubPass> {
  const { last } = await store.read({ label: "test", deadlineMs: 3_000 }, readScrubState);
  if (last === null) throw new Error("no pass has ended");
  return last;
}

/** Of the default tenant. */
export async function findingsOf(repository: Bench["repository"]): Promise<readonly ScrubFinding[]> {
  return (await repository.scrubFindings("default", { limit: LIMITS.scrub_findings_limit_max })).findings;
}
