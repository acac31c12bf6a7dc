/** The services of a simulated fleet: each is a process, started as its main.ts does it and started again after its end. */
import { start as startCoordinator } from "../../../services/coordinator/coordinator.ts";
import type { PromptRenderer } from "../../../services/coordinator/prompt-renderer.ts";
import { start as startReader } from "../../../services/reader/reader.ts";
import { readWatchdogConfig, watchdogFields } from "../../../services/watchdog/config.ts";
import { start as startWatchdog } from "../../../services/watchdog/watchdog.ts";
import { start as startWriter } from "../../../services/writer/writer.ts";
import { continuationPrompt } from "../../../shared/prompts/continuation.ts";
import { tokenizer } from "../../../shared/prompts/tokens.ts";
import { openFormat } from "../../../shared/records/kv/format.ts";
import { createLeaderLeases } from "../../../shared/records/leader/leader-lease.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { readConfig } from "../../../shared/runtime/settings/config.ts";
import { brokenStore } from "../../fleet/faults/environment/broken-builds.ts";
import { deafBus } from "../../fleet/faults/environment/broken-recoveries.ts";
import { killableStore } from "../../fleet/faults/environment/kill-points.ts";
import type { Role } from "../../fleet/faults/environment/service-role.ts";
import { HEALTHY, LAUNCHED, WORKER } from "../../fleet/faults/workers/task-kinds.ts";
import { outageStore } from "../../harness/stores/outage-store.ts";
import { placeOn, type SimulatedMachine } from "../machine/machine.ts";
import { SILENT_LOG } from "../silent-log.ts";
import { SimulatedProcess } from "../time/processes.ts";
import { connectHost, killsOf, SIMULATED_POLICIES, type WorldHost } from "./host.ts";
import { readableStore, signingStore } from "./protection.ts";

// A simulation forbids to load the tables later.
tokenizer();

/** In place of the thread, which a simulation forbids. */
const PROMPTS: PromptRenderer = {
  prepare: () => {},
  render: async (input) => continuationPrompt(input),
};

const RULES = {
  agentTypes: [WORKER, HEALTHY, LAUNCHED],
  policies: SIMULATED_POLICIES,
  finalizeDraftsAfter: 3_000,
  watchdog: { ...readWatchdogConfig(readConfig(watchdogFields, {})), scrubEvery: null },
};

async function startRole(host: WorldHost, role: Role, instance: string): Promise<Stop> {
  const opened = await host.database.open();
  const own = host.broken === null ? opened : brokenStore(host.broken, opened);
  const reached = outageStore(own, () => host.outage);
  const killed = role === "reader" ? reached : killableStore(reached, role, killsOf(host));
  const { store: readable, encryption } = await readableStore(killed, host.protection);
  const format = await openFormat(readable);
  const { metrics } = host;
  const signing = await signingStore(readable, host.protection, { metrics, service: role });
  const { store } = signing;
  const connect = () =>
    connectHost(host, { identity: instance.replaceAll(".", "-"), messageKey: format.message_key });
  const [bus, backgroundBus] = await Promise.all([connect(), connect()]);
  const context = {
    ...{ store, encryption, format, bus, backgroundBus, instance, disk: host.disk },
    ...{ clock: systemClock, log: SILENT_LOG, metrics },
    leases: createLeaderLeases(store, instance, Date.now),
  };
  const stop = await START[role](context, host);
  return async () => {
    await stop();
    await signing.stop();
    await Promise.all([bus.close(), backgroundBus.close()]);
    await store.close({ drainMs: 5_000 });
  };
}

type Context = Omit<Parameters<typeof startWriter>[0], "config">;

const START: Readonly<Record<Role, (context: Context, host: WorldHost) => Promise<Stop>>> = {
  writer: (context, { removes }) =>
    startWriter({ ...context, config: { ...RULES, retentionEvery: removes ? RETENTION_EVERY_MS : null } }),
  reader: (context) => startReader({ ...context, config: RULES }),
  coordinator: (context) => startCoordinator({ ...context, prompts: PROMPTS, config: RULES }),
  watchdog: (context, { broken }) => {
    const bus = broken === "leases_ignored" ? deafBus(context.bus) : context.bus;
    return startWatchdog({ ...context, bus, config: RULES });
  },
};

const RETENTION_EVERY_MS = 1_000;
const RESTART_MS = 300;

/** A program that is started again whenever it ends. */
export class Supervised {
  readonly name: string;
  readonly #start: (incarnation: string) => Promise<Stop>;
  readonly #host: Pick<WorldHost, "server">;
  readonly #machine: SimulatedMachine | undefined;
  #process: SimulatedProcess | undefined;
  #stop: Stop | undefined;
  #starts = 0;
  #isWanted = true;
  #restartMs = RESTART_MS;
  #isReady = Promise.withResolvers<void>();

  /** `machine`: where it runs. undefined: where all agents do. */
  constructor(
    name: string,
    host: Pick<WorldHost, "server">,
    start: (incarnation: string) => Promise<Stop>,
    machine?: SimulatedMachine,
  ) {
    this.name = name;
    this.#machine = machine;
    this.#host = host;
    this.#start = start;
    this.#run();
  }

  /** The name of its connections. */
  get connection(): string {
    return this.#process?.name ?? this.name;
  }

  get kills(): number {
    return this.#starts - 1;
  }

  /** Resolves when it runs. */
  ready(): Promise<void> {
    return this.#isReady.promise;
  }

  /** The end of the program between two of its steps. It is started again after the time. */
  kill(restartMs = RESTART_MS): void {
    this.#restartMs = restartMs;
    this.#process?.kill();
  }

  /** A regular stop, which the program carries out. */
  async stop(): Promise<void> {
    await this.ready();
    this.#isWanted = false;
    await this.#process!.run(() => this.#stop!());
    this.#process!.kill();
  }

  #run(): void {
    if (!this.#isWanted) return;
    this.#starts += 1;
    const own = new SimulatedProcess(`${this.name}.${this.#starts}`);
    this.#process = own;
    if (this.#machine !== undefined) placeOn(this.#machine, own);
    own.onKill(() => this.#killed(own));
    own.arrival(own.run(() => this.#start(own.name))).then(
      (stop) => {
        this.#stop = stop;
        this.#isReady.resolve();
      },
      // As a process that cannot start and is started again.
      () => own.kill(),
    );
  }

  #killed(own: SimulatedProcess): void {
    this.#host.server.kill(own.name);
    // A wait for an incarnation that ends while it starts becomes one for the next.
    if (this.#stop !== undefined) this.#isReady = Promise.withResolvers<void>();
    this.#process = undefined;
    this.#stop = undefined;
    if (!this.#isWanted) return;
    setTimeout(() => this.#run(), this.#restartMs);
    this.#restartMs = RESTART_MS;
  }
}

export function superviseService(host: WorldHost, role: Role, index: number): Supervised {
  const start = (instance: string) => startRole(host, role, instance);
  return new Supervised(`${role}-${index}`, host, start, host.machines.services);
}
