// A real nats-server for one test file: on a random port, with its own folder, with the settings that Fleet runs with. It can be
// killed, paused and brought back on the same port. Without a server the tests fail and say what to run; they never skip.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type NatsServer,
  type NatsServerOptions,
  startNatsServer,
} from "../../../services/standalone/nats-server.ts";
import { createLogger, type Logger } from "../../../shared/runtime/observability/log.ts";
import { pauseProcess } from "./pause.ts";

export interface TestNats {
  readonly url: string;
  readonly monitorUrl: string | undefined;
  readonly dir: string;
  /** Resolves when the process is gone, without any chance to clean up. */
  kill9(): Promise<void>;
  /** On the same port and folder; stops the running server first, if there is one. */
  restart(): Promise<void>;
  pause(): void;
  resume(): void;
  stop(): Promise<void>;
}

export const projectRoot = new URL("../../..", import.meta.url).pathname;

/** FLEET_TEST_LOG=debug shows what the parts under test write to their logs. */
export const testLog: Logger = createLogger({
  service: "test",
  level: (process.env.FLEET_TEST_LOG as "debug" | undefined) ?? "silent",
});

export async function startNats(options: Partial<NatsServerOptions> = {}): Promise<TestNats> {
  const external = process.env.FLEET_TEST_NATS_URL;
  if (external) return externalNats(external);
  const dir = await mkdtemp(join(tmpdir(), "fleet-nats-"));
  const start = (port: number) =>
    startNatsServer({ root: projectRoot, env: process.env, dir, log: testLog, ...options, port });
  let server: NatsServer = await start(options.port ?? -1);
  const { url, port } = server;
  const stopServer = async () => {
    server.kill("SIGCONT");
    await server.stop();
  };
  return {
    url,
    dir,
    get monitorUrl() {
      return server.monitorUrl;
    },
    async kill9() {
      server.kill("SIGKILL");
      await server.exited;
    },
    async restart() {
      await stopServer();
      server = await start(port);
    },
    pause() {
      pauseProcess(server.pid);
    },
    resume: () => server.kill("SIGCONT"),
    async stop() {
      await stopServer();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

function externalNats(url: string): TestNats {
  const refuse = (): never => {
    throw new Error("this test kills its server: run it without FLEET_TEST_NATS_URL");
  };
  return {
    url,
    monitorUrl: undefined,
    dir: "",
    kill9: refuse,
    restart: refuse,
    pause: refuse,
    resume: refuse,
    stop: async () => {},
  };
}
