/**
 * A nats-server in the memory of this process, for simulations: subscriptions, queue groups, streams and consumers, with the faults of a
 * plan. Clients reach it through the production code of the bus and the library below it; only the socket is replaced.
 *
 * All its time is that of the global timers, and all its chance is `random`. So a seed has one history, where the library's own use of
 * time and chance is seeded as well.
 */
import {
  errors,
  type NatsConnection,
  NatsConnectionImpl,
  nuid,
  setTransportFactory,
} from "@nats-io/transport-node";
import type { Bus } from "../../../shared/bus/bus.ts";
import { busError } from "../../../shared/bus/bus-errors.ts";
import { RECONNECTING } from "../../../shared/bus/connection.ts";
import { NatsBus } from "../../../shared/bus/nats-bus.ts";
import { RECOMMENDED_SERVER } from "../../../shared/bus/server-check.ts";
import { fleetServerName } from "../../../shared/bus/server-name.ts";
import { LIMITS } from "../../../shared/protocol/limits.ts";
import { SUBJECTS } from "../../../shared/protocol/subjects.ts";
import type { Logger } from "../../../shared/runtime/observability/log.ts";
import { type ConnectionHost, SimulatedConnection } from "./connection.ts";
import { type BusFaults, fateOf, type SimulatedFate, type TimedFault } from "./faults/plan.ts";
import { Router } from "./router.ts";
import { StreamSet } from "./streams/stream-set.ts";
import type { Deliveries } from "./streams/waiting-pulls.ts";
import { Alarm, runnerOfCaller } from "./time.ts";
import { type ClientEnd, type SimulatedOptions, SimulatedTransport } from "./transport.ts";
import type { Publication } from "./wire.ts";

const ADDRESS = "127.0.0.1:4222";
const CONNECT_MS = 2_000;

export interface SimulatedServerOptions {
  /** From 0 to below 1. */
  readonly random: () => number;
  readonly faults?: BusFaults;
  /** Of all streams together. Default: unlimited. */
  readonly storageBytes?: number;
  /** The name of the connections to which no message is lost, so that what they record is what others may have received. */
  readonly witness?: string;
  /** The identity of the fleet, in hex. */
  readonly fleet?: string;
  /** Sees each frame that arrives: `>` at the server, `<` at the client. */
  readonly observe?: (connection: string, direction: ">" | "<", frame: Uint8Array) => void;
}

export interface SimulatedBusOptions {
  /** Names the connection in faults. Several connections may have the same name. */
  readonly name: string;
  readonly identity: string;
  readonly service?: string;
  /** Of a client. Absent: the connection is a service's. */
  readonly tenant?: string;
  readonly log: Logger;
  readonly messageKey?: string;
}

/** A program with a connection, which keeps its name when it connects again. */
interface Client {
  readonly name: string;
  isDead: boolean;
}

/** Every connection is blocked. */
const ALL = "*";

export class SimulatedBusServer {
  readonly #connections = new Map<SimulatedConnection, Client>();
  readonly #router: Router;
  readonly #streams: StreamSet;
  readonly #host: ConnectionHost;
  readonly #fate: SimulatedFate;
  readonly #plan: Alarm;
  /** What is to happen, by time. */
  #events: { readonly at: number; readonly happen: () => void }[] = [];
  /** The names of the connections on whose way nothing passes. */
  readonly #blocked = new Map<string, PromiseWithResolvers<void>>();
  readonly #clients = new Set<Client>();
  #isRunning = true;

