/** The launch specification of an agent, from the settings of its type and its record: arguments and environment, never a shell line. */
import { resolve } from "node:path";
import type { Placeholder, RunnerAgent } from "../../shared/protocol/runner-settings.ts";
import { traceparentKey } from "../../shared/runtime/observability/trace-context.ts";
import { SPOOL_KEY } from "../../shared/sdk/spool/seal.ts";
import type { AgentPaths, AgentRecord } from "./journal.ts";
import type { LaunchSpec } from "./launchers/launcher.ts";
import { agentInvocation, resumeCommand } from "./profiles.ts";

export interface LaunchContext {
  readonly url: string;
  /** The file with the certificates that may sign the bus's own. undefined: those of the system. */
  readonly caFile?: string | undefined;
  /** The folder of the agents' spools. */
  readonly spoolDir: string;
  readonly logBytes: number;
  /** True if the runner keeps a file with credentials for the agent. */
  readonly hasCredentials: boolean;
  /** The runner's own environment. Its agents inherit it without the runner's settings. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** The settings of a fleet process and the variables of one agent must not reach another agent. */
const isInherited = (name: string): boolean => !name.startsWith("FLEET_") && name !== "TRACEPARENT";

export function launchSpec(
  record: AgentRecord,
  agent: RunnerAgent,
  paths: AgentPaths,
  context: LaunchContext,
): LaunchSpec {
  const values = valuesOf(record, paths, context);
  const invocation = agentInvocation(agent);
  const isPod = agent.launcher === "kubernetes";
  // A pod gets the prompt itself as a file, and the message in its command.
  const isStart = invocation.hasSystemPrompt && !isPod;
  const ca = context.caFile === undefined ? undefined : resolve(context.caFile);
  const configured = Object.entries(agent.env).map(([name, value]) => [name, filled(value, values)]);
  const inherited = Object.entries(context.env).filter(
    ([name, value]) => value !== undefined && isInherited(name),
  );
  return {
    name: record.agent_id,
    agentType: record.agent_type,
    folder: paths.folder,
    argv: invocation.command.map((part) => filled(part, values)),
    resumeArgv: resumeCommand(agent).map((part) => filled(part, values)),
    env: {
      ...(isPod ? {} : (Object.fromEntries(inherited) as Record<string, string>)),
      // What the agent's client and hooks keep on this machine is sealed like the runner's own files.
      ...(isPod ? {} : spoolKeysIn(context.env)),
      ...Object.fromEntries(configured),
      ...fleetEnv(record, paths, context),
      // An agent trusts the same bus. It does not get the key of the runner's own certificate. A pod has other paths.
      ...(ca !== undefined && !isPod && { FLEET_NATS_CA: ca }),
      ...(context.hasCredentials && !isPod && { FLEET_NATS_CREDS: paths.credentials }),
    },
    cwd: resolve(filled(agent.cwd ?? ".", values)),
    prompt: { channel: invocation.prompt, path: isStart ? paths.startMessage : paths.prompt },
    logBytes: context.logBytes,
    ...(context.hasCredentials && { access: { credentials: paths.credentials, ca } }),
  };
}

/** The setting of the keys of this machine, and the variables in which they are. */
function spoolKeysIn(env: LaunchContext["env"]): Record<string, string> {
  const sources = (env[SPOOL_KEY] ?? "").split(",").map((source) => source.trim());
  const names = sources.flatMap((source) => (source.startsWith("env:") ? source.slice("env:".length) : []));
  return Object.fromEntries(
    [SPOOL_KEY, ...names].flatMap((name) => {
      const value = env[name];
      return value === undefined ? [] : [[name, value] as const];
    }),
  );
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
    FLEET_EXIT_FILE: paths.exitNote,
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

/** One pass: placeholders in a filled-in value stay as they are. */
function filled(template: string, values: Readonly<Record<Placeholder, string>>): string {
  return template.replace(/\{([a-z_]+)\}/g, (found, name: string) => values[name as Placeholder] ?? found);
}
