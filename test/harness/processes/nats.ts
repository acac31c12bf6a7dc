// A real nats-server for one test file, on a random port, with its own folder and with the settings that Fleet uses. It can be
// killed, paused and restarted on the same port. Without a server the tests fail and name the command to run; they never skip.

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type NatsServer,
  type NatsServerOptions,
  startNatsServer,
} from "../../../services/standalone/nats/server.ts";
import { createLogger, type Logger } from "../../../shared/runtime/observability/log.ts";
import { projectRoot } from "../project-root.ts";
import { pauseProcess } from "./pause.ts";

export interface TestNats {
  readonly url: string;
  readonly monitorUrl: string | undefined;
  readonly dir: string;
  /** Sends SIGKILL, so that the server cannot clean up; resolves when the process has ended. */
  kill9(): Promise<void>;
  /** Starts the server with the same port and folder; stops a running server first. */
  restart(): Promise<void>;
  pause(): void;
  resume(): void;
  stop(): Promise<void>;
}

/** FLEET_TEST_LOG=debug shows the logs of the parts under test. */
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
