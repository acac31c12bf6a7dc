/** A writer and a reader in this process, on a real nats-server and a real store with outages, for tests of the queue and the SDK. */
import { uuidv7 } from "uuidv7";
import { expect } from "vitest";
import { start as startReader } from "../../services/reader/reader.ts";
import { start as startWriter } from "../../services/writer/writer.ts";
import type { Bus, Outgoing } from "../../shared/bus/bus.ts";
import { connectBus } from "../../shared/bus/connection.ts";
import { fleetStreams } from "../../shared/bus/streams/streams.ts";
import { createChainVerifier } from "../../shared/integrity/chain.ts";
import { type Letter, readDeadLetter } from "../../shared/protocol/dead-letter.ts";
import type { CommandOp, QueryOp, QueuedOp } from "../../shared/protocol/operations.ts";
import { DEFAULT_POLICIES, type Policies } from "../../shared/protocol/policy.ts";
import { STREAMS, SUBJECTS } from "../../shared/protocol/subjects.ts";
import { createLeaderLeases } from "../../shared/records/leader/leader-lease.ts";
import { systemClock } from "../../shared/runtime/clock.ts";
import type { DiskSpace } from "../../shared/runtime/disk-space.ts";
import { createMetrics, type Metrics } from "../../shared/runtime/observability/metrics.ts";
import type { Stop } from "../../shared/runtime/process/service.ts";
import {
  type AgentOptions,
  type AgentResult,
  type ConnectOptions,
  connect,
  type FleetClient,
  runAgent,
} from "../../shared/sdk/sdk.ts";
import { unguardedDisk } from "./disk.ts";
import { startNats, type TestNats, testLog } from "./processes/nats.ts";
import { input, openTestRecords, type TestRecords } from "./records/records.ts";
import { type Outage, outageStore } from "./stores/outage-store.ts";

type Json = Record<string, unknown>;

const MIB = 1024 * 1024;
const PIPELINED = 50;

interface Sender {
  readonly tenant?: string;
  readonly agent?: string;
  readonly task?: string;
  readonly headers?: Record<string, string>;
}

export const creation = (changes: Json = {}): Json => ({
  command_id: uuidv7(),
  checkpoint: input(),
  ...changes,
});

const bytes = (body: unknown): Uint8Array => {
  if (body instanceof Uint8Array) return body;
  return Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
};

export class InProcessFleet {
  outage: Outage = "none";
  /** The disks of the services that are started from now on. */
  disk: DiskSpace = unguardedDisk;
  readonly nats: TestNats;
  readonly records: TestRecords;
  readonly policies: Policies;
  readonly metrics: Metrics = createMetrics();
  /** The connection of an agent, `agent-1`. */
  readonly bus: Bus;
  readonly #buses: Bus[];
  readonly #clients: FleetClient[] = [];
  readonly #stops: Stop[] = [];

  constructor(nats: TestNats, records: TestRecords, bus: Bus, policies: Policies) {
    this.nats = nats;
    this.records = records;
    this.policies = policies;
    this.bus = bus;
    this.#buses = [bus];
  }

  async startWriter(): Promise<void> {
    this.#stops.push(
      await startWriter({
        ...(await this.#context()),
        config: { agentTypes: [], policies: this.policies, finalizeDraftsAfter: null, retentionEvery: null },
      }),
    );
  }

  async startReader(): Promise<void> {
    const config = { agentTypes: [], policies: this.policies };
    this.#stops.push(await startReader({ ...(await this.#context()), config }));
  }

  /** Stops the service that was started first. */
  async stopFirst(): Promise<void> {
    await this.#stops.shift()?.();
  }

