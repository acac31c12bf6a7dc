/** A pull consumer: which message it delivers next, and what becomes of a message that is not settled. */
import type { ConsumerConfig } from "@nats-io/jetstream";
import type { SimulatedFate } from "../faults/plan.ts";
import { subjectTokens } from "../subjects.ts";
import { Alarm, type Runner } from "../time.ts";
import { extendedHeaders } from "../wire.ts";
import { isFiltered, type StoredMessage, type StoredMessages } from "./stored-messages.ts";
import { type Deliveries, WaitingPulls } from "./waiting-pulls.ts";

const NANOS_PER_MS = 1_000_000;
const EPHEMERAL_MS = 5_000;
/** So many of the latest acknowledgements a server may forget in a crash. */
const FORGOTTEN_MAX = 5;

interface Open {
  /** The number of the first delivery. */
  readonly delivery: number;
  /** When the message is delivered again, in the time of `performance`. */
  againAt: number;
}

/** The stream as its consumers see it. */
export interface ConsumedStream {
  readonly config: { readonly name: string };
  readonly isWorkQueue: boolean;
  readonly messages: StoredMessages;
  readonly consumers: Map<string, SimulatedConsumer>;
  remove(seq: number): boolean;
}

export interface ConsumerParts {
  readonly stream: ConsumedStream;
  readonly name: string;
  readonly deliveries: Deliveries;
  readonly fate: SimulatedFate;
  readonly run: Runner;
}

export class SimulatedConsumer {
  config: ConsumerConfig;
  readonly name: string;
  readonly created = new Date().toISOString();
  readonly pulls: WaitingPulls;
  readonly #parts: ConsumerParts;
  readonly #stream: ConsumedStream;
  readonly #alarm: Alarm;
  #filters: string[][] = [];
  /** The position from which messages were not delivered yet. */
  #nextSeq: number;
  /** The number of the next delivery. */
  #nextDelivery = 1;
  /** Unsettled messages by position. */
  readonly #open = new Map<number, Open>();
  /** Positions that are to be delivered again, lowest first. */
  #again: number[] = [];
  readonly #counts = new Map<number, number>();
  #unseen: number;
  #floor = { consumer_seq: 0, stream_seq: 0 };
  #settled: number[] = [];
  #usedAt = performance.now();
  #isClosed = false;

  constructor(parts: ConsumerParts, config: ConsumerConfig) {
    this.#parts = parts;
    this.#stream = parts.stream;
    this.name = parts.name;
    this.config = config;
    this.pulls = new WaitingPulls(parts.deliveries);
    this.#alarm = new Alarm(parts.run, () => this.#due());
    this.#nextSeq = this.#start();
    this.#unseen = 0;
    this.configure(config);
    this.#floor.stream_seq = this.#nextSeq - 1;
    this.#schedule();
  }

  get isDurable(): boolean {
    return this.config.durable_name !== undefined && this.config.durable_name !== "";
  }

  get filters(): readonly string[] {
    const { filter_subjects: many, filter_subject: one } = this.config;
    return many ?? (one === undefined || one === "" ? [] : [one]);
  }

  configure(config: ConsumerConfig): void {
    this.config = config;
    this.#filters = this.filters.map(subjectTokens);
    this.#unseen = [...this.#stream.messages.from(this.#nextSeq, this.#filters)].length;
    this.deliver();
  }

