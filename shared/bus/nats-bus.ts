/** The bus on NATS: one connection and the parts that share it. Each part documents its guarantees. */
import { type JetStreamClient, type JetStreamManager, jetstream } from "@nats-io/jetstream";
import type { NatsConnection, Status } from "@nats-io/transport-node";
import { errors } from "@nats-io/transport-node";
import type { BusDiagnosis } from "../protocol/diagnosis.ts";
import type { StreamFinding } from "../protocol/fleet-health.ts";
import type { Logger } from "../runtime/observability/log.ts";
import type { Stop } from "../runtime/process/service.ts";
import {
  type AddressedMessage,
  type Bus,
  BusError,
  type BusLink,
  type BusStatus,
  type ConsumeOptions,
  type DirectAnswer,
  type Durability,
  type DurableMessage,
  type DurableOptions,
  type Message,
  type ObjectBucket,
  type OrderedMessage,
  type Outgoing,
  type PublishAck,
  type RequestOptions,
  type ServeOptions,
  type Settlement,
  type StreamView,
} from "./bus.ts";
import { busError } from "./bus-errors.ts";
import { consume, follow } from "./consume/consume.ts";
import { deliverNext, settleDelivery } from "./consume/delivery.ts";
import { messageIds } from "./publish/message-ids.ts";
import { type Publisher, publishDurable } from "./publish/publish.ts";
import { publishOrdered } from "./publish/publish-batch.ts";
import { Refusals } from "./refusals.ts";
import { DirectRequests } from "./request/direct-request.ts";
import { ReceivedMessage } from "./request/message.ts";
import { Requests } from "./request/request.ts";
import { openSubscription, serve, whenSubscribed } from "./request/serve.ts";
import { knowsAtomicBatches, monitoredServers, requireVersion } from "./server-check.ts";
import { type ExpectedFleet, otherFleet, parseServerName } from "./server-name.ts";
import { diagnoseBus } from "./streams/diagnosis.ts";
import { inspectStreams } from "./streams/inspection.ts";
import { objectBucket } from "./streams/object-bucket.ts";
import { type ReconcileAccess, reconcileStream } from "./streams/reconcile.ts";
import { StreamDirectory } from "./streams/stream-directory.ts";
import { streamView } from "./streams/stream-view.ts";
import type { StreamSpec } from "./streams/streams.ts";
import { linkOf } from "./transport.ts";

const DRAIN_MS = 5_000;
/** The pause before the next look at an address where another fleet answers. */
const OTHER_FLEET_MS = 2_000;
/** A restarted server accepts connections before its streams are ready. */
const STREAMS_READY_MS = 15_000;

export interface NatsBusParts {
  readonly connection: NatsConnection;
  readonly inboxPrefix: string;
  readonly log: Logger;
  readonly messageKey: string | undefined;
  readonly expected?: ExpectedFleet | undefined;
  readonly monitorUrls: () => string | undefined;
}

export class NatsBus implements Bus {
  readonly #connection: NatsConnection;
  readonly #log: Logger;
  readonly #monitorUrls: () => string | undefined;
  readonly #expected: ExpectedFleet | undefined;
  readonly #requests: Requests;
  readonly #directRequests: DirectRequests;
  readonly #publisher: Publisher;
  readonly #client: JetStreamClient;
  readonly #manager: Promise<JetStreamManager>;
  readonly #directory: StreamDirectory;
  readonly #stops = new Set<Stop>();
  /** What this connection owns, for inspections. */
  readonly #specs = new Map<string, StreamSpec>();
  readonly #consumers = new Set<ConsumeOptions>();
  readonly #watchers = new Set<(status: BusStatus) => void>();
  readonly #refusals = new Refusals();
  #version: string;
  #closing: Promise<void> | undefined;

  constructor({ connection, inboxPrefix, log, messageKey, expected, monitorUrls }: NatsBusParts) {
    this.#connection = connection;
    // A fleet that has answered once is not replaced by another one in the life of a connection.
    this.#expected = expected ?? firstFleet(connection.info?.server_name);
    this.#log = log;
    this.#monitorUrls = monitorUrls;
    this.#version = connection.info?.version ?? "";
    this.#requests = new Requests(connection, inboxPrefix);
    this.#directRequests = new DirectRequests(connection, inboxPrefix);
    this.#publisher = { requests: this.#requests, ids: messageIds(messageKey), log };
    this.#client = jetstream(connection);
    this.#manager = this.#client.jetstreamManager(false);
    this.#directory = new StreamDirectory(this.#manager, () => knowsAtomicBatches(connection.info), log);
    void this.#watch(connection.status());
  }

  get serverVersion(): string {
    return this.#version;
  }

