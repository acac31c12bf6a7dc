/**
 * A writer with a store that goes away when told to, on a real nats-server and a real store, for tests of the queue; and what such a
 * test asks of it.
 */
import { uuidv7 } from "uuidv7";
import { expect } from "vitest";
import { start as startReader } from "../../../services/reader/reader.ts";
import { start as startWriter } from "../../../services/writer/writer.ts";
import type { Bus, Outgoing } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { fleetStreams } from "../../../shared/bus/streams/streams.ts";
import { createChainVerifier } from "../../../shared/integrity/chain.ts";
import { type Letter, readDeadLetter } from "../../../shared/protocol/dead-letter.ts";
import { DEFAULT_POLICIES } from "../../../shared/protocol/policy.ts";
import {
  type CommandOp,
  type QueryOp,
  type QueuedOp,
  STREAMS,
  SUBJECTS,
} from "../../../shared/protocol/subjects.ts";
import { systemClock } from "../../../shared/runtime/clock.ts";
import { createMetrics, type Metrics } from "../../../shared/runtime/observability/metrics.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { type ConnectOptions, connect, type FleetClient } from "../../../shared/sdk/sdk.ts";
import { type Bench, input, openBench } from "../records/records.ts";
import { type Away, awayStore } from "../stores/away-store.ts";
import { startNats, type TestNats, testLog } from "./nats.ts";

type Json = Record<string, unknown>;

const MIB = 1024 * 1024;

export interface Sender {
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

export class WriterBench {
  away: Away = "no";
  readonly nats: TestNats;
  readonly bench: Bench;
  readonly metrics: Metrics = createMetrics();
  /** The connection of an agent, `agent-1`. */
  readonly bus: Bus;
  readonly #buses: Bus[];
  readonly #clients: FleetClient[] = [];
  readonly #stops: Stop[] = [];

  constructor(nats: TestNats, bench: Bench, bus: Bus) {
    this.nats = nats;
    this.bench = bench;
    this.bus = bus;
    this.#buses = [bus];
  }

  async startWriter(): Promise<void> {
    this.#stops.push(
      await startWriter({
        ...(await this.#context()),
        config: { agentTypes: [], policies: DEFAULT_POLICIES },
      }),
    );
  }

  async startReader(): Promise<void> {
    const config = { agentTypes: [], policies: DEFAULT_POLICIES };
    this.#stops.push(await startReader({ ...(await this.#context()), config }));
  }

  /** Stops the service that was started first. */
  async stopFirst(): Promise<void> {
    await this.#stops.shift()?.();
  }

  async stopAll(): Promise<void> {
    await Promise.all(this.#stops.splice(0).map((stop) => stop()));
  }

  /** An agent's client without queue and spool, so that what is not committed is an error. */
  async client(agentId: string, options: ConnectOptions = {}): Promise<FleetClient> {
    const quiet = { fallback: "none", onWarning: () => {} } as const;
    const client = await connect({ url: this.nats.url, agentId, ...quiet, ...options });
    this.#clients.push(client);
    return client;
  }

  async send(op: CommandOp, body: Json, by: Sender = {}): Promise<Json> {
    const { tenant = "default", agent = "agent-1", task = "task-1", headers = {} } = by;
    return this.#request(SUBJECTS.command(tenant, agent, task, op), { body: bytes(body), headers });
  }

  ask(op: QueryOp, body: Json = {}, tenant = "default"): Promise<Json> {
    return this.#request(SUBJECTS.query(tenant, op), { body: bytes(body) });
  }

  /** As an agent does that sends and forgets; resolves with the place in the queue. */
  async enqueue(op: QueuedOp, body: unknown, by: Sender = {}): Promise<number> {
    const { tenant = "default", agent = "agent-1", task = "task-1", headers = {} } = by;
    const subject = SUBJECTS.queue(tenant, agent, task, op);
    return this.publish(subject, { body: bytes(body), headers });
  }

  async publish(subject: string, out: Outgoing): Promise<number> {
    return (await this.bus.publishDurable(subject, out, { messageId: uuidv7(), timeoutMs: 5_000 })).seq;
  }

  async depth(): Promise<number> {
    return (await this.bus.stream(STREAMS.queue).state()).messages;
  }

  drained(): Promise<void> {
    return expect.poll(() => this.depth(), { timeout: 30_000, interval: 20 }).toBe(0);
  }

  /** Until the writer's breaker is open. */
  async opened(): Promise<void> {
    const state = async () => (await this.metrics.storeBreakerState.get()).values[0]?.value;
    await expect.poll(state, { timeout: 10_000, interval: 10 }).toBe(2);
  }

  async letters(): Promise<Letter[]> {
    return (await this.bus.stream(STREAMS.dead).list(1, 100)).map(readDeadLetter);
  }

  /** A task's audit entries; their chain verifies. */
  async audit(task = "task-1"): Promise<Json[]> {
    const chain = createChainVerifier();
    const entries: Json[] = [];
    for (let from_seq = 1; ; from_seq = entries.length + 1) {
      const page = await this.bench.repository.audit("default", { task_id: task, from_seq, limit: 500 });
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
    this.away = "no";
    await Promise.all(this.#clients.map((one) => one.close()));
    await this.stopAll();
    await Promise.all(this.#buses.map((one) => one.close()));
    await this.bench.close();
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
    return {
      store: awayStore(this.bench.store, () => this.away),
      format: this.bench.format,
      bus,
      backgroundBus,
      instance,
      clock: systemClock,
      log: testLog,
      metrics: this.metrics,
    };
  }
}

function connectTestBus(nats: TestNats, identity: string): Promise<Bus> {
  return connectBus({ url: nats.url, name: identity, identity, log: testLog });
}

/** With one writer and one reader running. */
export async function openFleetBench(): Promise<WriterBench> {
  const bench = await openWriterBench();
  await bench.startReader();
  return bench;
}

/** With one writer running. `storageBytes`: what the streams may take together. */
export async function openWriterBench({ storageBytes = 200 * MIB } = {}): Promise<WriterBench> {
  const nats = await startNats();
  const bus = await connectTestBus(nats, "agent-1");
  await bus.reconcileStreams(fleetStreams({ storageBytes }));
  const bench = new WriterBench(nats, await openBench("lmdb"), bus);
  await bench.startWriter();
  return bench;
}
