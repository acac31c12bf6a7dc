/** One stream: what it accepts, what it stores, and what it removes. */
import type { StreamConfig } from "@nats-io/jetstream";
import { subjectTokens, transformed } from "../subjects.ts";
import { Alarm, type Runner } from "../time.ts";
import { headerField, type Publication } from "../wire.ts";
import { PROBLEMS } from "./api-problem.ts";
import type { SimulatedConsumer } from "./consumer.ts";
import { StoredMessages, storedSize } from "./stored-messages.ts";

const NANOS_PER_MS = 1_000_000;
const MESSAGE_ID = "Nats-Msg-Id";

export interface Confirmation {
  readonly seq: number;
  readonly duplicate?: boolean;
}

export class SimulatedStream {
  config: StreamConfig;
  readonly created = new Date().toISOString();
  readonly messages = new StoredMessages();
  readonly consumers = new Map<string, SimulatedConsumer>();
  /** The ids of the window, oldest first. */
  readonly #ids = new Map<string, { readonly seq: number; readonly at: number }>();
  readonly #expiry: Alarm;

  constructor(config: StreamConfig, run: Runner) {
    this.config = config;
    this.#expiry = new Alarm(run, () => this.#expire());
  }

  get isWorkQueue(): boolean {
    return this.config.retention === "workqueue";
  }

  /** Throws ApiProblem. Consumers learn of the message by {@link announce}. */
  store(message: Publication): Confirmation {
    this.#requireForm(message);
    const id = headerField(message.headers, MESSAGE_ID);
    const known = id === undefined ? undefined : this.#known(id);
    if (known !== undefined) return { seq: known, duplicate: true };
    this.#requireRoom(message);
    const at = Date.now();
    const { subject, rollup } = this.#form(message);
    const one = this.messages.add({ ...message, subject }, at);
    if (id !== undefined) this.#ids.set(id, { seq: one.seq, at });
    if (rollup) for (const seq of [...this.messages.positions(subject)].slice(0, -1)) this.remove(seq);
    this.#enforceLimits(subject);
    if (this.config.max_age > 0) this.#expiry.by(this.#expiresIn(at));
    for (const consumer of this.consumers.values()) consumer.stored(one);
    return { seq: one.seq };
  }

  /** Lets the consumers deliver what was stored. */
  announce(): void {
    for (const consumer of this.consumers.values()) consumer.deliver();
  }

  /** Throws ApiProblem for a message that would be refused. */
  requireAcceptable(message: Publication): void {
    this.#requireForm(message);
    this.#requireRoom(message);
  }

  /** In the order of nats-server. */
  #requireForm(message: Publication): void {
    const { max_msg_size: largest = -1, allow_rollup_hdrs: mayReplace } = this.config;
    const bytes = message.body.length + (message.headers?.length ?? 0);
    if (largest > 0 && bytes > largest) throw PROBLEMS.tooLarge();
    const { subject, rollup } = this.#form(message);
    const last = this.messages.positions(subject).at(-1) ?? 0;
    const expected = headerField(message.headers, "Nats-Expected-Last-Subject-Sequence");
    if (expected !== undefined && Number(expected) !== last) throw PROBLEMS.wrongLastSequence(last);
    if (rollup && mayReplace !== true) throw PROBLEMS.rollupDenied();
  }

  #requireRoom(message: Publication): void {
    const { max_bytes: room, discard, max_msgs_per_subject: most = -1 } = this.config;
    if (discard !== "new" || room <= 0) return;
    const { subject } = this.#form(message);
    const size = storedSize({ ...message, subject });
    if (this.messages.bytes + size <= room) return;
    const seqs = this.messages.positions(subject);
    const replaced = most > 0 && seqs.length >= most ? (this.messages.get(seqs[0]!)?.size ?? 0) : 0;
    // As in nats-server: the message that it replaces must be as large.
    if (replaced < size) throw PROBLEMS.full();
  }

  knowsId(message: Publication): boolean {
    const id = headerField(message.headers, MESSAGE_ID);
    return id !== undefined && this.#known(id) !== undefined;
  }

  /** False: there is no such message. */
  remove(seq: number): boolean {
    const one = this.messages.remove(seq);
    if (one === undefined) return false;
    for (const consumer of this.consumers.values()) consumer.removed(one);
    return true;
  }

  /** Returns the number of removed messages. */
  purge({ filter = ">", seq, keep = 0 }: { filter?: string; seq?: number; keep?: number }): number {
    const found = [...this.messages.from(1, [subjectTokens(filter)])];
    const before = seq === undefined ? found : found.filter((one) => one.seq < seq);
    const removed = keep > 0 ? before.slice(0, -keep) : before;
    for (const one of removed) this.remove(one.seq);
    for (const consumer of this.consumers.values()) consumer.deliver();
    return removed.length;
  }

  /** A new configuration. Messages beyond its limits are removed. */
  update(config: StreamConfig): void {
    this.config = config;
    for (const subject of Object.keys(this.messages.counts(">"))) this.#enforceLimits(subject);
    if (this.messages.oldest !== undefined && config.max_age > 0)
      this.#expiry.by(this.#expiresIn(this.messages.oldest.at));
  }

  /** The ids are those of the stored messages after a restart: a work queue forgets those of settled ones. */
  restart(): void {
    const before = [...this.#ids];
    this.#ids.clear();
    for (const [id, { seq, at }] of before) if (this.messages.get(seq)) this.#ids.set(id, { seq, at });
    for (const consumer of [...this.consumers.values()]) consumer.restart();
  }

  close(): void {
    this.#expiry.stop();
    for (const consumer of [...this.consumers.values()]) consumer.close("Consumer Deleted");
  }

  #form({ subject, headers }: Publication): { readonly subject: string; readonly rollup: boolean } {
    const { subject_transform: transform } = this.config;
    const { src = "", dest = "" } = transform ?? {};
    const form = transform === undefined ? subject : transformed({ src, dest }, subject);
    return { subject: form, rollup: headerField(headers, "Nats-Rollup") === "sub" };
  }

  #known(id: string): number | undefined {
    const since = Date.now() - this.config.duplicate_window / NANOS_PER_MS;
    for (const [one, { at }] of this.#ids) {
      if (at > since) break;
      this.#ids.delete(one);
    }
    return this.#ids.get(id)?.seq;
  }

  #enforceLimits(subject: string): void {
    const { max_msgs_per_subject: most = -1, max_bytes: room } = this.config;
    while (most > 0 && this.messages.positions(subject).length > most)
      this.remove(this.messages.positions(subject)[0]!);
    while (room > 0 && this.messages.bytes > room) this.remove(this.messages.firstSeq);
  }

  /** In the time of `performance`. */
  #expiresIn(storedAt: number): number {
    return performance.now() + storedAt + this.config.max_age / NANOS_PER_MS - Date.now();
  }

  #expire(): void {
    const since = Date.now() - this.config.max_age / NANOS_PER_MS;
    if (this.config.max_age <= 0) return;
    for (let one = this.messages.oldest; one !== undefined; one = this.messages.oldest) {
      if (one.at > since) {
        this.#expiry.by(this.#expiresIn(one.at));
        return;
      }
      this.remove(one.seq);
    }
  }
}
