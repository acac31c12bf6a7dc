// A FoundationDB server in a container of its own, by the `docker` program: four commands need no library. The port
// inside must be the one outside, because the server tells its clients where it is.
import { execFile, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { promisify } from "node:util";
import { type Guard, whenThisProcessEnds } from "../processes/orphan-guard.ts";
import { CLI_TIMEOUT_S, type Machine } from "./foundationdb-machine.ts";

const IMAGE = "foundationdb/foundationdb:7.3.63";
const ENGINE_MS = 5_000;
const run = promisify(execFile);

async function docker(...args: string[]): Promise<string> {
  const { stdout } = await run("docker", args, { maxBuffer: 16_000_000 });
  return stdout;
}

/** Why no container can be started, in a few words. */
export async function missingDocker(): Promise<string | undefined> {
  try {
    await run("docker", ["info", "--format", "{{.ServerVersion}}"], { timeout: ENGINE_MS });
    return undefined;
  } catch {
    return "no Docker engine";
  }
}

export function containerMachine(port: number): Machine {
  const name = `fleet-fdb-${randomUUID()}`;
  let guard: Guard | undefined;
  const now = (...args: string[]) => void spawnSync("docker", args, { stdio: "ignore" });
  return {
    connection: `docker:docker@127.0.0.1:${port}`,
    async start() {
      if (guard !== undefined) return void (await docker("start", name));
      guard = whenThisProcessEnds('docker rm --force --volumes "$1"', name);
      const env = ["--env", `FDB_PORT=${port}`, "--env", "FDB_NETWORKING_MODE=host"];
      const published = `127.0.0.1:${port}:${port}`;
      await docker("run", "--detach", "--name", name, "--publish", published, ...env, IMAGE);
    },
    async kill() {
      await docker("kill", name).catch(() => {}); // it may be down already
    },
    remove: async () => guard?.run(),
    pause: () => now("pause", name),
    continue: () => now("unpause", name),
    cli: (command) => docker("exec", name, "fdbcli", "--exec", command, "--timeout", CLI_TIMEOUT_S),
    version: () => docker("exec", name, "fdbserver", "--version"),
  };
}
