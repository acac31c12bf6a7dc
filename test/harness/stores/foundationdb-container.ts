// A FoundationDB server in its own container, started with the `docker` program: four commands need no library. The port
// inside and outside must be the same, because the server sends its address to its clients.
import { execFile, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { promisify } from "node:util";
import { type Guard, whenThisProcessEnds } from "../processes/orphan-guard.ts";
import { CLI_TIMEOUT_S, type FoundationdbMachine } from "./foundationdb-machine.ts";

const IMAGE = "foundationdb/foundationdb:7.3.63";
const ENGINE_MS = 5_000;
const run = promisify(execFile);

async function docker(...args: string[]): Promise<string> {
  const { stdout } = await run("docker", args, { maxBuffer: 16_000_000 });
  return stdout;
}

/** The reason why no container can be started, in a few words. */
export async function missingDocker(): Promise<string | undefined> {
  try {
    await run("docker", ["info", "--format", "{{.ServerVersion}}"], { timeout: ENGINE_MS });
    return undefined;
  } catch {
    return "no Docker engine";
  }
}

export function containerMachine(port: number): FoundationdbMachine {
  const name = `fleet-fdb-${randomUUID()}`;
  let guard: Guard | undefined;
  const runSync = (...args: string[]) => void spawnSync("docker", args, { stdio: "ignore" });
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
    pause: () => runSync("pause", name),
    continue: () => runSync("unpause", name),
    cli: (command) => docker("exec", name, "fdbcli", "--exec", command, "--timeout", CLI_TIMEOUT_S),
    version: () => docker("exec", name, "fdbserver", "--version"),
  };
}