  async stopAll(): Promise<void> {
    await Promise.all(this.#stops.splice(0).map((stop) => stop()));
  }

  /** An agent's client without queue and spool, so that every command that is not committed fails. */
  async client(agentId: string, options: ConnectOptions = {}): Promise<FleetClient> {
    const quiet = { fallback: "none", onWarning: () => {} } as const;
    const client = await connect({ url: this.nats.url, agentId, ...quiet, ...options });
    this.#clients.push(client);
    return client;
  }

  /** Runs an agent with a client of its own, until its run ends. */
  async runAgent(agentId: string, options: Omit<AgentOptions, "fleet">): Promise<AgentResult> {
    return runAgent({ fleet: await this.client(agentId), ...options });
  }

  async send(op: CommandOp, body: Json, by: Sender = {}): Promise<Json> {
    const { tenant = "default", agent = "agent-1", task = "task-1", headers = {} } = by;
    return this.#request(SUBJECTS.command(tenant, agent, task, op), { body: bytes(body), headers });
  }

  ask(op: QueryOp, body: Json = {}, tenant = "default"): Promise<Json> {
    return this.#request(SUBJECTS.query(tenant, "operator-1", op), { body: bytes(body) });
  }

  /** Puts a command in the queue, as an agent does that does not wait for an answer; resolves with its seq in the stream. */
  async enqueue(op: QueuedOp, body: unknown, by: Sender = {}): Promise<number> {
    const { tenant = "default", agent = "agent-1", task = "task-1", headers = {} } = by;
    const subject = SUBJECTS.queue(tenant, agent, task, op);
    return this.publish(subject, { body: bytes(body), headers });
  }

  /** Enqueues commands in their order, without a wait for each acknowledgement. */
  async enqueueAll(op: QueuedOp, bodies: readonly unknown[]): Promise<void> {
    for (let from = 0; from < bodies.length; from += PIPELINED) {
      await Promise.all(bodies.slice(from, from + PIPELINED).map((body) => this.enqueue(op, body)));
    }
  }

  async publish(subject: string, out: Outgoing): Promise<number> {
    return (await this.bus.publishDurable(subject, out, { messageId: uuidv7(), timeoutMs: 5_000 })).seq;
  }

  async depth(): Promise<number> {
    return (await this.bus.stream(STREAMS.queue).state()).messages;
  }

  /** A busy machine applies five commands in a second. */
  drained(): Promise<void> {
    return expect.poll(() => this.depth(), { timeout: 120_000, interval: 20 }).toBe(0);
  }

  /** Resolves when the writer's breaker is open. */
  async opened(): Promise<void> {
    const state = async () => (await this.metrics.storeBreakerState.get()).values[0]?.value;
    await expect.poll(state, { timeout: 30_000, interval: 10 }).toBe(2);
  }

  async letters(): Promise<Letter[]> {
    return (await this.bus.stream(STREAMS.dead).list(1, 100)).map(readDeadLetter);
  }

  /** The audit entries of a task; asserts that their chain is valid. */
  async audit(task = "task-1"): Promise<Json[]> {
    const chain = createChainVerifier();
    const entries: Json[] = [];
    for (let from_seq = 1; ; from_seq = entries.length + 1) {
      const page = await this.records.repository.audit("default", { task_id: task, from_seq, limit: 500 });
      for (const record of page.entries) {
        chain.add(record);
        entries.push(JSON.parse(record.entry) as Json);
      }
      if (page.more) continue;
      const head = { seq: page.task.audit_seq, hash: page.task.audit_hash };
      expect(chain.finish(head)).toMatchObject({ ok: true });
      return entries;
    }
  }

  /** The ids of a task's checkpoints in the order of their creation. */
  async applied(task?: string): Promise<string[]> {
    const entries = await this.audit(task);
    return entries.filter(({ op }) => op === "create").map(({ checkpoint_id }) => checkpoint_id as string);
  }

  async close(): Promise<void> {
    this.outage = "none";
    await Promise.all(this.#clients.map((one) => one.close()));
    await this.stopAll();
    await Promise.all(this.#buses.map((one) => one.close()));
    await this.records.close();
    await this.nats.stop();
  }

  async #request(subject: string, out: Outgoing): Promise<Json> {
    const answer = await this.bus.request(subject, out, { timeoutMs: 5_000 });
    return JSON.parse(Buffer.from(answer.body).toString()) as Json;
  }

  async #context() {
    const instance = `service-${this.#buses.length}`;
    const [bus, backgroundBus] = [
      await connectTestBus(this.nats, instance),
      await connectTestBus(this.nats, instance),
    ];
    this.#buses.push(bus, backgroundBus);
    const store = outageStore(this.records.store, () => this.outage);
    return {
      store,
      format: this.records.format,
      bus,
      backgroundBus,
      instance,
      leases: createLeaderLeases(store, instance, Date.now),
      clock: systemClock,
      log: testLog,
      metrics: this.metrics,
      disk: this.disk,
    };
  }
}

function connectTestBus(nats: TestNats, identity: string): Promise<Bus> {
  return connectBus({ url: nats.url, name: identity, identity, log: testLog });
}

interface FleetSetup {
  /** The storage limit of all streams together. */
  readonly storageBytes?: number;
  readonly policies?: Policies;
}

/** A fleet with one writer and one reader. */
export async function openInProcessFleet(options: FleetSetup = {}): Promise<InProcessFleet> {
  const fleet = await openInProcessWriter(options);
  await fleet.startReader();
  return fleet;
}

/** A fleet with one writer and no reader. */
export async function openInProcessWriter({
  storageBytes = 200 * MIB,
  policies = DEFAULT_POLICIES,
}: FleetSetup = {}): Promise<InProcessFleet> {
  const nats = await startNats();
  const bus = await connectTestBus(nats, "agent-1");
  await bus.reconcileStreams(fleetStreams({ storageBytes }));
  const fleet = new InProcessFleet(nats, await openTestRecords("lmdb", undefined, policies), bus, policies);
  await fleet.startWriter();
  return fleet;
}
