/** The environment in which a runner starts an agent: the task that the agent already owns, and where it continues. */
import { readFileSync } from "node:fs";
import { invalid } from "../../protocol/errors.ts";
import { keptTrace, type TraceCarrier, traceparentKey } from "../../runtime/observability/trace-context.ts";
import { type Environment, integer, optional, readConfig, text } from "../../runtime/settings/config.ts";
import type { FleetClient } from "../client/client.ts";
import { clientFields } from "../client/connect.ts";
import { type Assignment, RESUME_MS } from "./assignment.ts";

export const startFields = {
  task: optional(text("FLEET_TASK", { description: "Task of an agent that a runner started" })),
  agentType: optional(
    text("FLEET_AGENT_TYPE", { description: "Agent type as which the runner started the agent" }),
  ),
  handoffId: optional(text("FLEET_HANDOFF", { description: "Handoff by which the agent got the task" })),
  checkpointId: optional(text("FLEET_CHECKPOINT", { description: "Checkpoint that was handed over" })),
  promptFile: optional(text("FLEET_PROMPT_FILE", { description: "File with the continuation prompt" })),
  exitFile: optional(
    text("FLEET_EXIT_FILE", { description: "File in which the agent may report why it ends" }),
  ),
  agentId: clientFields.agentId,
} as const;

/** Read only together with a task. */
export const fenceFields = {
  fence: integer("FLEET_FENCE", {
    min: 0,
    description: "Fence under which the agent owns the task",
    defaultNote: "required with `FLEET_TASK`",
  }),
} as const;

export interface RunnerStart {
  readonly task: string;
  readonly fence: number;
  readonly agentId: string | undefined;
  readonly agentType: string | undefined;
  readonly handoffId: string | undefined;
  readonly checkpointId: string | undefined;
  readonly promptFile: string | undefined;
  readonly exitFile: string | undefined;
  /** The trace of the handoff. */
  readonly trace: TraceCarrier;
}

/** A start is for one run of the process: later runs wait for offers. */
const usedStarts = new Set<string>();

/** null: no runner started this process for a task, or the task's run has begun before. Throws ConfigError. */
export function readRunnerStart(env: Environment): RunnerStart | null {
  const { task, ...rest } = readConfig(startFields, env);
  if (task === undefined) return null;
  const { fence } = readConfig(fenceFields, env);
  const name = `${task}/${fence}`;
  if (usedStarts.has(name)) return null;
  usedStarts.add(name);
  return { task, fence, ...rest, trace: keptTrace(env[traceparentKey.toUpperCase()]) };
}

/** Throws INVALID if the prompt cannot be read. */
export async function assignmentOf(fleet: FleetClient, start: RunnerStart): Promise<Assignment> {
  const { task: id, fence, agentId, handoffId, checkpointId, promptFile } = start;
  if (agentId !== undefined && agentId !== fleet.agentId)
    throw invalid("fleet", `a client of agent ${agentId}, which owns the task`, fleet.agentId);
  const task = fleet.task(id, { fence });
  const handoff = handoffId === undefined ? null : await fleet.handoff(handoffId, { deadlineMs: RESUME_MS });
  // An earlier start of the program has confirmed the handoff; this one continues from its newest checkpoint.
  const isConfirmed = handoff !== null && handoff.state !== "accepted";
  if (isConfirmed) return { task, offer: null, handover: null };
  const prompt = promptFile === undefined ? null : readPrompt(promptFile);
  return { task, offer: null, handover: { checkpointId, prompt, handoff } };
}

function readPrompt(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    throw invalid("FLEET_PROMPT_FILE", "a file that can be read", (error as NodeJS.ErrnoException).code);
  }
}