  get link(): BusLink {
    return linkOf(this.#connection);
  }

  get fleet(): string | undefined {
    return parseServerName(this.#connection.info?.server_name).fleet;
  }

  request(subject: string, out: Outgoing, o: RequestOptions): Promise<Message> {
    return this.#requests.send(subject, out, o);
  }

  requestDirect(subject: string, out: Outgoing, o: RequestOptions): Promise<DirectAnswer> {
    return this.#directRequests.send(subject, out, o);
  }

  gather(
    subject: string,
    out: Outgoing,
    o: RequestOptions,
    onAnswer: (answer: Message) => boolean,
  ): Promise<void> {
    return this.#directRequests.gather(subject, out, o, onAnswer);
  }

  async serve(
    subject: string,
    o: ServeOptions,
    handler: (m: AddressedMessage) => Promise<Outgoing | undefined>,
  ): Promise<Stop> {
    return this.#stoppable(
      await serve({ connection: this.#connection, log: this.#log }, subject, o, handler),
    );
  }

  publish(subject: string, out: Outgoing): void {
    this.#requests.post(subject, out);
  }

  async subscribe(subject: string, handler: (m: Message) => void): Promise<Stop> {
    const subscription = openSubscription(this.#connection, subject, {
      callback: (error, raw) => {
        // The server refused the subscription, which is reported as a status of the connection.
        if (error !== null) return;
        try {
          handler(new ReceivedMessage(raw));
        } catch (failure) {
          this.#log.error({ error: failure, subject }, "subscription handler failed");
        }
      },
    });
    await whenSubscribed(this.#connection, subscription, subject);
    return this.#stoppable(async () => {
      if (!subscription.isClosed() && !this.#connection.isClosed()) await subscription.drain();
    });
  }

  publishDurable(subject: string, out: Outgoing, o: DurableOptions): Promise<PublishAck> {
    return publishDurable(this.#publisher, subject, out, o);
  }

  publishOrdered(messages: readonly OrderedMessage[], o: Omit<DurableOptions, "messageId">): Promise<void> {
    const atomicStreamOf = (subject: string) => this.#directory.atomicStreamOf(subject);
    return publishOrdered({ ...this.#publisher, atomicStreamOf }, messages, o);
  }

  async consume(o: ConsumeOptions, handler: (m: DurableMessage) => Promise<void>): Promise<Stop> {
    const stop = await consume(await this.#access(), o, handler);
    this.#consumers.add(o);
    return this.#stoppable(async () => {
      this.#consumers.delete(o);
      await stop();
    });
  }

  async deliverNext(o: ConsumeOptions, to: { inbox: string; waitMs: number }): Promise<void> {
    await deliverNext(await this.#access(), this.#connection, o, to);
  }

  settleDelivery(delivery: string, settlement: Settlement, o: RequestOptions): Promise<void> {
    return settleDelivery(this.#requests, delivery, settlement, o);
  }

  async follow(
    o: { stream: string; filter: string; from: "new" | "all" },
    handler: (m: Message) => void,
  ): Promise<Stop> {
    return this.#stoppable(await follow(await this.#access(), o, handler));
  }

  stream(name: string): StreamView {
    return streamView(() => this.#access(), name);
  }

  bucket(name: string): ObjectBucket {
    return objectBucket(() => this.#access(), name);
  }

  async reconcileStreams(specs: readonly StreamSpec[]): Promise<void> {
    const access = await this.#streamAccess();
    for (const spec of specs) {
      await whenReady(STREAMS_READY_MS, () => reconcileStream(access, spec));
      this.#specs.set(spec.name, spec);
    }
    this.#directory.forget();
  }

  async inspectStreams({ repair }: { repair: boolean }): Promise<StreamFinding[]> {
    const access = await this.#streamAccess();
    const findings = await inspectStreams(access, [...this.#specs.values()], [...this.#consumers], repair);
    if (findings.some(({ kind, consumer }) => kind === "missing" && consumer === null))
      this.#directory.forget();
    return findings;
  }

  async diagnose(now: () => number): Promise<BusDiagnosis> {
    const { info } = this.#connection;
    if (info === undefined) throw new BusError("unavailable");
    const facts = { info, link: this.link, monitorUrls: this.#monitorUrls(), now };
    const found = await diagnoseBus(await this.#streamAccess(), [...this.#specs.values()], facts);
    return { ...found, refused: this.#refusals.list() };
  }

  refusedRights(): readonly string[] {
    return this.#refusals.list();
  }

  async #streamAccess(): Promise<ReconcileAccess> {
    const { info } = this.#connection;
    return {
      manager: await this.#manager,
      log: this.#log,
      atomic: knowsAtomicBatches(info),
      clustered: info?.cluster !== undefined,
    };
  }

  async proveDurability(): Promise<Durability> {
    const { info } = this.#connection;
    if (info === undefined) throw new BusError("unavailable");
    requireVersion(info.version);
    const servers = await monitoredServers(info, this.#monitorUrls());
    const known = servers.flatMap(({ facts }) => facts ?? []);
    return {
      version: info.version,
      syncAlways: known.find(({ isOwn }) => isOwn)?.syncAlways ?? "unknown",
      unsafe: known.filter(({ syncAlways }) => syncAlways === false).map(({ name }) => name),
      silent: servers.filter(({ facts }) => facts === null).map(({ address }) => address),
    };
  }

  async health(o: { timeoutMs: number }): Promise<{ ok: boolean; detail: string }> {
    try {
      const answer = await this.#requests.send("$JS.API.INFO", { body: new Uint8Array() }, o);
      const { error } = JSON.parse(Buffer.from(answer.body).toString()) as {
        error?: { description?: string };
      };
      if (error !== undefined)
        return { ok: false, detail: error.description ?? "JetStream answered with an error" };
      return { ok: true, detail: `NATS ${this.#version}` };
    } catch (error) {
      const failure = busError(error);
      return {
        ok: false,
        detail: failure.kind === "no_responders" ? "JetStream does not answer" : failure.message,
      };
    }
  }

  onStatus(handler: (status: BusStatus) => void): () => void {
    // Wrapped, so that one function registered twice is two handlers.
    const own = (status: BusStatus) => handler(status);
    this.#watchers.add(own);
    return () => void this.#watchers.delete(own);
  }

  close(o: { drainMs?: number } = {}): Promise<void> {
    this.#closing ??= this.#close(o.drainMs ?? DRAIN_MS);
    return this.#closing;
  }

  async #close(drainMs: number): Promise<void> {
    const drained = (async () => {
      await Promise.all([...this.#stops].map((stop) => stop()));
      await this.#connection.drain();
    })().catch((error: unknown) => this.#log.debug({ error }, "bus did not drain"));
    let timer: NodeJS.Timeout | undefined;
    await Promise.race([drained, new Promise((resolve) => (timer = setTimeout(resolve, drainMs)))]);
    clearTimeout(timer);
    this.#requests.close();
    this.#directRequests.close();
    await this.#connection.close();
  }

  async #access() {
    return { client: this.#client, manager: await this.#manager, log: this.#log };
  }

  /** Keeps `stop` until it was called, so that a closed bus leaves nothing running. */
  #stoppable(stop: Stop): Stop {
    let stopping: Promise<void> | undefined;
    const once: Stop = () => {
      stopping ??= stop().finally(() => this.#stops.delete(once));
      return stopping;
    };
    this.#stops.add(once);
    return once;
  }

  async #watch(statuses: AsyncIterable<Status>): Promise<void> {
    for await (const status of statuses) {
      if (status.type === "disconnect" || status.type === "close") this.#changed("disconnected", status.type);
      else if (status.type === "reconnect") this.#reconnected();
      else if (status.type === "reconnecting") this.#notify("reconnecting");
      else if (status.type === "ldm") this.#notify("lame_duck");
      else if (status.type === "error") this.#refused(status.error);
    }
  }

  /** The server may be that of another fleet, which took the address while this one was down. */
  #reconnected(): void {
    const { fleet } = this;
    if (this.#expected === undefined || fleet === this.#expected.fleet) {
      this.#changed("connected", "reconnect");
      return;
    }
    this.#log.error(otherFleet(this.#expected, fleet), "another fleet answers at the address");
    this.#notify("other_fleet");
    const again = () => void this.#connection.reconnect().catch(() => {});
    setTimeout(again, OTHER_FLEET_MS).unref();
  }

  #changed(status: "connected" | "disconnected", cause: string): void {
    this.#version = this.#connection.info?.version ?? this.#version;
    for (const requests of [this.#requests, this.#directRequests]) {
      if (cause === "close") requests.close();
      else requests.connectionChanged(status === "connected");
    }
    this.#directory.forget();
    if (this.#closing === undefined) this.#log.warn({ status, cause }, "bus connection changed");
    if (status === "disconnected") this.#notify(status);
    else void this.#announce();
  }

  /** The library has sent our subscriptions again. Only an answered ping proves that the server has them. */
  async #announce(): Promise<void> {
    try {
      await this.#connection.flush();
      this.#notify("connected");
    } catch (error) {
      this.#log.debug({ error }, "bus connection broke again");
    }
  }

  #refused(error: Error): void {
    if (!(error instanceof errors.PermissionViolationError)) {
      this.#log.warn({ error }, "bus server reported an error");
      return;
    }
    const { operation, subject } = error;
    this.#log.warn({ operation, subject }, "the bus does not permit this");
    this.#refusals.add(operation, subject);
    if (operation !== "publish") return;
    this.#requests.denied(error.subject, error.message);
    this.#directRequests.denied(error.subject, error.message);
  }

  #notify(status: BusStatus): void {
    for (const watcher of this.#watchers) {
      try {
        watcher(status);
      } catch (error) {
        this.#log.error({ error, status }, "bus status handler failed");
      }
    }
  }
}

function firstFleet(serverName: string | undefined): ExpectedFleet | undefined {
  const { fleet } = parseServerName(serverName);
  return fleet === undefined ? undefined : { fleet, home: "this process" };
}

async function whenReady<T>(withinMs: number, attempt: () => Promise<T>): Promise<T> {
  const end = performance.now() + withinMs;
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof BusError) || !error.retryable || performance.now() > end) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}