  constructor({ random, faults = {}, storageBytes, witness, fleet, observe }: SimulatedServerOptions) {
    const run = runnerOfCaller();
    this.#fate = fateOf(random, faults);
    this.#router = new Router(this.#fate, witness);
    this.#plan = new Alarm(run, () => this.#happen());
    this.#host = {
      run,
      fate: this.#fate,
      info: infoOf(fleet),
      subscribed: (one) => this.#router.add(one),
      unsubscribed: (one) => this.#router.remove(one),
      published: (from, message) => this.#published(from, message),
      closed: (one) => void this.#connections.delete(one),
      observe: observe ?? (() => {}),
    };
    const deliveries: Deliveries = {
      hasInterest: (inbox) => this.#router.hasInterest(inbox),
      send: (inbox, message) => this.#router.answer(inbox, message),
    };
    const parts = {
      deliveries,
      fate: this.#fate,
      run,
      storageBytes: storageBytes ?? Number.MAX_SAFE_INTEGER,
    };
    this.#streams = new StreamSet(parts, (reply, message, kind) => {
      if (kind === "confirmation" && this.#fate.isLostConfirmation()) return;
      this.#router.answer(reply, { subject: reply, ...message });
    });
    for (const fault of faults.timed ?? []) this.#after(fault.at, () => this.#begin(fault));
    seedInboxes(random);
  }

  /** A bus on the production code. Throws BusError without a server. */
  async connect({ name, identity, service, tenant, log, messageKey }: SimulatedBusOptions): Promise<Bus> {
    const inboxPrefix =
      tenant === undefined
        ? SUBJECTS.serviceInboxPrefix(service ?? identity, identity)
        : SUBJECTS.inboxPrefix(tenant, identity);
    const connection = await this.open(name, inboxPrefix).catch((error: unknown) => {
      throw busError(error, { url: ADDRESS });
    });
    return new NatsBus({ connection, inboxPrefix, log, messageKey, monitorUrls: () => undefined });
  }

  /** A connection without the parts of Fleet. */
  open(name: string, inboxPrefix?: string): Promise<NatsConnection> {
    const client: Client = { name, isDead: false };
    this.#clients.add(client);
    setTransportFactory({ factory: () => new SimulatedTransport() });
    const options: SimulatedOptions = {
      servers: [ADDRESS],
      name,
      timeout: CONNECT_MS,
      ...(inboxPrefix !== undefined && { inboxPrefix }),
      ...RECONNECTING,
      dial: (end) => this.#dial(client, end),
    };
    return NatsConnectionImpl.connect(options);
  }

  /** Breaks the sockets of this name. Their clients connect again. */
  cut(name: string): void {
    for (const one of this.#named(name)) one.close();
  }

  /** From now on nothing passes to and from the connections of this name. Neither side notices, except by silence. */
  block(name: string): void {
    if (!this.#blocked.has(name)) this.#blocked.set(name, Promise.withResolvers());
    for (const one of this.#named(name)) one.hold();
  }

  unblock(name: string): void {
    this.#blocked.get(name)?.resolve();
    this.#blocked.delete(name);
    // A stall of another connection does not end.
    for (const one of this.#named(name)) if (!this.#isBlocked(one)) one.release();
  }

  /** The program with this name is dead: nothing of it arrives any more, and nothing reaches it. */
  kill(name: string): void {
    for (const client of this.#clients) {
      if (client.name !== name) continue;
      client.isDead = true;
      this.#clients.delete(client);
    }
    for (const one of this.#named(name)) one.abandon();
  }

  /** The server ends without a chance to clean up. */
  stop(): void {
    this.#isRunning = false;
    for (const one of [...this.#connections.keys()]) one.close();
  }

  /** Starts again after {@link stop}, with its streams. */
  start(): void {
    this.#streams.restart();
    this.#isRunning = true;
  }

  /** Ends all faults, those of the plan and those of calls. */
  heal(): void {
    this.#events = [];
    this.#fate.end();
    for (const name of [...this.#blocked.keys()]) this.unblock(name);
    for (const one of this.#connections.keys()) one.release();
    if (!this.#isRunning) this.start();
  }

  /** Everything hangs, with open connections, until {@link resume}. */
  pause(): void {
    this.block(ALL);
  }

  resume(): void {
    this.unblock(ALL);
  }

  #named(name: string): SimulatedConnection[] {
    return [...this.#connections]
      .filter(([, client]) => name === ALL || client.name === name)
      .map(([one]) => one);
  }

  #isBlocked({ name }: Pick<Client, "name">): boolean {
    return this.#blocked.has(name) || this.#blocked.has(ALL);
  }

  async #dial(client: Client, end: ClientEnd): Promise<SimulatedConnection> {
    await new Promise((resolve) => setTimeout(resolve, this.#fate.hop()));
    while (this.#isBlocked(client)) await (this.#blocked.get(client.name) ?? this.#blocked.get(ALL))?.promise;
    if (client.isDead) return new Promise(() => {});
    if (!this.#isRunning) throw new errors.ConnectionError("connection refused");
    const connection = new SimulatedConnection(client.name, this.#host, end);
    this.#connections.set(connection, client);
    return connection;
  }

  #published(from: SimulatedConnection, message: Publication): void {
    const isDelivered = this.#router.publish(message);
    const isReceived = this.#streams.receive(message);
    if (isDelivered || isReceived || message.reply === undefined) return;
    this.#router.refuse(from, message.reply);
  }

  #after(ms: number, happen: () => void): void {
    const at = performance.now() + ms;
    this.#events = [...this.#events, { at, happen }].sort((a, b) => a.at - b.at);
    this.#plan.by(at);
  }

  #happen(): void {
    while (this.#events.length > 0 && this.#events[0]!.at <= performance.now())
      this.#events.shift()!.happen();
    if (this.#events.length > 0) this.#plan.by(this.#events[0]!.at);
  }

  #begin(fault: TimedFault): void {
    switch (fault.kind) {
      case "cut":
        this.cut(fault.connection);
        break;
      case "partition":
        this.block(fault.connection);
        this.#after(fault.forMs, () => this.unblock(fault.connection));
        break;
      case "stall": {
        const stalled = this.#named(fault.connection);
        for (const one of stalled) one.stall();
        this.#after(fault.forMs, () => {
          for (const one of stalled) one.release();
        });
        break;
      }
      case "restart":
        this.stop();
        this.#after(fault.forMs, () => this.start());
        break;
    }
  }
}

const infoOf = (fleet: string | undefined) => ({
  server_id: "SIMULATED",
  server_name: fleet === undefined ? "fleet-1" : fleetServerName(fleet, "1"),
  version: RECOMMENDED_SERVER,
  proto: 1,
  host: "127.0.0.1",
  port: 4222,
  headers: true,
  max_payload: LIMITS.message_bytes_max,
  jetstream: true,
});

/** The names of inboxes come from one generator of the library, which lives as long as the process. */
function seedInboxes(random: () => number): void {
  const { crypto } = globalThis;
  const chance = Math.random;
  const own = Object.getOwnPropertyDescriptor(crypto, "getRandomValues");
  const value = (bytes: Uint8Array) => bytes.map((_, place) => (bytes[place] = Math.floor(random() * 256)));
  Object.defineProperty(crypto, "getRandomValues", { value, configurable: true });
  Math.random = random;
  try {
    nuid.reset();
  } finally {
    Math.random = chance;
    if (own === undefined) Reflect.deleteProperty(crypto, "getRandomValues");
    else Object.defineProperty(crypto, "getRandomValues", own);
  }
}
