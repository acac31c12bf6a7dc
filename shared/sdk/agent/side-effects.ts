/**
 * The ledger of side effects: work that leaves no file, such as an API call, a deployment or a message. An effect is claimed in a committed
 * checkpoint before it happens and completed after it. The next agent thus knows what may have happened.
 */
import { FleetError } from "../../protocol/errors.ts";
import type { WorkState } from "./state.ts";

export interface SideEffect {
  /** Unique in the task, and the same in every attempt, such as the name of the item. */
  readonly id: string;
  /** What happens, such as "deploy to staging". */
  readonly description: string;
  /**
   * Finds out whether an effect that an earlier attempt claimed has happened. Resolves with its result, or with null if it has not
   * happened. Without it, such an effect is refused.
   */
  readonly verify?: () => Promise<string | null>;
}

type Entry = NonNullable<WorkState["execution_state"]["side_effects"]>[number];

export interface LedgerParts {
  readonly state: WorkState;
  readonly agentId: string;
  readonly now: () => string;
  /** Commits the state of the work; throws if it cannot be committed now. */
  readonly commit: (details: string) => Promise<void>;
}

/** The effects in progress in this process, by the state of their work. */
const inProgress = new WeakMap<WorkState, Map<string, Promise<string | undefined>>>();

/**
 * Performs a side effect once per task. Returns the result of an effect that is completed already, without performing it again; calls at
 * the same time share one. Throws CONFLICT for an effect that may have happened and has no `verify`.
 */
export async function performOnce(
  parts: LedgerParts,
  effect: SideEffect,
  act: () => Promise<string | undefined>,
): Promise<string | undefined> {
  const effects = inProgress.get(parts.state) ?? new Map<string, Promise<string | undefined>>();
  inProgress.set(parts.state, effects);
  // A second call would find the claim of the first, learn from `verify` that nothing has happened yet, and perform it too.
  const performed = effects.get(effect.id) ?? perform(parts, effect, act);
  effects.set(effect.id, performed);
  try {
    return await performed;
  } finally {
    effects.delete(effect.id);
  }
}

async function perform(
  { state, agentId, now, commit }: LedgerParts,
  { id, description, verify }: SideEffect,
  act: () => Promise<string | undefined>,
): Promise<string | undefined> {
  const work = state.execution_state;
  work.side_effects ??= [];
  const entries = work.side_effects;
  const known = entries.find((one) => one.id === id);
  if (known?.state === "completed") return known.result;
  if (known !== undefined) {
    if (verify === undefined) throw uncertain(known);
    const result = await verify();
    if (result !== null) return complete(known, result);
  }
  const entry: Entry = known ?? { id, description, state: "claimed" };
  if (known === undefined) entries.push(entry);
  Object.assign(entry, { agent_id: agentId, claimed_at: now() });
  try {
    await commit(`before the side effect ${id}`);
  } catch (error) {
    // Without a committed claim the effect does not happen.
    if (known === undefined) entries.splice(entries.indexOf(entry), 1);
    throw error;
  }
  // An error leaves the claim: a request that timed out may have arrived.
  return complete(entry, await act());

  async function complete(done: Entry, result: string | undefined): Promise<string | undefined> {
    Object.assign(done, { state: "completed", completed_at: now(), ...(result !== undefined && { result }) });
    await commit(`after the side effect ${id}`);
    return result;
  }
}

function uncertain({ id, description, agent_id, claimed_at }: Entry): FleetError {
  return new FleetError("CONFLICT", "the side effect may have happened: verify it before it is repeated", {
    fields: [{ path: "side_effect.verify", expected: "a function that finds out whether it has happened" }],
    details: { id, description, agent_id: agent_id ?? null, claimed_at: claimed_at ?? null },
  });
}
