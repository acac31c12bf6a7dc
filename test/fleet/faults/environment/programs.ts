/** The shapes and programs of the fleet under test: the parameters and the environment of each of its processes. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { projectRoot } from "../../../harness/project-root.ts";
import type { AgentGroupArguments, Progress } from "../agents/agent-group.ts";
import type { AgentsArguments } from "../agents/agents.ts";
import type { TakersArguments } from "../agents/takers.ts";
import type { RoundAccess } from "../upgrade/access.ts";
import type { DispatcherArguments, TaskStarted } from "../workers/dispatcher.ts";
import type { LaunchedAgentArguments } from "../workers/launched-agent.ts";
import { HEALTHY as HEALTHY_TYPE, LAUNCHED, WORKER } from "../workers/task-kinds.ts";
import type { DamageRequest, WorkersArguments } from "../workers/workers.ts";
import type { BrokenName } from "./broken-builds.ts";
import { POLICY } from "./policy.ts";
import type { ProcessOptions } from "./process.ts";
import type { RoundFolders } from "./round-folders.ts";
import type { ServiceArguments } from "./service.ts";
import type { Role } from "./service-role.ts";

export const SHAPES = {
  alone: [["all-in-one", ["writer", "reader", "coordinator", "watchdog"]]],
  several: [
    ["writer-1", ["writer"]],
    ["writer-2", ["writer"]],
    ["reader-1", ["reader"]],
    ["reader-2", ["reader"]],
    ["coordinator-1", ["coordinator"]],
    ["coordinator-2", ["coordinator"]],
    ["watchdog-1", ["watchdog"]],
    ["watchdog-2", ["watchdog"]],
  ],
  /** Of each service with requests of agents there are two, so that one works while the other is replaced. */
  rolling: [
    ["reader-1", ["reader"]],
    ["reader-2", ["reader"]],
    ["watchdog-1", ["watchdog"]],
    ["coordinator-1", ["coordinator"]],
    ["writer-1", ["writer"]],
    ["writer-2", ["writer"]],
  ],
} as const satisfies Record<string, readonly (readonly [string, readonly Role[]])[]>;
export type Shape = keyof typeof SHAPES;

export interface FleetOptions {
  readonly shape: Shape;
  readonly folders: RoundFolders;
  readonly storeUrl: string;
  /** The number of servers of the bus. */
  readonly busServers: number;
  readonly seed: number;
  readonly broken: BrokenName | null;
  /** Whether retention and operators remove checkpoints. */
  readonly retention: boolean;
  /** The folder of the tree from which processes are upgraded; null: all are of this tree. */
  readonly oldTree: string | null;
  /** The time in which processes are killed at kill points; 0: no such kills. */
  readonly killsMs: number;
  readonly onProgress: (progress: Progress) => void;
}

const RUNNER_PROGRAM = "test/fleet/faults/workers/runner.ts";
const LAUNCHED_PROGRAM = "test/fleet/faults/workers/launched-agent.ts";
const AGENTS_EACH = 4;
const WORKERS_EACH = 5;
const HEALTHY = 4;
/** The shortest interval: removals all the time. */
const RETENTION_EVERY = "1s";

export interface FleetSetup extends FleetOptions {
  readonly killsUntil: number;
  readonly policyFile: string;
  readonly streamBytes: number;
  readonly onKillPoint: (point: string) => void;
  /** undefined: the bus needs no credentials. */
  readonly access: RoundAccess | undefined;
}

export type Program = (
  o: FleetSetup,
  its: {
    readonly name: string;
    readonly seed: number;
    readonly url: string;
    /** The folder of the tree of the program, and of the SDK of its agents. Default: this tree. */
    readonly tree?: string | undefined;
  },
) => ProcessOptions;

/** The environment of every service. */
const serviceEnvironment = (
  { storeUrl, retention, policyFile, folders, access }: FleetSetup,
  url: string,
): Record<string, string> => ({
  FLEET_URL: url,
  FLEET_STORE: storeUrl,
  ...(access === undefined && { FLEET_AUTH: "off" }),
  FLEET_POLICY: policyFile,
  FLEET_SIGNING_KEY: folders.signingKey,
  FLEET_AGENT_TYPES: [WORKER, HEALTHY_TYPE, LAUNCHED].join(),
  // Short, so that a round has many finalizations by the fleet itself.
  FLEET_FINALIZE_DRAFTS_AFTER: "3s",
  FLEET_RETENTION_EVERY: retention ? RETENTION_EVERY : "off",
  // It would restore the checkpoints that the run damages, and no agent would have to fall back.
  FLEET_MIRROR_DIR: "off",
  FLEET_LOG_LEVEL: "warn",
});

/** The settings with the credentials of a service. A gateway acts for the holders of its API keys. */
function credentialsOf(service: Role | "gateway" | "signer", access: RoundAccess | undefined) {
  if (access === undefined || service === "gateway") return {};
  return {
    FLEET_NATS_CREDS: join(access.files, `${service}.creds`),
    ...(service === "signer" && {
      FLEET_SIGNER_KEYS: join(access.files, "signer.keys"),
      FLEET_SIGNER_CONFIG: join(access.files, "signer.json"),
    }),
  };
}

