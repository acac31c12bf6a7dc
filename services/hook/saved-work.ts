/**
 * The automatic checkpoint: what the hooks and git know of the work, on top of the agent's own last checkpoint. It exists even if the
 * model never calls a tool. The agent's own words are never replaced.
 */
import { createHash } from "node:crypto";
import type { Checkpoint, CheckpointInput, TriggerReason } from "../../shared/protocol/checkpoint.ts";
import type { AgentSession, TurnEventType } from "../../shared/protocol/turns.ts";
import { takeWorkspace } from "../../shared/sdk/workspace/snapshot.ts";
import type { HookAgent } from "./fleet-connections.ts";

/** Marks checkpoints without words of the agent. */
const LABEL = "fleet-capture";
const SHOWN_FILES = 10;
const SHOWN_COMMANDS = 5;

const REASONS: Partial<Record<TurnEventType, TriggerReason>> = {
  agent_stop: "turn_end",
  pre_compact: "compaction",
  agent_error: "error",
  session_end: "manual",
};

export interface Saved {
  readonly session: AgentSession;
  readonly event: TurnEventType;
  readonly agent: HookAgent;
  readonly latest: Checkpoint | null;
}

export async function capturedCheckpoint({ session, event, agent, latest }: Saved): Promise<CheckpointInput> {
  const { activity, folder } = session;
  const workspace =
    folder === null
      ? undefined
      : await takeWorkspace(folder, { files: activity.files }).catch(() => undefined);
  const isOwnWords = latest !== null && latest.metadata.labels?.[LABEL] === undefined;
  const { continuation_prompt: _, continuation_prompt_source: __, ...recovery } = latest?.recovery ?? {};
  return {
    metadata: {
      agent_type: agent.agentType,
      session_id: session.session_id,
      trigger: { reason: REASONS[event] ?? "manual", details: "captured from hooks and git" },
      ...(!isOwnWords && { labels: { [LABEL]: session.vendor } }),
    },
    execution_state: latest !== null && isOwnWords ? continued(latest, activity) : captured(latest, activity),
    ...(latest !== null && { context_summary: latest.context_summary }),
    metrics: metricsOf(session),
    recovery: { ...recovery, ...(workspace !== undefined && { workspace }) },
  };
}

/** The agent's words, and what was done since, as the context of the next agent. */
function continued(
  { execution_state: state }: Checkpoint,
  activity: AgentSession["activity"],
): CheckpointInput["execution_state"] {
  const pointer = state.resume_pointer;
  if (pointer === undefined) return state;
  const [own = ""] = (pointer.current_context ?? "").split(SINCE);
  const current_context = [own.trim(), `${SINCE}${summaryOf(activity)}`]
    .filter((part) => part !== "")
    .join("\n\n");
  const goal = state.goal ?? activity.goal;
  return { ...state, ...(goal !== null && { goal }), resume_pointer: { ...pointer, current_context } };
}

const SINCE = "Captured by hooks: ";

function captured(
  latest: Checkpoint | null,
  activity: AgentSession["activity"],
): CheckpointInput["execution_state"] {
  const goal = activity.goal ?? latest?.execution_state.goal;
  const request = activity.prompt ?? activity.goal;
  return {
    phase: latest?.execution_state.phase ?? "implementing",
    ...(goal !== undefined && goal !== null && { goal }),
    completed_items: completedOf(activity),
    pending_items: request === null ? [] : [`Finish the request: ${request}`],
    resume_pointer: {
      next_action:
        request === null
          ? "Read the changed files of the workspace, and compare them with the goal"
          : `Compare the changed files with the request, and do what is missing: ${request}`,
      current_context: `${SINCE}${summaryOf(activity)}`,
    },
  };
}

function completedOf({ files, commands }: AgentSession["activity"]): string[] {
  const tests = commands.filter(({ is_test, passed }) => is_test === true && passed === true);
  return [
    ...(files.length > 0 ? [`Changed ${listed(files)}`] : []),
    ...[...new Set(tests.map(({ command }) => `Ran ${command}, which passed`))],
  ];
}

function summaryOf({ files, commands, tool_calls, message }: AgentSession["activity"]): string {
  const failed = commands.filter(({ passed }) => passed === false).slice(-SHOWN_COMMANDS);
  const parts = [
    `${tool_calls} tool calls.`,
    ...(files.length > 0 ? [`Changed files: ${listed(files)}.`] : []),
    ...(commands.length > 0
      ? [
          `Last commands: ${commands
            .slice(-SHOWN_COMMANDS)
            .map(({ command }) => command)
            .join("; ")}.`,
        ]
      : []),
    ...(failed.length > 0 ? [`Failed: ${failed.map(({ command }) => command).join("; ")}.`] : []),
    ...(message !== null ? [`The agent's last words: ${message}`] : []),
  ];
  return parts.join(" ");
}

function listed(files: readonly string[]): string {
  const shown = files.slice(-SHOWN_FILES).join(", ");
  return files.length > SHOWN_FILES ? `${shown} and ${files.length - SHOWN_FILES} more` : shown;
}

function metricsOf({ activity }: AgentSession): CheckpointInput["metrics"] {
  const { files, commands, tool_calls, usage } = activity;
  const tests = commands.filter(({ is_test, passed }) => is_test === true && passed !== undefined);
  const passed = tests.filter((test) => test.passed === true).length;
  const { model, ...counts } = usage;
  const processed = ["input_tokens", "output_tokens"].map((name) => Number(counts[name] ?? 0));
  return {
    tokens_consumed: processed.reduce((sum, tokens) => sum + tokens, 0),
    tools_invoked: tool_calls,
    files_modified: [...files],
    ...(tests.length > 0 && { tests_status: { passed, failed: tests.length - passed } }),
    ...(typeof model === "string" && { model }),
    ...(counts as Record<string, number>),
  };
}

/** The same id for every attempt to save after one event: a helper that was killed in between saves once. */
export function saveCommandId({ agent_id, session_id }: AgentSession, atMs: number): string {
  const hash = createHash("sha256").update(`${agent_id}/${session_id}/${atMs}`).digest();
  const bytes = Buffer.alloc(16);
  bytes.writeUIntBE(atMs, 0, 6);
  hash.copy(bytes, 6, 0, 10);
  bytes[6] = (bytes[6]! & 0x0f) | 0x70;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = bytes.toString("hex");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}
