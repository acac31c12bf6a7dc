// One run of the benchmark: the processes and folders that it must remove at its end, and the figures that groups share.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type NatsServer, startNatsServer } from "../../services/standalone/nats/server.ts";
import { createLogger } from "../../shared/runtime/observability/log.ts";
import { projectRoot } from "../harness/project-root.ts";
import { startFoundationdb } from "../harness/stores/foundationdb.ts";
import { type Jobs, type Program, startProgram } from "./jobs.ts";
import type { Options, StoreName } from "./options.ts";
import type { AgentsJobs } from "./programs/agents.ts";
import { type MeasuredFleet, startMeasuredFleet, storePath } from "./programs/fleet.ts";

/** The raw figures with which others are compared. */
export interface RawFigures {
  readonly commitsPerSecond: number;
  /** The p50 in ms of one commit and of one request, with nothing else in flight. */
  readonly commitMs: number;
  readonly writeRequestMs: number;
  readonly getRequestMs: number;
}

export interface Writers {
  readonly agents: Program<AgentsJobs>;
  readonly fleet: MeasuredFleet;
}

interface Stoppable {
  stop(): Promise<void>;
}

/** The store of one fleet at a time. */
export interface FleetStore extends Stoppable {
  readonly url: string;
  /** For several processes. */
  readonly sharedUrl: string;
}

export const AGENTS = 1_000;
/** The agents that write once a second each: the load that the fleet is designed for, on one node of the store. */
const PACED_AGENTS: Readonly<Record<StoreName, number>> = { lmdb: AGENTS, foundationdb: AGENTS / 2 };

export class Session {
  readonly options: Options;
  readonly storeName: StoreName;
  raw: RawFigures | null = null;
  readonly #folders: string[] = [];
  readonly #running: Stoppable[] = [];
  #writers: Writers | null = null;
  #closing: Promise<void> | undefined;
  #profiles: string | undefined;

  constructor(options: Options, storeName: StoreName) {
    this.options = options;
    this.storeName = storeName;
  }

  get pacedAgents(): number {
    return PACED_AGENTS[this.storeName];
  }

  /** `full` seconds, or an eighth of them in a quick run. */
  seconds(full: number): number {
    return this.options.quick ? Math.max(1, full / 8) : full;
  }

  /** The folder for profiles of the fleets; null: none are taken. */
  get profileFolder(): string | null {
    const { profile, account } = this.options;
    if (profile !== null || !account) return profile;
    this.#profiles ??= this.folder();
    return this.#profiles;
  }

  log(text: string): void {
    process.stderr.write(`${text}\n`);
  }

  folder(): string {
    const path = mkdtempSync(join(tmpdir(), "fleet-bench-"));
    this.#folders.push(path);
    return path;
  }

  /** Starts a program of the folder `programs`. */
  program<J extends Jobs>(name: string): Program<J> {
    return this.#keep(startProgram<J>(new URL(`./programs/${name}.ts`, import.meta.url)));
  }

  /** An empty store: the embedded one in `home`, or a FoundationDB server of its own. */
  async emptyStore(home: string): Promise<FleetStore> {
    if (this.storeName === "lmdb") {
      const url = `lmdb:${storePath(home)}`;
      return { url, sharedUrl: `${url}?shared`, stop: async () => {} };
    }
    const server = this.#keep(await startFoundationdb());
    const url = `fdb:${server.clusterFile}`;
    return { url, sharedUrl: url, stop: () => server.stop() };
  }

  /** Starts a fleet on an empty store of its own, which ends with the fleet. */
  async fleet(home: string, settings: Readonly<Record<string, string>> = {}): Promise<MeasuredFleet> {
    const store = await this.emptyStore(home);
    const fleet = await this.fleetOn(store, home, settings);
    const stop = async () => {
      await fleet.stop();
      await store.stop();
    };
    return { ...fleet, stop };
  }

  async fleetOn(
    { url }: FleetStore,
    home: string,
    settings: Readonly<Record<string, string>> = {},
  ): Promise<MeasuredFleet> {
    // The embedded store in `home` is the default of the fleet.
    const storeUrl = this.storeName === "lmdb" ? null : url;
    return this.#keep(await startMeasuredFleet({ home, storeUrl, profile: this.profileFolder, settings }));
  }

  /** Registers a process, which is stopped at the end of the run. */
  async keep<T extends Stoppable>(starting: Promise<T>): Promise<T> {
    return this.#keep(await starting);
  }

  /** Starts a server with the settings of the fleet's own server. */
  async nats(): Promise<NatsServer> {
    const log = createLogger({ service: "bench", level: "silent" });
    const { env } = process;
    return this.#keep(await startNatsServer({ root: projectRoot, env, dir: this.folder(), port: -1, log }));
  }

  /** The agents of the groups that write, and their fleet. The first call starts the fleet and resolves when it is warm. */
  async writers(): Promise<Writers> {
    if (this.#writers !== null) return this.#writers;
    this.log("starting a fleet and warming it up");
    const fleet = await this.fleet(this.folder());
    const agents = this.program<AgentsJobs>("agents");
    await agents.run("connect", { url: fleet.busUrl, agents: AGENTS });
    await agents.run("sustained", { warmUpSeconds: 0, seconds: Math.max(3, this.seconds(6)) });
    await agents.run("settle", {});
    this.#writers = { agents, fleet };
    return this.#writers;
  }

  async stopWriters(): Promise<void> {
    await this.#writers?.agents.run("disconnect", {});
    await this.#writers?.agents.stop();
    await this.#writers?.fleet.stop();
    this.#writers = null;
  }

  get isClosing(): boolean {
    return this.#closing !== undefined;
  }

  /** Stops all processes, the newest first. A later group starts its own. */
  async stopAll(): Promise<void> {
    this.#writers = null;
    for (const running of this.#running.splice(0).reverse()) await running.stop();
  }

  /** Stops all processes and removes all folders. Safe to call twice. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.stopAll();
    for (const path of this.#folders) rmSync(path, { recursive: true, force: true });
  }

  #keep<T extends Stoppable>(running: T): T {
    this.#running.push(running);
    return running;
  }
}
