// All services of a fleet in this process, on a real nats-server and a real embedded store whose transactions are counted.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { start as startCoordinator } from "../../../services/coordinator/coordinator.ts";
import { PromptThread } from "../../../services/coordinator/prompt-thread.ts";
import { start as startReader } from "../../../services/reader/reader.ts";
import { start as startWatchdog } from "../../../services/watchdog/watchdog.ts";
import { start as startWriter } from "../../../services/writer/writer.ts";
import type { Bus, StreamState } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { DEFAULT_POLICIES } from "../../../shared/protocol/policy.ts";
import { STREAMS } from "../../../shared/protocol/subjects.ts";
import { readLogDelay } from "../../../shared/records/audit-log/log-delay.ts";
import { openFormat } from "../../../shared/records/kv/format.ts";
import { createLeaderLeases } from "../../../shared/records/leader/leader-lease.ts";
import { readIndexStatus } from "../../../shared/records/search/index-state.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createMetrics } from "../../../shared/runtime/observability/metrics.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { withRetries } from "../../../shared/runtime/retry.ts";
import { connect, type FleetClient } from "../../../shared/sdk/sdk.ts";
import { openStore } from "../../../shared/store/open.ts";
import type { Store } from "../../../shared/store/store.ts";
import { unguardedDisk } from "../../harness/disk.ts";
import { startNats, type TestNats, testLog } from "../../harness/processes/nats.ts";
import { countedStore, type Families, type Labels, storedFamilies } from "./counted-store.ts";

const MIB = 1024 * 1024;
const POLL_MS = 10;
const WAIT_MS_MAX = 60_000;
const HOUR_MS = 3_600_000;
const CONNECT_MS = 30_000;
const PATIENCE = { attempts: 10, baseMs: 100, maxMs: 1_000, clock: systemClock } as const;
const READING = { label: "settled", deadlineMs: 5_000 } as const;

export interface Snapshot {
  readonly families: Families;
  readonly labels: Labels;
  readonly streams: ReadonlyMap<string, StreamState>;
}

export class CountedFleet {
  readonly nats: TestNats;
  readonly bus: Bus;
  readonly #store: Store;
  readonly #labels: Labels = new Map();
  readonly #stops: Stop[] = [];

  constructor(nats: TestNats, bus: Bus, store: Store, closeStore: Stop) {
    this.nats = nats;
    this.bus = bus;
    this.#store = store;
    this.#stops.push(async () => void (await bus.close()), closeStore);
  }

  async startServices(): Promise<void> {
    const format = await openFormat(this.#store);
    const store = countedStore(this.#store, this.#labels);
    const rules = { agentTypes: [], policies: DEFAULT_POLICIES };
    const watchdog = {
      recoveriesMax: 256,
      missionSilence: HOUR_MS,
      scrubRate: MIB,
      scrubEvery: null,
      webhooks: [],
      anchors: { folder: null, bucket: null, timestamps: null, everyMs: 3_600_000 },
    };
    const context = async (instance: string) => {
      const [bus, backgroundBus] = await Promise.all([this.connect(instance), this.connect(instance)]);
      this.#stops.unshift(async () => void (await Promise.all([bus.close(), backgroundBus.close()])));
      const leases = createLeaderLeases(store, instance, Date.now);
      const parts = { store, format, bus, backgroundBus, instance, leases, disk: unguardedDisk };
      return { ...parts, clock: systemClock, log: testLog, metrics: createMetrics() };
    };
    const contexts = await Promise.all(["writer", "reader", "coordinator", "watchdog"].map(context));
    const [writer, reader, coordinator, dog] = contexts as [
      (typeof contexts)[0],
      (typeof contexts)[0],
      (typeof contexts)[0],
      (typeof contexts)[0],
    ];
    const timers = { finalizeDraftsAfter: null, retentionEvery: null };
    const prompts = new PromptThread();
    this.#stops.unshift(() => prompts.close());
    const stops = await Promise.all([
      startWriter({ ...writer, config: { ...rules, ...timers } }),
      startReader({ ...reader, config: rules }),
      startCoordinator({ ...coordinator, prompts, config: rules }),
      startWatchdog({ ...dog, config: { ...rules, watchdog } }),
    ]);
    this.#stops.unshift(async () => void (await Promise.all(stops.map((stop) => stop()))));
  }

  connect(identity: string): Promise<Bus> {
    return connectBus({
      ...{ url: this.nats.url, name: identity, identity, log: testLog },
      connectTimeoutMs: CONNECT_MS,
    });
  }

  async client(agentId: string): Promise<FleetClient> {
    const client = await connect({
      ...{ url: this.nats.url, agentId, fallback: "none", onWarning: () => {} },
      connectTimeoutMs: CONNECT_MS,
    });
    this.#stops.unshift(() => client.close());
    return client;
  }

  /** Repeated, because a busy server answers late. */
  stateOf(stream: string): Promise<StreamState> {
    return withRetries(PATIENCE, () => this.bus.stream(stream).state());
  }

  /** Resolves when every event is published, every checkpoint is indexed, and every entry is in the audit log. */
  async settled(): Promise<void> {
    await this.until("the outbox, the index and the audit log to be done", async () => {
      const { behind } = await this.#store.read(READING, readIndexStatus);
      const { delayMs } = await this.#store.read(READING, (reader) => readLogDelay(reader, Date.now()));
      return behind === 0 && delayMs === 0 && !(await storedFamilies(this.#store)).has("outbox");
    });
  }

  async until(what: string, holds: () => Promise<boolean>): Promise<void> {
    const end = performance.now() + WAIT_MS_MAX;
    while (!(await holds())) {
      if (performance.now() > end) throw new Error(`timed out waiting for ${what}`);
      await systemClock.sleep(POLL_MS);
    }
  }

  async snapshot(): Promise<Snapshot> {
    await this.settled();
    const names = Object.values(STREAMS);
    const states = await Promise.all(names.map((name) => this.stateOf(name)));
    return {
      families: await storedFamilies(this.#store),
      labels: structuredClone(this.#labels),
      streams: new Map(names.map((name, i) => [name, states[i] as StreamState])),
    };
  }

  async close(): Promise<void> {
    for (const stop of this.#stops) await stop();
    await this.nats.stop();
  }
}

export async function openCountedFleet(): Promise<CountedFleet> {
  const nats = await startNats();
  const folder = mkdtempSync(join(tmpdir(), "fleet-sizing-"));
  const store = await openStore(`lmdb:${folder}/store`);
  const bus = await connectBus({
    ...{ url: nats.url, name: "sizing", identity: "sizing", log: testLog },
    connectTimeoutMs: CONNECT_MS,
  });
  await withRetries(PATIENCE, () => bus.reconcileStreams(fleetStreams({ storageBytes: 200 * MIB })));
  return new CountedFleet(nats, bus, store, async () => {
    await store.close({ drainMs: 5_000 });
    rmSync(folder, { recursive: true, force: true });
  });
}
