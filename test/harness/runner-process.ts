/** A real runner in a process of its own, beside a fleet, in a folder of its own within the fleet's. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { projectRoot, type TestFleet } from "./fleet.ts";

export const EXAMPLE = [process.execPath, join(projectRoot, "deploy/examples/agent.ts")];

export interface RunnerProcess {
  readonly child: ChildProcess;
  /** SIGTERM; resolves with the exit code. */
  stop(): Promise<number | null>;
}

/** Resolves when it takes offers. `agents`: as in the runner's file. */
export async function startRunner(
  fleet: TestFleet,
  agents: Record<string, object>,
  env: Record<string, string> = {},
): Promise<RunnerProcess> {
  const folder = join(fleet.home, "runner");
  mkdirSync(folder, { recursive: true });
  const settings = join(folder, "settings.json");
  writeFileSync(settings, JSON.stringify({ grace_ms: 10_000, agents }));
  const child = spawn(process.execPath, ["services/runner/main.ts"], {
    cwd: projectRoot,
    env: {
      ...process.env,
      FLEET_URL: fleet.url,
      FLEET_HOME: fleet.home,
      FLEET_OPS_PORT: "0",
      FLEET_RUNNER_CONFIG: settings,
      FLEET_RUNNER_DIR: folder,
      ...env,
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let output = "";
  const started = Promise.withResolvers<void>();
  child.stdout.on("data", (chunk: Buffer) => {
    output += chunk.toString();
    if (output.includes("runner started")) started.resolve();
  });
  child.once("exit", (code) => started.reject(new Error(`the runner ended with ${code}:\n${output}`)));
  await started.promise;
  return {
    child,
    async stop() {
      if (child.exitCode === null && child.signalCode === null) {
        const exited = once(child, "exit");
        child.kill("SIGTERM");
        await exited;
      }
      return child.exitCode;
    },
  };
}
