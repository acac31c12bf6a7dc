// One run of the benchmark: the processes and folders it has made and must take away again, and what groups learn from each other.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type NatsServer, startNatsServer } from "../../services/standalone/nats-server.ts";
import { createLogger } from "../../shared/runtime/observability/log.ts";
import { type Jobs, type Program, startProgram } from "./jobs.ts";
import type { Options } from "./options.ts";
import type { AgentsJobs } from "./programs/agents.ts";
import { type Fleet, projectRoot, startFleet } from "./programs/fleet.ts";

/** Raw figures that others are compared with. */
export interface RawFigures {
  readonly commitsPerSecond: number;
  /** p50 in ms of one commit and one request, with nothing else under way. */
  readonly commitMs: number;
  readonly writeRequestMs: number;
  readonly getRequestMs: number;
}

export interface Writers {
  readonly agents: Program<AgentsJobs>;
  readonly fleet: Fleet;
}

interface Stoppable {
  stop(): Promise<void>;
}

export const AGENTS = 1_000;

export class Session {
  readonly options: Options;
  raw: RawFigures | null = null;
  readonly #folders: string[] = [];
  readonly #running: Stoppable[] = [];
  #writers: Writers | null = null;
  #closing: Promise<void> | undefined;

  constructor(options: Options) {
    this.options = options;
  }

  /** `full` seconds, or few when the run is quick. */
  seconds(full: number): number {
    return this.options.quick ? Math.max(1, full / 8) : full;
  }

  say(text: string): void {
    process.stderr.write(`${text}\n`);
  }

  folder(): string {
    const path = mkdtempSync(join(tmpdir(), "fleet-bench-"));
    this.#folders.push(path);
    return path;
  }

  program<J extends Jobs>(file: string): Program<J> {
    return this.#keep(startProgram<J>(new URL(file, import.meta.url)));
  }

  /** `storeUrl`: default, the embedded store in `home`. */
  async fleet(home: string, storeUrl: string | null = null): Promise<Fleet> {
    return this.#keep(await startFleet({ home, storeUrl, profile: this.options.profile }));
  }

  /** Stopped at the end of the run. */
  async keep<T extends Stoppable>(starting: Promise<T>): Promise<T> {
    return this.#keep(await starting);
  }

  /** A server of the same kind and settings as the fleet's own. */
  async nats(): Promise<NatsServer> {
    const log = createLogger({ service: "bench", level: "silent" });
    const { env } = process;
    return this.#keep(await startNatsServer({ root: projectRoot, env, dir: this.folder(), port: -1, log }));
  }

  /** The agents of the groups that write, and their fleet, which is new at first and warm when this resolves. */
  async writers(): Promise<Writers> {
    if (this.#writers !== null) return this.#writers;
    this.say("starting a fleet and warming it up");
    const fleet = await this.fleet(this.folder());
    const agents = this.program<AgentsJobs>("./programs/agents.ts");
    await agents.run("connect", { url: fleet.busUrl, agents: AGENTS });
    await agents.run("sustained", { warmUpSeconds: 0, seconds: Math.max(3, this.seconds(6)) });
    await agents.run("quiet", {});
    this.#writers = { agents, fleet };
    return this.#writers;
  }

  async stopWriters(): Promise<void> {
    await this.#writers?.agents.run("disconnect", {});
    await this.#writers?.agents.stop();
    await this.#writers?.fleet.stop();
    this.#writers = null;
  }

  /** Ends and removes everything, the newest first. Safe to call twice. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    for (const running of this.#running.reverse()) await running.stop();
    for (const path of this.#folders) rmSync(path, { recursive: true, force: true });
  }

  #keep<T extends Stoppable>(running: T): T {
    this.#running.push(running);
    return running;
  }
}
