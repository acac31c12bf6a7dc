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
  /** The limit of a common account of all clients, in bytes. Default: no accounts. */
  readonly accountBytes?: number | "none";
}

export interface BusServer {
  readonly url: string;
  readonly monitorUrl: string;
  /** Resolves when the server answers. */
  start(settings?: BusSettings): Promise<void>;
  /** The running server reads other settings. Not all can be changed so. */
  reload(settings: BusSettings): void;
  kill9(): Promise<void>;
  remove(): Promise<void>;
}

/** `program`: the path of another nats-server. Default: that of the project. */
export async function prepareBusServer(program?: string): Promise<BusServer> {
  const path = program ?? ownServer();
  const dir = mkdtempSync(join(tmpdir(), "fleet-bus-"));
  const [port, monitorPort] = [await freePort(), await freePort()];
  const monitorUrl = `http://127.0.0.1:${monitorPort}`;
  const file = join(dir, "nats.conf");
  let running: ChildProcess | undefined;
  const configure = ({ host = "127.0.0.1", syncAlways = true, accountBytes }: BusSettings): void => {
    const sync = syncAlways ? ", sync_interval: always" : "";
    const limit = accountBytes === "none" ? "enabled" : `{ max_file: ${accountBytes}, max_mem: 1MB }`;
    const account = [
      `accounts { FLEET { jetstream: ${limit}, users: [{ user: "fleet", password: "fleet" }] } }`,
      `no_auth_user: "fleet"`, // Clients need no credentials.
    ];
    const lines = [
      `server_name: "doctor-bus"`,
      `listen: "${host}:${port}"`,
      `http: "127.0.0.1:${monitorPort}"`,
      `max_payload: ${LIMITS.message_bytes_max}`,
      `jetstream { store_dir: "${dir}", max_file_store: 64GiB${sync} }`,
      ...(accountBytes === undefined ? [] : account),
      "",
    ];
    writeFileSync(file, lines.join("\n"));
  };
  const server: BusServer = {
    url: `nats://127.0.0.1:${port}`,
    monitorUrl,
    async start(settings = {}) {
      configure(settings);
      running = spawn(path, ["-c", file], { stdio: process.env.FLEET_TEST_LOG ? "inherit" : "ignore" });
      await vi.waitFor(async () => {
        if (!(await fetch(new URL("/healthz", monitorUrl))).ok) throw new Error("not ready");
      }, 20_000);
    },
    reload(settings) {
      configure(settings);
      running?.kill("SIGHUP");
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

function ownServer(): string {
  const found = findNatsServer({ root: projectRoot });
  if ("problem" in found) throw new Error(found.problem);
  return found.path;
}