  info(): object {
    const last = { consumer_seq: this.#nextDelivery - 1, stream_seq: this.#nextSeq - 1 };
    return {
      stream_name: this.#stream.config.name,
      name: this.name,
      created: this.created,
      config: this.config,
      delivered: last,
      ack_floor: this.#floor,
      num_ack_pending: this.#open.size,
      num_redelivered: [...this.#counts.values()].filter((count) => count > 1).length,
      num_waiting: this.pulls.count,
      num_pending: this.#unseen,
      ts: new Date().toISOString(),
    };
  }

  pull(inbox: string, body: Buffer): void {
    this.#usedAt = performance.now();
    this.pulls.add(inbox, body, this.config.max_waiting ?? 512);
    this.deliver();
  }

  stored(message: StoredMessage): void {
    if (message.seq >= this.#nextSeq && isFiltered(this.#filters, message.tokens)) this.#unseen += 1;
  }

  removed({ seq, tokens }: StoredMessage): void {
    if (seq >= this.#nextSeq && isFiltered(this.#filters, tokens)) this.#unseen -= 1;
    this.#forget(seq);
  }

  deliver(): void {
    if (this.#isClosed) return;
    for (let inbox = this.pulls.peek(); inbox !== undefined; inbox = this.pulls.peek()) {
      const message = this.#next();
      if (message === undefined) break;
      this.pulls.take();
      this.#send(message, inbox);
    }
    this.#schedule();
  }

  /** `seq`: the position of the message. */
  settle(seq: number, settlement: string): void {
    this.#usedAt = performance.now();
    const open = this.#open.get(seq);
    if (settlement.startsWith("-NAK")) this.#giveBack(seq, open, settlement.slice("-NAK".length).trim());
    else if (settlement.startsWith("+WPI")) {
      if (open !== undefined) open.againAt = performance.now() + this.#waitMs;
    } else this.#settle(seq);
    this.deliver();
  }

  /** What the server keeps on disk about a durable stays, and its waiting requests are gone. */
  restart(): void {
    this.pulls.end(undefined);
    if (this.config.mem_storage === true || !this.isDurable) {
      this.close(undefined);
      return;
    }
    if (this.#stream.isWorkQueue || !this.#parts.fate.hasForgotten()) return;
    for (const seq of this.#settled.splice(-1 - this.#parts.fate.choice(FORGOTTEN_MAX))) {
      if (this.#stream.messages.get(seq) === undefined) continue;
      this.#open.set(seq, { delivery: this.#nextDelivery - 1, againAt: 0 });
      this.#redeliver(seq);
    }
  }

  /** `status`: for the waiting requests. */
  close(status: string | undefined): void {
    this.#isClosed = true;
    this.#alarm.stop();
    this.pulls.end(status === undefined ? undefined : `409 ${status}`);
    this.#stream.consumers.delete(this.name);
  }

  get #isExplicit(): boolean {
    return this.config.ack_policy === "explicit";
  }

  get #waitMs(): number {
    return (this.config.ack_wait ?? 0) / NANOS_PER_MS;
  }

  #start(): number {
    const { deliver_policy: policy, opt_start_seq: start = 1 } = this.config;
    if (policy === "by_start_sequence") return start;
    return policy === "new" ? this.#stream.messages.nextSeq : this.#stream.messages.firstSeq;
  }

  #next(): StoredMessage | undefined {
    for (;;) {
      const seq = this.#again.shift();
      if (seq === undefined) break;
      const message = this.#stream.messages.get(seq);
      if (message !== undefined && this.#open.has(seq)) return message;
    }
    const most = this.config.max_ack_pending ?? -1;
    if (this.#isExplicit && most > 0 && this.#open.size >= most) return undefined;
    const message = this.#stream.messages.next(this.#nextSeq, this.#filters);
    this.#nextSeq =
      message === undefined ? Math.max(this.#nextSeq, this.#stream.messages.nextSeq) : message.seq + 1;
    if (message !== undefined) this.#unseen -= 1;
    return message;
  }

  #send(message: StoredMessage, inbox: string): void {
    const { seq, subject, headers, body, at } = message;
    const count = (this.#counts.get(seq) ?? 0) + 1;
    const delivery = this.#nextDelivery;
    this.#nextDelivery += 1;
    if (this.#isExplicit) {
      this.#counts.set(seq, count);
      const againAt = performance.now() + this.#waitMs * this.#parts.fate.partOfWait();
      const open = this.#open.get(seq);
      if (open === undefined) this.#open.set(seq, { delivery, againAt });
      else open.againAt = againAt;
    }
    const reply = `$JS.ACK.${this.#stream.config.name}.${this.name}.${count}.${seq}.${delivery}.${at * NANOS_PER_MS}.${this.#unseen}`;
    const bare = this.config.headers_only === true;
    const sent = bare ? extendedHeaders(headers, { "Nats-Msg-Size": body.length }) : headers;
    this.#parts.deliveries.send(inbox, {
      subject,
      reply,
      ...(sent !== undefined && { headers: sent }),
      body: bare ? body.subarray(0, 0) : body,
    });
  }

  #settle(seq: number): void {
    if (!this.#open.has(seq)) return;
    this.#settled = [...this.#settled.slice(1 - FORGOTTEN_MAX), seq];
    this.#forget(seq);
    if (this.#stream.isWorkQueue) this.#stream.remove(seq);
  }

  #giveBack(seq: number, open: Open | undefined, options: string): void {
    if (open === undefined) return;
    const { delay = 0 } = options === "" ? {} : (JSON.parse(options) as { delay?: number });
    if (delay > 0) open.againAt = performance.now() + delay / NANOS_PER_MS;
    else this.#redeliver(seq);
  }

  #redeliver(seq: number): void {
    const open = this.#open.get(seq)!;
    open.againAt = Infinity;
    if (!this.#again.includes(seq)) this.#again = [...this.#again, seq].sort((a, b) => a - b);
  }

  #forget(seq: number): void {
    const open = this.#open.get(seq);
    this.#counts.delete(seq);
    if (open === undefined) return;
    this.#open.delete(seq);
    this.#again = this.#again.filter((one) => one !== seq);
    if (this.#open.size === 0)
      this.#floor = { consumer_seq: this.#nextDelivery - 1, stream_seq: this.#nextSeq - 1 };
    else if (open.delivery === this.#floor.consumer_seq + 1) this.#raiseFloor(seq, open.delivery);
  }

  /** Up to the next message that is not settled. */
  #raiseFloor(seq: number, delivery: number): void {
    this.#floor = { consumer_seq: delivery, stream_seq: seq };
    for (let next = seq + 1; next < this.#nextSeq; next += 1) {
      const open = this.#open.get(next);
      if (open === undefined) continue;
      this.#floor = { consumer_seq: open.delivery - 1, stream_seq: next - 1 };
      return;
    }
  }

  #due(): void {
    const now = performance.now();
    for (const [seq, open] of this.#open) if (open.againAt <= now) this.#redeliver(seq);
    this.pulls.report(this.#nextDelivery - 1, this.#nextSeq - 1);
    if (this.#forgottenAt <= now) this.close(undefined);
    else this.deliver();
  }

  /** When a consumer that no client uses is removed. */
  get #forgottenAt(): number {
    const threshold = (this.config.inactive_threshold ?? 0) / NANOS_PER_MS;
    const ms = threshold > 0 ? threshold : this.isDurable ? Infinity : EPHEMERAL_MS;
    return this.pulls.peek() === undefined ? this.#usedAt + ms : Infinity;
  }

  #schedule(): void {
    let soonest = Math.min(this.pulls.nextAt, this.#forgottenAt);
    for (const { againAt } of this.#open.values()) soonest = Math.min(soonest, againAt);
    if (soonest < Infinity) this.#alarm.by(soonest);
  }
}
