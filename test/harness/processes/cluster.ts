/** A cluster for end-to-end tests of handoffs and recoveries: services as separate processes on one bus and one store, with simple agents. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
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
import type { CommandOp } from "../../../shared/protocol/operations.ts";
import { offerConsumer, STREAMS, SUBJECTS } from "../../../shared/protocol/subjects.ts";
import { openFormat } from "../../../shared/records/kv/format.ts";
import { CheckpointRepository } from "../../../shared/records/repository.ts";
import type { Stop } from "../../../shared/runtime/process/service.ts";
import { openStore } from "../../../shared/store/open.ts";
import type { Store } from "../../../shared/store/store.ts";
import { ENGINES, type Engine, input } from "../records/records.ts";
import { type FoundationdbServer, startFoundationdb } from "../stores/foundationdb.ts";
import { startNats, type TestNats, testLog } from "./nats.ts";
import { environmentOf, type Role, startService, type TestService } from "./services.ts";

type Json = Record<string, unknown>;

const RETRY_MS = 100;

/** The sender of a command. */
interface Actor {
  readonly tenant?: string;
  readonly agent?: string;
  readonly fence?: number;
}

interface ControllerOptions {
  readonly policy?: Json;
  /** The kill point (see `kill-points.ts`) at which the process kills itself. */
  readonly killAt?: string;
  /** The kill point at which the process stops itself with SIGSTOP. */
  readonly pauseAt?: string;
  readonly env?: Readonly<Record<string, string>>;
}

interface Parts {
  readonly folder: string;
  readonly nats: TestNats;
  readonly storeUrl: string;
  /** The server of the store; absent for the embedded store. */
  readonly foundationdb: FoundationdbServer | undefined;
  readonly store: Store;
  readonly repository: CheckpointRepository;
  readonly bus: Bus;
}

/** The engines that several processes can share, of those that can run on this machine. */
export const CLUSTER_ENGINES: readonly Engine[] = ENGINES.filter((engine) => engine !== "memory");

const POLL = { timeout: 60_000, interval: 20 };

export class TestCluster {
  readonly repository: CheckpointRepository;
  readonly store: Store;
  readonly bus: Bus;
  /** Handoff id to the agent of {@link TestCluster.startAgents} that accepted it. */
  readonly taken = new Map<string, string>();
  readonly #parts: Parts;
  readonly #services = new Set<TestService>();
  readonly #stops = new Set<Stop>();

  static async open(engine: Engine = "lmdb"): Promise<TestCluster> {
    const folder = mkdtempSync(join(tmpdir(), "fleet-handoff-"));
    const nats = await startNats();
    const foundationdb = engine === "foundationdb" ? await startFoundationdb() : undefined;
    const storeUrl =
      foundationdb === undefined ? `lmdb:${folder}/store?shared` : `fdb:${foundationdb.clusterFile}`;
    const store = await openStore(storeUrl);
    const repository = new CheckpointRepository({
      store,
      format: await openFormat(store),
      finder: "test",
      now: Date.now,
    });
    const bus = await connectBus({ url: nats.url, name: "test", identity: "test", log: testLog });
    const cluster = new TestCluster({ folder, nats, storeUrl, foundationdb, store, repository, bus });
    // The writer knows an agent type that the coordinators do not know.
    await cluster.#start("writer", { FLEET_AGENT_TYPES: "astrologer" });
    return cluster;
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

  startCoordinator(options: ControllerOptions = {}): Promise<TestService> {
    return this.#startController("coordinator", options);
  }

  startWatchdog(options: ControllerOptions = {}): Promise<TestService> {
    return this.#startController("watchdog", options);
  }

  #startController(
    role: "coordinator" | "watchdog",
    { policy = {}, killAt, pauseAt, env = {} }: ControllerOptions,
  ): Promise<TestService> {
    const path = join(this.#parts.folder, `policy-${uuidv7()}.json`);
    writeFileSync(path, JSON.stringify(policy));
    const points = {
      ...(killAt !== undefined && { FLEET_TEST_KILL_AT: killAt }),
      ...(pauseAt !== undefined && { FLEET_TEST_PAUSE_AT: pauseAt }),
    };
    const program =
      Object.keys(points).length === 0 ? undefined : `test/harness/processes/${role}.program.ts`;
    return this.#start(role, { FLEET_POLICY: path, ...env, ...points }, program);
  }

  async #start(role: Role, env: Record<string, string> = {}, program?: string): Promise<TestService> {
    const { nats, storeUrl } = this.#parts;
    const urls = { busUrl: nats.url, storeUrl };
    const options = program === undefined ? {} : { program, untilServing: false };
    const service = await startService(role, { ...environmentOf(urls), ...env }, options);
    this.#services.add(service);
    return service;
  }

  async command(op: CommandOp, task: string, body: Json, by: Actor = {}): Promise<Json> {
    const { tenant = "default", agent = "agent-a", fence } = by;
    const request = { command_id: uuidv7(), ...body, ...(fence !== undefined && { fence }) };
    const out = { body: Buffer.from(JSON.stringify(request)) };
    const answer = await this.bus.request(SUBJECTS.command(tenant, agent, task, op), out, {
      timeoutMs: 30_000,
    });
    return JSON.parse(Buffer.from(answer.body).toString()) as Json;
  }

