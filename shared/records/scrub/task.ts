/**
 * One task, section by section. What fits into a step is verified on one snapshot; of a longer one each piece is verified on its own, in
 * a way that holds whatever is written between two snapshots, and the trail is joined to what the head said in the beginning.
 */
import { CHAIN_START } from "../../integrity/chain.ts";
import { FleetError } from "../../protocol/errors.ts";
import { StoreError } from "../../store/store.ts";
import { type CheckpointsAt, verifyCheckpoints } from "./checkpoints.ts";
import { type Extent, verifyHead } from "./head.ts";
import { type LinksAt, verifyChildren, verifyHandoffs } from "./links.ts";
import { ofTask, type ScrubStep, Sight } from "./scrub-reader.ts";
import { type TrailAt, verifyTrail } from "./trail.ts";

export type Section =
  | { readonly name: "checkpoints"; readonly at: CheckpointsAt }
  | { readonly name: "children"; readonly at: LinksAt }
  | { readonly name: "handoffs"; readonly at: LinksAt }
  | { readonly name: "trail"; readonly at: TrailAt };

/** Inside a task that did not fit into one step. */
export interface TaskPlace {
  readonly task: string;
  readonly extent: Extent;
  readonly section: Section;
  /** Findings in it so far. */
  readonly found: number;
}

const BEGINNINGS = {
  checkpoints: { name: "checkpoints", at: { seq: 1, version: 1 } },
  children: { name: "children", at: { after: null } },
  handoffs: { name: "handoffs", at: { after: null } },
  trail: { name: "trail", at: { seq: 0, hash: CHAIN_START, created: 0 } },
} as const satisfies Record<Section["name"], Section>;

const NEXT = {
  checkpoints: BEGINNINGS.children,
  children: BEGINNINGS.handoffs,
  handoffs: BEGINNINGS.trail,
  trail: null,
} as const satisfies Record<Section["name"], Section | null>;

/** Where to go on in the next step; null: the task is verified. `place` null: it begins. */
export async function verifyTask(
  step: ScrubStep,
  tenant: string,
  task: string,
  place: TaskPlace | null,
): Promise<TaskPlace | null> {
  const canMark = place === null || place.extent.head !== null;
  const sight = new Sight(step, tenant, task, { canMark, found: place?.found ?? 0 });
  try {
    return await verify(sight, place);
  } catch (error) {
    if (isOfStore(error)) throw error;
    // Damage that nobody thought of must not keep all the other tasks from being verified.
    const name = error instanceof Error ? error.name : "an unknown error";
    sight.note(ofTask("record", `a record of the task cannot be read (${name})`));
    return null;
  }
}

async function verify(sight: Sight, place: TaskPlace | null): Promise<TaskPlace | null> {
  const { step, task } = sight;
  const extent = place?.extent ?? (await verifyHead(sight));
  sight.canMark = extent.head !== null;
  let section: Section | null = place?.section ?? BEGINNINGS.checkpoints;
  while (section !== null) {
    const left: Section | null = await verifySection(sight, section, extent);
    if (left !== null) return { task, extent, section: left, found: sight.found };
    section = NEXT[section.name];
    if (section !== null && step.isSpent) return { task, extent, section, found: sight.found };
  }
  step.tally.tasks += 1;
  return null;
}

/** Where to go on in it; null: it is verified. */
async function verifySection(sight: Sight, section: Section, extent: Extent): Promise<Section | null> {
  switch (section.name) {
    case "checkpoints": {
      const at = await verifyCheckpoints(sight, section.at, extent.seq);
      return at && { name: "checkpoints", at };
    }
    case "children": {
      const at = await verifyChildren(sight, section.at);
      return at && { name: "children", at };
    }
    case "handoffs": {
      const at = await verifyHandoffs(sight, section.at);
      return at && { name: "handoffs", at };
    }
    case "trail": {
      const at = await verifyTrail(sight, section.at, extent);
      return at && { name: "trail", at };
    }
  }
}

/** The store away, late or closed: nothing is known of the task, and the step is made again. */
function isOfStore(error: unknown): boolean {
  return error instanceof StoreError || (error instanceof FleetError && error.retryable);
}
