/** The bus under test: a real nats-server with Fleet's settings, which is killed, paused and restarted on the same port and folder. */
import { setTimeout as sleep } from "node:timers/promises";
import { needsRestart } from "../../../../services/standalone/nats/health.ts";
import { type NatsServer, startNatsServer } from "../../../../services/standalone/nats/server.ts";
import { LIMITS } from "../../../../shared/protocol/limits.ts";
import { createLogger } from "../../../../shared/runtime/observability/log.ts";
import { projectRoot } from "../../../harness/project-root.ts";

const RETRY_MS = 200;
const CHECK_EVERY_MS = 1_000;

const log = createLogger({ service: "faults", level: "silent" });

const start = (dir: string, port: number): Promise<NatsServer> =>
  startNatsServer({
    root: projectRoot,
    env: process.env,
    dir,
    log,
    port,
    maxPayloadBytes: LIMITS.message_bytes_max,
  });

/** Starts a server on a free port, with all its files in `dir`. */
export async function superviseNats(dir: string): Promise<SupervisedNats> {
  return new SupervisedNats(dir, await start(dir, -1));
}

export class SupervisedNats {
  readonly url: string;
  readonly port: number;
  /** The storage limit of the server, which determines the sizes of the streams. */
  readonly storeBytesMax: number;
  readonly #dir: string;
  readonly #checking: NodeJS.Timeout;
  readonly #watching: Promise<void>;
  #server: NatsServer;
  #isUp = true;
  #isWanted = true;
  #killed: NatsServer | undefined;
  #downMs = 0;
  #starts = 1;
  #ownEndings = 0;

  constructor(dir: string, server: NatsServer) {
    this.#dir = dir;
    this.#server = server;
    this.url = server.url;
    this.port = server.port;
    this.storeBytesMax = server.storeBytesMax;
    this.#watching = this.#watch();
    this.#checking = setInterval(() => void this.#check(), CHECK_EVERY_MS);
  }

  get starts(): number {
    return this.#starts;
  }

  /** The number of ends without a kill, including those of a server that needed a restart. */
  get ownEndings(): number {
    return this.#ownEndings;
  }

  /** Sends SIGKILL; the server is restarted after `downMs`, with retries. */
  kill(downMs: number): void {
    if (!this.#isUp) return;
    this.#killed = this.#server;
    this.#downMs = downMs;
    this.#server.kill("SIGKILL");
  }

  pause(): void {
    this.#server.kill("SIGSTOP");
  }

  resume(): void {
    this.#server.kill("SIGCONT");
  }

  async ready(timeoutMs: number): Promise<boolean> {
    const end = performance.now() + timeoutMs;
    while (!this.#isUp && performance.now() < end) await sleep(20);
    return this.#isUp;
  }

  async stop(): Promise<void> {
    this.#isWanted = false;
    clearInterval(this.#checking);
    this.resume();
    await this.#server.stop();
    await this.#watching;
    // A concurrent start may have left a new server.
    await this.#server.stop();
  }

  async #watch(): Promise<void> {
    while (this.#isWanted) {
      await this.#server.exited;
      this.#isUp = false;
      if (!this.#isWanted) return;
      if (this.#killed === this.#server) await sleep(this.#downMs);
      else this.#ownEndings += 1;
      while (this.#isWanted && !this.#isUp) await this.#restart();
    }
  }

  async #restart(): Promise<void> {
    try {
      this.#server = await start(this.#dir, this.port);
      this.#starts += 1;
      this.#isUp = true;
    } catch {
      // Its disk is full, or it reads its store slowly. A supervisor would retry.
      await sleep(RETRY_MS);
    }
  }

  /** Checks the server as the supervision of the standalone fleet does. */
  async #check(): Promise<void> {
    const server = this.#server;
    if (this.#isUp && (await needsRestart(server, this.#dir)) && this.#isUp) server.kill("SIGTERM");
  }
}
