/** Handoffs and recoveries end to end: services as processes of their own, on one bus and one store, and what agents do between them. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { uuidv7 } from "uuidv7";
import { expect } from "vitest";
import type { Bus } from "../../../shared/bus/bus.ts";
import { connectBus } from "../../../shared/bus/connection.ts";
import { createChainVerifier } from "../../../shared/integrity/chain.ts";
import type { Alert, AlertType } from "../../../shared/protocol/alerts.ts";
import type { FleetEvent } from "../../../shared/protocol/events.ts";
import type { Handoff } from "../../../shared/protocol/handoff-record.ts";
import type { HandoffState } from "../../../shared/protocol/handoff-states.ts";
import { type Offer, type OfferData, offerSchema } from "../../../shared/protocol/offer.ts";
import { type CommandOp, offerConsumer, STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { openFormat } from "../../../shared/records/kv/format.ts";
import { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { openStore } from "../../../shared/store/open.ts";
import type { Store } from "../../../shared/store/store.ts";
import { startNats, type TestNats, testLog } from "../processes/nats.ts";
import { at, type Role, startService, type TestService } from "../processes/services.ts";
import { input } from "./records.ts";

type Json = Record<string, unknown>;

export interface Act {
  readonly tenant?: string;
  readonly agent?: string;
  readonly fence?: number;
}

export interface Starting {
  readonly policy?: Json;
  /** The moment at which it kills itself, in the words of `dying.ts`. */
  readonly dies?: string;
  /** The moment at which it stops itself. */
  readonly freezes?: string;
  readonly env?: Readonly<Record<string, string>>;
}

interface Parts {
  readonly folder: string;
  readonly nats: TestNats;
  readonly store: Store;
  readonly repository: CheckpointRepository;
  readonly bus: Bus;
}

const SOON = { timeout: 60_000, interval: 20 };

export class HandoffBench {
  readonly repository: CheckpointRepository;
  readonly store: Store;
  readonly bus: Bus;
  /** By handoff, who of {@link HandoffBench.startAgents} took it. */
  readonly taken = new Map<string, string>();
  readonly #parts: Parts;
  readonly #services = new Set<TestService>();
  readonly #stops: Stop[] = [];

  static async open(): Promise<HandoffBench> {
    const folder = mkdtempSync(join(tmpdir(), "fleet-handoff-"));
    const nats = await startNats();
    const store = await openStore(`lmdb:${folder}/store?shared`);
    const repository = new CheckpointRepository({
      store,
      format: await openFormat(store),
      finder: "test",
      now: Date.now,
    });
    const bus = await connectBus({ url: nats.url, name: "test", identity: "test", log: testLog });
    const bench = new HandoffBench({ folder, nats, store, repository, bus });
    // It knows a type of agent that the coordinators do not.
    await bench.#start("writer", { FLEET_AGENT_TYPES: "astrologer" });
    return bench;
  }

  constructor(parts: Parts) {
    this.#parts = parts;
    this.repository = parts.repository;
    this.store = parts.store;
    this.bus = parts.bus;
  }

  get nats(): TestNats {
    return this.#parts.nats;
  }

  startReader(): Promise<TestService> {
    return this.#start("reader");
  }

  startCoordinator(how: Starting = {}): Promise<TestService> {
    return this.#startRuled("coordinator", how);
  }

  startWatchdog(how: Starting = {}): Promise<TestService> {
    return this.#startRuled("watchdog", how);
  }

