/** The prompt from which a session continues, and which task it continues. */
import { continuationPrompt } from "../../shared/prompts/continuation.ts";
import type { Checkpoint } from "../../shared/protocol/checkpoint.ts";
import type { AgentSession } from "../../shared/protocol/turns.ts";
import { HOOK_VENDORS } from "../../shared/sdk/hooks/vendors.ts";
import { compareWorkspace, type FleetClient } from "../../shared/sdk/sdk.ts";
import { fleetCallOf } from "./agent-shell.ts";
import type { HookEvent } from "./event.ts";
import { type HookAgent, isTrusted } from "./fleet-connections.ts";

/** Ends after which a new session in the folder continues the work: the user cleared the context, or the vendor failed. */
const CONTINUED_ENDS = /^(clear|rate_limit|overloaded|server_error|max_output_tokens)$/;

export interface SessionTask {
  readonly taskId: string;
  /** True if earlier work is to be put into the context. */
  readonly continues: boolean;
}

/** A resumed session has its whole context. */
export const isNewContext = ({ reason }: HookEvent): boolean => reason === "compact" || reason === "clear";

export function taskOf(
  event: HookEvent,
  agent: HookAgent,
  session: AgentSession,
  previous: AgentSession | null,
): SessionTask {
  const { reason, vendor } = event;
  const known = agent.taskId ?? session.task_id;
  if (known !== null && known !== undefined) {
    // A runner's agent begins with the prompt.
    return { taskId: known, continues: isNewContext(event) };
  }
  const isContinued =
    previous?.task_id != null && isTrusted(previous, agent) && isContinuable(previous, vendor, reason);
  return isContinued
    ? { taskId: previous.task_id!, continues: true }
    : { taskId: agent.agentId, continues: reason === "compact" };
}

/** Codex reports the end of a session that its user cleared only when the program ends, so the begin of the next one decides. */
function isContinuable(previous: AgentSession, vendor: string, reason: string | undefined): boolean {
  if (previous.end_reason !== null) return CONTINUED_ENDS.test(previous.end_reason);
  return reason === "clear" && previous.vendor === vendor;
}

/** undefined: the task has no checkpoint. */
export async function continuationOf(
  client: FleetClient,
  taskId: string,
  event: HookEvent,
): Promise<string | undefined> {
  const { vendor, folder } = event;
  const { checkpoint, passed_over } = await client.latest(taskId);
  if (checkpoint === null) return undefined;
  const drift = await driftOf(checkpoint, folder);
  const { text } = continuationPrompt({
    checkpoint,
    drift,
    reader: client.agentId,
    fleet: fleetCallOf(event),
    budget: HOOK_VENDORS[vendor].budget,
    passedOver: passed_over.flatMap(({ checkpoint_id }) => checkpoint_id ?? []),
    // The agent waits, and the tokenizer takes 0.3 s to load.
    tokenizer: "four_characters",
  });
  return text;
}

function driftOf({ recovery }: Checkpoint, folder: string) {
  if (recovery.workspace === undefined) return undefined;
  return compareWorkspace(recovery.workspace, folder).catch(() => undefined);
}