/** A process as operators start it: the program of a service, which reports at its operations port when it is ready. */
export const mainProcess =
  (
    service: Role | "gateway" | "signer",
    opsPort: number,
    more: Readonly<Record<string, string>> = {},
  ): Program =>
  (o, { name, url, tree }) => ({
    name,
    program: `services/${service}/main.ts`,
    ...(tree !== undefined && { tree }),
    parameters: () => ({}),
    readyUrl: `http://127.0.0.1:${opsPort}/readyz`,
    env: {
      ...serviceEnvironment(o, url),
      ...credentialsOf(service, o.access),
      FLEET_OPS_PORT: String(opsPort),
      ...more,
    },
    logFile: join(o.folders.logs, `${name}.log`),
  });

export const serviceProcess =
  (roles: readonly Role[]): Program =>
  (o, { name, seed, url }) => ({
    name,
    program: "test/fleet/faults/environment/service.ts",
    parameters: (incarnation): ServiceArguments => ({
      roles,
      seed: seed + incarnation,
      broken: o.broken,
      streamBytes: o.streamBytes,
      killsUntil: o.killsUntil,
    }),
    env: { ...serviceEnvironment(o, url), FLEET_OPS_PORT: "0" },
    logFile: join(o.folders.logs, `${name}.log`),
    onKillPoint: o.onKillPoint,
  });

const groupProcess = <A extends AgentGroupArguments>(
  { folders, onProgress, onKillPoint, access }: FleetSetup,
  { name, seed, url, tree }: Parameters<Program>[1],
  own: {
    readonly program: string;
    readonly further: Omit<A, keyof AgentGroupArguments>;
    readonly onMessage?: (message: unknown) => void;
  },
): ProcessOptions => ({
  name,
  program: own.program,
  parameters: (incarnation) => ({
    name,
    incarnation,
    seed: seed + 17 * incarnation,
    url,
    historyFolder: folders.history,
    spoolFolder: join(folders.data, "spool"),
    ...(tree !== undefined && { sdkTree: tree }),
    ...(access !== undefined && { keysFolder: access.keys }),
    ...own.further,
  }),
  env: {},
  logFile: join(folders.logs, `${name}.log`),
  onMessage: (message) => {
    if ((message as Partial<Progress>).done !== undefined) onProgress(message as Progress);
    else own.onMessage?.(message);
  },
  onKillPoint,
});

export const agentProcess =
  (beganAt: number): Program =>
  (o, its) =>
    groupProcess<AgentsArguments>(o, its, {
      program: "test/fleet/faults/agents/agents.ts",
      further: { agents: AGENTS_EACH, beganAt, patient: o.oldTree !== null },
    });

export const operatorProcess: Program = (o, its) =>
  groupProcess<AgentGroupArguments>(o, its, {
    program: "test/fleet/faults/operators/operators.ts",
    further: {},
  });

export const takerProcess: Program = (o, its) =>
  groupProcess<TakersArguments>(o, its, {
    program: "test/fleet/faults/agents/takers.ts",
    further: { killsUntil: o.killsUntil, firstCheckpointMs: POLICY.defaults.first_checkpoint_ms },
  });

export const workerProcess =
  (damage: (name: string, request: DamageRequest["damage"]) => Promise<void>): Program =>
  (o, its) =>
    groupProcess<WorkersArguments>(o, its, {
      program: "test/fleet/faults/workers/workers.ts",
      further: { workers: WORKERS_EACH, killsUntil: o.killsUntil },
      onMessage: (message) => void damage(its.name, (message as DamageRequest).damage),
    });

export const dispatcherProcess =
  (has: Pick<DispatcherArguments, "canDamage" | "hasRunner">, started: Set<string>): Program =>
  (o, its) =>
    groupProcess<DispatcherArguments>(o, its, {
      program: "test/fleet/faults/workers/dispatcher.ts",
      // An upgrade starts many processes, and its load may be smaller.
      further: { healthy: HEALTHY, open: o.oldTree === null ? 2 * WORKERS_EACH : WORKERS_EACH, ...has },
      onMessage: (message) => started.add((message as TaskStarted).started),
    });

const LAUNCHED_MAX = 3;

/** The runner with the program of its agents, which it starts for each task. */
export const runnerProcess: Program = (o, its) => {
  const { folders, killsUntil, access } = o;
  const folder = join(folders.data, "runner");
  const parameters: LaunchedAgentArguments = {
    ...{ seed: its.seed, historyFolder: folders.history, killsUntil },
    ...(its.tree !== undefined && { sdkTree: its.tree }),
  };
  const command = [process.execPath, join(projectRoot, LAUNCHED_PROGRAM), JSON.stringify(parameters)];
  const agents = { [LAUNCHED]: { command, heartbeats: false, max_agents: LAUNCHED_MAX } };
  const settings = join(folders.root, "runner.json");
  writeFileSync(settings, JSON.stringify({ agents, max_agents: LAUNCHED_MAX, grace_ms: 5_000 }));
  const { env, ...rest } = groupProcess<AgentGroupArguments>(o, its, {
    program: RUNNER_PROGRAM,
    further: {},
  });
  return {
    ...rest,
    env: {
      ...env,
      ...(access !== undefined && { FLEET_NATS_CREDS: join(access.files, "runner.creds") }),
      FLEET_URL: its.url,
      FLEET_RUNNER_CONFIG: settings,
      FLEET_RUNNER_DIR: folder,
      FLEET_RUNNER_NAME: its.name,
      FLEET_SPOOL_DIR: join(folders.data, "spool"),
      FLEET_OPS_PORT: "0",
      FLEET_LOG_LEVEL: "warn",
    },
  };
};
