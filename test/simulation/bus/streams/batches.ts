/** Atomic batches of messages: all of a batch are stored with its last one, or none. */
import { headerField, type Publication } from "../wire.ts";
import { PROBLEMS } from "./api-problem.ts";
import type { SimulatedStream } from "./stream.ts";

/** The server drops a batch without a further message for this long. */
const IDLE_MS = 10_000;

interface Batch {
  readonly stream: SimulatedStream;
  readonly messages: Publication[];
  touchedAt: number;
}

export const batchOf = ({ headers }: Publication): string | undefined =>
  headerField(headers, "Nats-Batch-Id");

export class Batches {
  readonly #open = new Map<string, Batch>();

  /** undefined: more messages are to follow. Throws ApiProblem; then nothing is stored, and the batch is dropped. */
  add(stream: SimulatedStream, id: string, message: Publication): object | undefined {
    const now = performance.now();
    for (const [one, { touchedAt }] of this.#open) if (touchedAt + IDLE_MS < now) this.#open.delete(one);
    const batch = this.#open.get(id) ?? { stream, messages: [], touchedAt: now };
    this.#open.delete(id);
    if (stream.config.allow_atomic !== true) throw PROBLEMS.batchDisabled();
    const place = Number(headerField(message.headers, "Nats-Batch-Sequence"));
    if (batch.stream !== stream || place !== batch.messages.length + 1) throw PROBLEMS.batchIncomplete();
    batch.messages.push(message);
    if (stream.knowsId(message)) throw PROBLEMS.batchDuplicate();
    stream.requireAcceptable(message);
    if (headerField(message.headers, "Nats-Batch-Commit") === "1") return stored(batch, id);
    batch.touchedAt = now;
    this.#open.set(id, batch);
    return undefined;
  }

  /** A server that ends has stored none of an open batch. */
  clear(): void {
    this.#open.clear();
  }
}

function stored({ stream, messages }: Batch, id: string): object {
  for (const message of messages) {
    if (stream.knowsId(message)) throw PROBLEMS.batchDuplicate();
    stream.requireAcceptable(message);
  }
  const ids = new Set(messages.map(({ headers }) => headerField(headers, "Nats-Msg-Id")));
  if (ids.size < messages.length && !ids.has(undefined)) throw PROBLEMS.batchDuplicate();
  const seqs = messages.map((message) => stream.store(message).seq);
  return { seq: seqs.at(-1), batch: id, count: messages.length };
}
