/** Services as separate processes, as they run in a cluster. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { connect, type FleetClient } from "../../../shared/sdk/sdk.ts";
import { projectRoot } from "../project-root.ts";
import { pauseProcess } from "./pause.ts";

export type Role = "writer" | "reader" | "coordinator" | "watchdog" | "runner" | "signer" | "gateway";

export interface TestService {
  readonly role: Role;
  readonly pid: number;
  /** Resolves when the process has ended, with the signal that ended it. */
  readonly ended: Promise<NodeJS.Signals | null>;
  /** Sends SIGKILL; resolves when the process has ended. */
  kill9(): Promise<void>;
  /** Sends SIGSTOP; returns when the process is stopped. */
  pause(): void;
  resume(): void;
  /** Sends SIGTERM; resolves with the exit code. */
  terminate(): Promise<number | null>;
  /** The text that the process has written so far. */
  output(): string;
}

export interface ServiceUrls {
  readonly busUrl: string;
  readonly storeUrl: string;
}

/** The environment variables of a service that uses this bus and this store. */
export const environmentOf = ({ busUrl, storeUrl }: ServiceUrls) => ({
  FLEET_URL: busUrl,
  FLEET_STORE: storeUrl,
  FLEET_AUTH: "off",
});

interface StartOptions {
  /** Default: the service's own main.ts. */
  readonly program?: string;
  /** Whether to wait until the service serves. Default: true. A service that is killed during its start never serves. */
  readonly untilServing?: boolean;
}

/** Resolves when the service serves; throws with its output when it ends instead. */
export async function startService(
  role: Role,
  env: NodeJS.ProcessEnv,
  { program = `services/${role}/main.ts`, untilServing = true }: StartOptions = {},
): Promise<TestService> {
  const child = spawn(process.execPath, [program], {
    cwd: projectRoot,
    env: { ...process.env, FLEET_OPS_PORT: "0", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  const started = Promise.withResolvers<void>();
  const collect = (chunk: Buffer): void => {
    output += chunk.toString();
    if (output.includes(`${role} started`)) started.resolve();
  };
  child.stdout.on("data", collect);
  child.stderr.on("data", collect);
  child.once("exit", (code) => started.reject(new Error(`the ${role} ended with ${code}:\n${output}`)));
  const ended = once(child, "exit").then(([, signal]) => signal as NodeJS.Signals | null);
  if (untilServing) await started.promise;
  else started.promise.catch(() => {});
  return {
    role,
    pid: child.pid as number,
    ended,
    kill9: async () => void (await end(child, "SIGKILL")),
    pause: () => pauseProcess(child.pid as number),
    resume: () => void child.kill("SIGCONT"),
    terminate: () => {
      // A stopped process would not handle SIGTERM.
      child.kill("SIGCONT");
      return end(child, "SIGTERM");
    },
    output: () => output,
  };
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
  const exited = once(child, "exit");
  child.kill(signal);
  const [code] = (await exited) as [number | null];
  return code;
}

export function connectClient({ busUrl }: ServiceUrls, agentId: string): Promise<FleetClient> {
  return connect({ url: busUrl, agentId, fallback: "none", onWarning: () => {} });
}