  /** Writes a checkpoint. A loaded writer may queue it or ask for a retry first; in the end the answer is `committed`. */
  async write(task: string, by: Actor = {}, more: Json = {}): Promise<Json> {
    const body = { command_id: uuidv7(), checkpoint: input(), ...more };
    for (;;) {
      const answer = await this.command("create", task, body, by);
      const error = answer.error as { readonly retryable: boolean } | undefined;
      if (answer.status !== "queued" && error?.retryable !== true) {
        expect(answer).toMatchObject({ status: "committed" });
        return answer;
      }
      await sleep(RETRY_MS);
    }
  }

  /** Writes the last checkpoint of an agent that hands off; resolves with the id of the handoff. */
  async handOff(task: string, handoff: Json = {}, by: Actor = {}): Promise<string> {
    const checkpoint = input({ phase: "handoff" });
    const answer = await this.write(task, by, { checkpoint, handoff });
    return answer.handoff_id as string;
  }

  handoff(id: string, tenant = "default"): Promise<Handoff> {
    return this.repository.handoff(tenant, { handoff_id: id });
  }

  /** Resolves with the handoff when it has reached the state. */
  async until(id: string, state: HandoffState, tenant = "default"): Promise<Handoff> {
    await expect.poll(async () => (await this.handoff(id, tenant)).state, POLL).toBe(state);
    return this.handoff(id, tenant);
  }

  acknowledge(
    offer: Pick<OfferData, "handoff_id" | "task_id" | "agent_type" | "checkpoint" | "digest"> & {
      tenant?: string;
    },
    agent: string,
    changes: Json = {},
  ) {
    const { handoff_id, task_id, agent_type, checkpoint, digest, tenant = "default" } = offer;
    const body = { handoff_id, checkpoint_id: checkpoint.id, agent_type, offer_digest: digest, ...changes };
    return this.command("acknowledge", task_id, body, { tenant, agent });
  }

  /** Consumes the offers to an agent type until the result is called; an offer is redelivered when the handler throws. */
  async onOffer(
    agentType: string,
    handler: (offer: Offer) => Promise<void>,
    tenant = "default",
  ): Promise<Stop> {
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
    this.#stops.add(stop);
    return async () => {
      this.#stops.delete(stop);
      await stop();
    };
  }

  /** Starts an agent type that accepts every offer and writes one checkpoint. */
  async startAgents(agentType: string): Promise<void> {
    await this.onOffer(agentType, async ({ data }) => {
      const agent = `${agentType}-${uuidv7().slice(-6)}`;
      const answer = await this.acknowledge(data, agent);
      // The offer is void: another agent accepted it, or its handoff was cancelled or superseded.
      if (answer.status !== "committed") return;
      this.taken.set(data.handoff_id, agent);
      const fence = answer.fence as number;
      await this.write(data.task_id, { agent, fence }, { checkpoint: input({ phase: "testing" }) });
    });
  }

  /** The events of a task so far, one for each audit entry. */
  async events(task: string, tenant = "default"): Promise<FleetEvent[]> {
    const { audit_seq } = await this.repository.task(tenant, task);
    const found: FleetEvent[] = [];
    const stop = await this.bus.follow(
      { stream: STREAMS.events, filter: SUBJECTS.taskEvents(tenant, task), from: "all" },
      ({ body }) => void found.push(JSON.parse(Buffer.from(body).toString()) as FleetEvent),
    );
    await expect.poll(() => found.some(({ sequence }) => sequence >= audit_seq), POLL).toBe(true);
    await stop();
    expect(found.map(({ sequence }) => sequence)).toEqual(found.map((_, i) => i + 1));
    return found;
  }

  /** Resolves with the distinct alerts about a task as soon as there are `count` of them. */
  async alerts<T extends AlertType = "HANDOFF_FAILED">(task: string, count: number): Promise<Alert<T>[]> {
    const found = new Map<string, Alert<T>>();
    const stop = await this.bus.follow(
      { stream: STREAMS.alerts, filter: SUBJECTS.everyAlert, from: "all" },
      (message) => {
        const alert = JSON.parse(Buffer.from(message.body).toString()) as Alert<T>;
        if (alert.subject === task) found.set(alert.id, alert);
      },
    );
    await expect.poll(() => found.size, POLL).toBe(count);
    await stop();
    return [...found.values()];
  }

  /** The audit entries of a task; asserts that their chain is valid. */
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

  /** Kills all services of a role with SIGKILL. */
  async #kill(role: Role): Promise<void> {
    const services = [...this.#services].filter((one) => one.role === role);
    for (const one of services) this.#services.delete(one);
    await Promise.all(services.map((one) => one.kill9()));
  }

  async close(): Promise<void> {
    await Promise.all([...this.#stops].map((stop) => stop()));
    await Promise.all([...this.#services].map((one) => one.terminate()));
    await this.bus.close();
    await this.store.close({ drainMs: 2_000 });
    await this.#parts.nats.stop();
    await this.#parts.foundationdb?.stop();
    rmSync(this.#parts.folder, { recursive: true, force: true });
  }
}
