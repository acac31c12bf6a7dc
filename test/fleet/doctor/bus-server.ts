// A nats-server whose settings a test changes between two starts, on the same ports.

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { vi } from "vitest";
import { findNatsServer } from "../../../deploy/local/nats-binary.mjs";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { freePort } from "../../harness/free-port.ts";
import { projectRoot } from "../../harness/project-root.ts";

interface BusSettings {
  readonly host?: string;
  readonly syncAlways?: boolean;
}

export interface BusServer {
  readonly url: string;
  readonly monitorUrl: string;
  /** Resolves when the server answers. */
  start(settings?: BusSettings): Promise<void>;
  kill9(): Promise<void>;
  remove(): Promise<void>;
}

export async function prepareBusServer(): Promise<BusServer> {
  const found = findNatsServer({ root: projectRoot });
  if ("problem" in found) throw new Error(found.problem);
  const dir = mkdtempSync(join(tmpdir(), "fleet-bus-"));
  const [port, monitorPort] = [await freePort(), await freePort()];
  const monitorUrl = `http://127.0.0.1:${monitorPort}`;
  let running: ChildProcess | undefined;
  const server: BusServer = {
    url: `nats://127.0.0.1:${port}`,
    monitorUrl,
    async start({ host = "127.0.0.1", syncAlways = true } = {}) {
      const path = join(dir, "nats.conf");
      const sync = syncAlways ? ", sync_interval: always" : "";
      writeFileSync(
        path,
        [
          `server_name: "doctor-bus"`,
          `listen: "${host}:${port}"`,
          `http: "127.0.0.1:${monitorPort}"`,
          `max_payload: ${LIMITS.message_bytes_max}`,
          `jetstream { store_dir: "${dir}", max_file_store: 64GiB${sync} }\n`,
        ].join("\n"),
      );
      running = spawn(found.path, ["-c", path], { stdio: process.env.FLEET_TEST_LOG ? "inherit" : "ignore" });
      await vi.waitFor(async () => {
        if (!(await fetch(new URL("/healthz", monitorUrl))).ok) throw new Error("not ready");
      }, 20_000);
    },
    async kill9() {
      if (running === undefined || running.exitCode !== null) return;
      const exited = once(running, "exit");
      running.kill("SIGKILL");
      running = undefined;
      await exited;
    },
    async remove() {
      await server.kill9();
      rmSync(dir, { recursive: true, force: true });
    },
  };
  return server;
}
