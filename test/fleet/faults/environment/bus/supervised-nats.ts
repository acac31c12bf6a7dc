/** One server of the bus under test, with Fleet's settings, which is killed, paused and restarted on the same port and folder. */
import { setTimeout as sleep } from "node:timers/promises";
import { natsHealth } from "../../../../../services/standalone/nats/health.ts";
import type { NatsServer } from "../../../../../services/standalone/nats/server.ts";

const RETRY_MS = 200;
const CHECK_EVERY_MS = 1_000;
const HEALTH_MS = 1_000;

export type RunningServer = Pick<
  NatsServer,
  "url" | "port" | "monitorUrl" | "storeBytesMax" | "kill" | "stop"
> & { readonly exited: Promise<unknown> };

export interface SupervisedNatsOptions {
  readonly name: string;
  /** The folder of its files. */
  readonly dir: string;
  /** Starts the server again, on the same port. */
  readonly restart: () => Promise<RunningServer>;
}

export class SupervisedNats {
  readonly name: string;
  readonly url: string;
  readonly port: number;
  readonly #options: SupervisedNatsOptions;
  readonly #checking: NodeJS.Timeout;
  readonly #watching: Promise<void>;
  #server: RunningServer;
  #isUp = true;
  #isWanted = true;
  #killed: RunningServer | undefined;
  #downMs = 0;
  #starts = 1;
  #ownEndings = 0;

  constructor(server: RunningServer, options: SupervisedNatsOptions) {
    this.#options = options;
    this.#server = server;
    this.name = options.name;
    this.url = server.url;
    this.port = server.port;
    this.#watching = this.#watch();
    this.#checking = setInterval(() => void this.#check(), CHECK_EVERY_MS);
  }

  /** The storage limit of the server, which determines the sizes of the streams. */
  get storeBytesMax(): number {
    return this.#server.storeBytesMax;
  }

  get monitorUrl(): string {
    return this.#server.monitorUrl;
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

  /** Whether the server runs and has all messages of its streams. */
  async isHealthy(): Promise<boolean> {
    if (!this.#isUp) return false;
    try {
      const url = new URL("/healthz", this.monitorUrl);
      return (await fetch(url, { signal: AbortSignal.timeout(HEALTH_MS) })).ok;
    } catch {
      return false;
    }
  }

  get isUp(): boolean {
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
      this.#server = await this.#options.restart();
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
    if (!this.#isUp) return;
    const health = await natsHealth(server, this.#options.dir);
    if (health === "restart" && this.#isUp) server.kill("SIGTERM");
  }
}
