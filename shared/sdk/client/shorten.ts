/**
 * Shortens a checkpoint that is over the limit of its size, because a shorter checkpoint is worth more than none. The parts are left out
 * in the order of {@link STEPS}, those first that the next agent can best do without. A part that is left out stays in the checkpoints
 * before.
 */
import type { CheckpointInput } from "../../protocol/checkpoint.ts";
import { LIMITS } from "../../protocol/limits.ts";

/** For the members that the writer adds, and the difference between JSON and the canonical form. */
const RESERVE_BYTES = 20_000;
const KEPT_ITEMS = 100;
const KEPT_CHARS = 4_000;

type Part = Record<string, unknown>;
interface Step {
  /** What is left out, for the warning and the manual. */
  readonly name: string;
  readonly apply: (checkpoint: Draft) => void;
}
type Draft = Record<"execution_state" | "context_summary" | "metrics" | "recovery" | "verification", Part>;

export const STEPS: readonly Step[] = [
  {
    name: "the recorded files of the workspace",
    apply: ({ recovery }) => drop(recovery.workspace, "files", "dirty"),
  },
  {
    name: "the notes of completed items",
    apply: (one) => each(one.execution_state.completed_items, (item) => drop(item, "notes")),
  },
  { name: "the results of the verification", apply: ({ verification }) => drop(verification, "results") },
  {
    name: "the files of completed items",
    apply: (one) =>
      each(one.execution_state.completed_items, (item) => drop(item, "files_created", "files_modified")),
  },
  {
    name: `completed items before the last ${KEPT_ITEMS}`,
    apply: (one) => keepLast(one.execution_state, "completed_items"),
  },
  {
    name: `modified files, assumptions and dependencies beyond ${KEPT_ITEMS}`,
    apply: ({ metrics, context_summary: context }) => {
      keepLast(metrics, "files_modified");
      keepLast(context, "assumptions");
      keepLast(context, "external_dependencies");
    },
  },
  {
    name: `texts beyond ${KEPT_CHARS} characters`,
    apply: (one) => {
      for (const section of Object.values(one)) cutTexts(section);
    },
  },
  {
    name: `decisions and constraints before the last ${KEPT_ITEMS}`,
    apply: ({ context_summary: context }) => {
      keepLast(context, "key_decisions");
      keepLast(context, "constraints");
    },
  },
  {
    name: `pending and blocked items beyond the first ${KEPT_ITEMS}`,
    apply: ({ execution_state: state }) => {
      for (const name of ["pending_items", "blocked_items"]) {
        if (Array.isArray(state[name])) state[name] = state[name].slice(0, KEPT_ITEMS);
      }
    },
  },
];

export interface Shortened {
  readonly checkpoint: CheckpointInput;
  /** The names of the steps; empty: the checkpoint is unchanged. */
  readonly leftOut: readonly string[];
}

/** The writer refuses a checkpoint that is still too large after all steps. */
export function shortened(
  checkpoint: CheckpointInput,
  bytesMax: number = LIMITS.checkpoint_bytes_max - RESERVE_BYTES,
): Shortened {
  if (bytesOf(checkpoint) <= bytesMax) return { checkpoint, leftOut: [] };
  const copy = structuredClone(checkpoint) as CheckpointInput & Draft;
  for (const name of ["execution_state", "context_summary", "metrics", "recovery", "verification"] as const) {
    if (!isPart(copy[name])) copy[name] = {} as never;
  }
  const leftOut: string[] = [];
  for (const { name, apply } of STEPS) {
    const before = bytesOf(copy);
    if (before <= bytesMax) break;
    apply(copy);
    if (bytesOf(copy) < before) leftOut.push(name);
  }
  return { checkpoint: copy, leftOut };
}

/** 0 for a value that is no JSON: its own error comes when it is sent. */
function bytesOf(checkpoint: unknown): number {
  try {
    return Buffer.byteLength(JSON.stringify(checkpoint) ?? "");
  } catch {
    return 0;
  }
}

const isPart = (value: unknown): value is Part =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function drop(part: unknown, ...members: string[]): void {
  if (isPart(part)) for (const member of members) delete part[member];
}

function each(list: unknown, change: (item: unknown) => void): void {
  if (Array.isArray(list)) for (const item of list) change(item);
}

function keepLast(part: Part, member: string): void {
  const list = part[member];
  if (Array.isArray(list)) part[member] = list.slice(-KEPT_ITEMS);
}

function cutTexts(part: Part | unknown[]): void {
  const entries: [string | number, unknown][] = Array.isArray(part)
    ? [...part.entries()]
    : Object.entries(part);
  for (const [name, value] of entries) {
    if (typeof value === "string" && value.length > KEPT_CHARS) {
      (part as Part)[name] = `${value.slice(0, KEPT_CHARS).toWellFormed()}…`;
    } else if (Array.isArray(value) || isPart(value)) cutTexts(value);
  }
}
