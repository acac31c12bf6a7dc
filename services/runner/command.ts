/** From an agent type's settings and one agent's facts to what is started: arguments and environment, never a line for a shell. */
import { resolve } from "node:path";
import type { Placeholder, RunnerAgent } from "../../shared/protocol/runner-settings.ts";
import { traceparentKey } from "../../shared/runtime/observability/trace-context.ts";
import type { AgentPaths, AgentRecord } from "./journal.ts";
import type { LaunchSpec } from "./launchers/launcher.ts";
import { agentInvocation } from "./profiles.ts";

export interface LaunchContext {
  readonly url: string;
  /** Where agents keep commands while there is no bus. */
  readonly spoolDir: string;
  readonly logBytes: number;
  /** The runner's own environment, which its agents inherit but for its settings. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** Settings of a process of Fleet are its own; and what one agent was told must not reach the next. */
const INHERITED = (name: string): boolean => !name.startsWith("FLEET_") && name !== "TRACEPARENT";

export function launchSpec(
  record: AgentRecord,
  agent: RunnerAgent,
  paths: AgentPaths,
  context: LaunchContext,
): LaunchSpec {
  const values = valuesOf(record, paths, context);
  const calling = agentInvocation(agent);
  const ofProfile = Object.entries(agent.env).map(([name, value]) => [name, filled(value, values)]);
  const inherited = Object.entries(context.env).filter(
    ([name, value]) => value !== undefined && INHERITED(name),
  );
  return {
    name: record.agent_id,
    agentType: record.agent_type,
    folder: paths.folder,
    argv: calling.command.map((part) => filled(part, values)),
    env: {
      ...(agent.launcher === "kubernetes" ? {} : (Object.fromEntries(inherited) as Record<string, string>)),
      ...Object.fromEntries(ofProfile),
      ...fleetEnv(record, paths, context),
    },
    cwd: resolve(filled(agent.cwd ?? ".", values)),
    prompt: { channel: calling.prompt, path: paths.prompt },
    logBytes: context.logBytes,
  };
}

function fleetEnv(
  record: AgentRecord,
  paths: AgentPaths,
  { url, spoolDir }: LaunchContext,
): Record<string, string> {
  return {
    FLEET_URL: url,
    FLEET_SPOOL_DIR: spoolDir,
    FLEET_TENANT: record.tenant,
    FLEET_AGENT_ID: record.agent_id,
    FLEET_AGENT_TYPE: record.agent_type,
    FLEET_TASK: record.task_id,
    FLEET_FENCE: String(record.fence ?? 0),
    FLEET_HANDOFF: record.handoff_id,
    FLEET_CHECKPOINT: record.checkpoint_id,
    FLEET_PROMPT_FILE: paths.prompt,
    FLEET_EXIT_FILE: paths.word,
    ...(record.traceparent !== null && { [traceparentKey.toUpperCase()]: record.traceparent }),
  };
}

function valuesOf(
  record: AgentRecord,
  { folder, prompt }: AgentPaths,
  { url }: LaunchContext,
): Readonly<Record<Placeholder, string>> {
  return {
    agent_id: record.agent_id,
    agent_type: record.agent_type,
    checkpoint_id: record.checkpoint_id,
    fence: String(record.fence ?? 0),
    folder,
    handoff_id: record.handoff_id,
    prompt_file: prompt,
    task_id: record.task_id,
    tenant: record.tenant,
    url,
  };
}

/** One pass: what a value contains is never looked at again. */
function filled(template: string, values: Readonly<Record<Placeholder, string>>): string {
  return template.replace(/\{([a-z_]+)\}/g, (found, name: string) => values[name as Placeholder] ?? found);
}