  #startRuled(
    role: "coordinator" | "watchdog",
    { policy = {}, dies, freezes, env = {} }: Starting,
  ): Promise<TestService> {
    const path = join(this.#parts.folder, `policy-${uuidv7()}.json`);
    writeFileSync(path, JSON.stringify(policy));
    const moments = {
      ...(dies !== undefined && { FLEET_TEST_DIES: dies }),
      ...(freezes !== undefined && { FLEET_TEST_FREEZES: freezes }),
    };
    const program =
      Object.keys(moments).length === 0 ? undefined : `test/harness/processes/${role}.program.ts`;
    return this.#start(role, { FLEET_POLICY: path, ...env, ...moments }, program);
  }

  async #start(role: Role, env: Record<string, string> = {}, program?: string): Promise<TestService> {
    const { nats, folder } = this.#parts;
    const place = { busUrl: nats.url, storeUrl: `lmdb:${folder}/store?shared` };
    const starting = program === undefined ? {} : { program, untilServing: false };
    const service = await startService(role, { ...at(place), ...env }, starting);
    this.#services.add(service);
    return service;
  }

  async command(op: CommandOp, task: string, body: Json, by: Act = {}): Promise<Json> {
    const { tenant = "default", agent = "agent-a", fence } = by;
    const request = { command_id: uuidv7(), ...body, ...(fence !== undefined && { fence }) };
    const out = { body: Buffer.from(JSON.stringify(request)) };
    const answer = await this.bus.request(SUBJECTS.command(tenant, agent, task, op), out, {
      timeoutMs: 30_000,
    });
    return JSON.parse(Buffer.from(answer.body).toString()) as Json;
  }

  /** Writes a checkpoint; the answer must be `committed`. */
  async write(task: string, by: Act = {}, more: Json = {}): Promise<Json> {
    const answer = await this.command("create", task, { checkpoint: input(), ...more }, by);
    expect(answer).toMatchObject({ status: "committed" });
    return answer;
  }

  /** The last checkpoint of an agent that hands off; resolves with the handoff's id. */
  async handOff(task: string, wish: Json = {}, by: Act = {}): Promise<string> {
    const checkpoint = input({ phase: "handoff" });
    const answer = await this.write(task, by, { checkpoint, handoff: wish });
    return answer.handoff_id as string;
  }

  handoff(id: string, tenant = "default"): Promise<Handoff> {
    return this.repository.handoff(tenant, { handoff_id: id });
  }

  /** Resolves with the handoff when it has come into the state. */
  async until(id: string, state: HandoffState, tenant = "default"): Promise<Handoff> {
    await expect.poll(async () => (await this.handoff(id, tenant)).state, SOON).toBe(state);
    return this.handoff(id, tenant);
  }

  acknowledge(
    offer: Pick<OfferData, "handoff_id" | "task_id" | "agent_type" | "checkpoint"> & { tenant?: string },
    agent: string,
    changes: Json = {},
  ) {
    const { handoff_id, task_id, agent_type, checkpoint, tenant = "default" } = offer;
    const body = { handoff_id, checkpoint_id: checkpoint.id, agent_type, ...changes };
    return this.command("acknowledge", task_id, body, { tenant, agent });
  }

  /** What is offered to agents of a type, each offer once more as often as the handler throws. */
  async onOffer(
    agentType: string,
    handler: (offer: Offer) => Promise<void>,
    tenant = "default",
  ): Promise<void> {
    const options = {
      stream: STREAMS.offers,
      durable: offerConsumer(tenant, agentType),
      filters: [SUBJECTS.offersOf(tenant, agentType)],
      maxAckPending: 64,
      ackWaitMs: 10_000,
    };
    const stop = await this.bus.consume(options, async ({ body }) => {
      await handler(offerSchema.parse(JSON.parse(Buffer.from(body).toString())) as Offer);
    });
    this.#stops.push(stop);
  }

  /** Agents that take whatever is offered to their type and go on with it. */
  async startAgents(agentType: string): Promise<void> {
    await this.onOffer(agentType, async ({ data }) => {
      const agent = `${agentType}-${uuidv7().slice(-6)}`;
      const answer = await this.acknowledge(data, agent);
      // Taken, taken back or superseded: the offer is void.
      if (answer.status !== "committed") return;
      this.taken.set(data.handoff_id, agent);
      const fence = answer.fence as number;
      await this.write(data.task_id, { agent, fence }, { checkpoint: input({ phase: "testing" }) });
    });
  }

  /** A task's events so far; every audit entry has one. */
  async events(task: string, tenant = "default"): Promise<FleetEvent[]> {
    const { audit_seq } = await this.repository.task(tenant, task);
    const found: FleetEvent[] = [];
    const stop = await this.bus.follow(
      { stream: STREAMS.events, filter: SUBJECTS.taskEvents(tenant, task), from: "all" },
      ({ body }) => void found.push(JSON.parse(Buffer.from(body).toString()) as FleetEvent),
    );
    await expect.poll(() => found.some(({ sequence }) => sequence >= audit_seq), SOON).toBe(true);
    await stop();
    expect(found.map(({ sequence }) => sequence)).toEqual(found.map((_, i) => i + 1));
    return found;
  }

  /** The alerts about a task, when there are so many; ids are of one alert each. */
  async alerts<T extends AlertType = "HANDOFF_FAILED">(task: string, count: number): Promise<Alert<T>[]> {
    const found = new Map<string, Alert<T>>();
    const stop = await this.bus.follow(
      { stream: STREAMS.alerts, filter: SUBJECTS.everyAlert, from: "all" },
      (message) => {
        const alert = JSON.parse(Buffer.from(message.body).toString()) as Alert<T>;
        if (alert.subject === task) found.set(alert.id, alert);
      },
    );
    await expect.poll(() => found.size, SOON).toBe(count);
    await stop();
    return [...found.values()];
  }

  /** A task's audit entries; their chain verifies. */
  async audit(task: string, tenant = "default"): Promise<Json[]> {
    const chain = createChainVerifier();
    const page = await this.repository.audit(tenant, { task_id: task, from_seq: 1, limit: 500 });
    for (const record of page.entries) chain.add(record);
    expect(chain.finish({ seq: page.task.audit_seq, hash: page.task.audit_hash })).toMatchObject({
      ok: true,
    });
    return page.entries.map(({ entry }) => JSON.parse(entry) as Json);
  }

  async ops(task: string): Promise<unknown[]> {
    return (await this.audit(task)).map(({ op }) => op);
  }

  killCoordinators(): Promise<void> {
    return this.#kill("coordinator");
  }

  killWatchdogs(): Promise<void> {
    return this.#kill("watchdog");
  }

  /** SIGKILL of all of that role. */
  async #kill(role: Role): Promise<void> {
    const services = [...this.#services].filter((one) => one.role === role);
    for (const one of services) this.#services.delete(one);
    await Promise.all(services.map((one) => one.kill9()));
  }

  async close(): Promise<void> {
    await Promise.all(this.#stops.map((stop) => stop()));
    await Promise.all([...this.#services].map((one) => one.terminate()));
    await this.bus.close();
    await this.store.close({ drainMs: 2_000 });
    await this.#parts.nats.stop();
    rmSync(this.#parts.folder, { recursive: true, force: true });
  }
}
