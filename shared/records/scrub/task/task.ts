/**
 * Verifies one task, section by section. A task that fits into one step is verified on one snapshot. A larger
 * task is verified in parts, each in a way that tolerates writes between two snapshots. The trail is compared
 * with the head as it was at the beginning.
 */
import { FleetError } from "../../../protocol/errors.ts";
import { StoreError } from "../../../store/store.ts";
import { ofTask, type ScrubStep, TaskScrub } from "../scrub-reader.ts";
import { TRAIL_START, type TrailAt, verifyTrail } from "../trail/trail.ts";
import { verifyShredding } from "./certificate.ts";
import { type CheckpointsAt, verifyCheckpoints } from "./checkpoints.ts";
import { verifyTaskKey } from "./data-keys.ts";
import { type Extent, verifyHead } from "./head.ts";
import { type LinksAt, verifyChildren, verifyHandoffs } from "./links.ts";
import { verifyMission } from "./mission.ts";

export type Section =
  | { readonly name: "checkpoints"; readonly at: CheckpointsAt }
  | { readonly name: "children"; readonly at: LinksAt }
  | { readonly name: "handoffs"; readonly at: LinksAt }
  | { readonly name: "mission"; readonly at: LinksAt }
  | { readonly name: "trail"; readonly at: TrailAt };

/** The position in a task that did not fit into one step. */
export interface TaskPlace {
  readonly task: string;
  readonly extent: Extent;
  readonly section: Section;
  /** The number of findings in it so far. */
  readonly found: number;
}

const STARTS = {
  checkpoints: { name: "checkpoints", at: { seq: 1, version: 1 } },
  children: { name: "children", at: { after: null } },
  handoffs: { name: "handoffs", at: { after: null } },
  mission: { name: "mission", at: { after: null } },
  trail: { name: "trail", at: TRAIL_START },
} as const satisfies Record<Section["name"], Section>;

const NEXT = {
  checkpoints: STARTS.children,
  children: STARTS.handoffs,
  handoffs: STARTS.mission,
  mission: STARTS.trail,
  trail: null,
} as const satisfies Record<Section["name"], Section | null>;

/**
 * Verifies a task from `place` (null: its beginning). Returns where the next step continues; null: the task
 * is verified.
 */
export async function verifyTask(
  step: ScrubStep,
  tenant: string,
  task: string,
  place: TaskPlace | null,
): Promise<TaskPlace | null> {
  const canMark = place === null || place.extent.head !== null;
  const scrub = new TaskScrub(step, tenant, task, { canMark, found: place?.found ?? 0 });
  try {
    return await verify(scrub, place);
  } catch (error) {
    if (isOfStore(error)) throw error;
    // Unforeseen damage must not prevent the verification of all other tasks.
    const name = error instanceof Error ? error.name : "an unknown error";
    scrub.note(ofTask("record", `a record of the task cannot be read (${name})`));
    step.tally.tasks += 1;
    return null;
  }
}

async function verify(scrub: TaskScrub, place: TaskPlace | null): Promise<TaskPlace | null> {
  const { step, task } = scrub;
  if (place === null && !(await verifyTaskKey(scrub))) {
    step.tally.tasks += 1;
    return null;
  }
  const extent = place?.extent ?? (await verifyHead(scrub));
  if (place === null) await verifyShredding(scrub);
  scrub.canMark = extent.head !== null;
  let section: Section | null = place?.section ?? STARTS.checkpoints;
  while (section !== null) {
    const left: Section | null = await verifySection(scrub, section, extent);
    if (left !== null) return { task, extent, section: left, found: scrub.found };
    section = NEXT[section.name];
    if (section !== null && step.isSpent) return { task, extent, section, found: scrub.found };
  }
  step.tally.tasks += 1;
  return null;
}

/** Returns where the next step continues; null: the section is verified. */
async function verifySection(scrub: TaskScrub, section: Section, extent: Extent): Promise<Section | null> {
  switch (section.name) {
    case "checkpoints": {
      const at = await verifyCheckpoints(scrub, section.at, extent.seq);
      return at && { name: "checkpoints", at };
    }
    case "children": {
      const at = await verifyChildren(scrub, section.at);
      return at && { name: "children", at };
    }
    case "handoffs": {
      const at = await verifyHandoffs(scrub, section.at);
      return at && { name: "handoffs", at };
    }
    case "mission": {
      const at = await verifyMission(scrub, section.at);
      return at && { name: "mission", at };
    }
    case "trail": {
      const at = await verifyTrail(scrub, section.at, extent);
      return at && { name: "trail", at };
    }
  }
}

/**
 * Whether the store is unavailable, late or closed. Then nothing is known about the task, and the step is
 * repeated.
 */
function isOfStore(error: unknown): boolean {
  return error instanceof StoreError || (error instanceof FleetError && error.retryable);
}
