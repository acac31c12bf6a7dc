/** All streams of the simulated server: which of them stores a message, and the interface to them. */
import type { StreamConfig } from "@nats-io/jetstream";
import type { SimulatedFate } from "../faults/plan.ts";
import { SubjectTree } from "../subjects.ts";
import type { Runner } from "../time.ts";
import type { Publication } from "../wire.ts";
import { ApiProblem, PROBLEMS } from "./api-problem.ts";
import { Batches, batchOf } from "./batches.ts";
import type { SimulatedConsumer } from "./consumer.ts";
import {
  type ConsumerRequest,
  consumerInfo,
  deleteConsumer,
  listConsumers,
  putConsumer,
} from "./consumer-api.ts";
import type { SimulatedStream } from "./stream.ts";
import {
  accountInfo,
  createStream,
  deleteMessage,
  deleteStream,
  getDirectly,
  getMessage,
  purgeStream,
  streamInfo,
  streamNames,
  updateStream,
} from "./stream-api.ts";
import type { StreamCollection } from "./stream-collection.ts";
import type { Deliveries } from "./waiting-pulls.ts";

const API = "$JS.API.";
const ACK = "$JS.ACK.";

export interface StreamSetParts {
  readonly deliveries: Deliveries;
  readonly fate: SimulatedFate;
  readonly run: Runner;
  readonly storageBytes: number;
}

/** What an answer is: of the interface, or the confirmation of a stored message. */
export type AnswerKind = "answer" | "confirmation";

export class StreamSet implements StreamCollection {
  readonly streams = new Map<string, SimulatedStream>();
  readonly deliveries: Deliveries;
  readonly fate: SimulatedFate;
  readonly run: Runner;
  readonly storageBytes: number;
  readonly #bySubject = new SubjectTree<SimulatedStream>();
  readonly #batches = new Batches();
  readonly #answer: (reply: string, message: { headers?: Buffer; body: Buffer }, kind: AnswerKind) => void;

  constructor(
    { deliveries, fate, run, storageBytes }: StreamSetParts,
    answer: (reply: string, message: { headers?: Buffer; body: Buffer }, kind: AnswerKind) => void,
  ) {
    this.deliveries = deliveries;
    this.fate = fate;
    this.run = run;
    this.storageBytes = storageBytes;
    this.#answer = answer;
  }

  add(stream: SimulatedStream): void {
    this.streams.set(stream.config.name, stream);
    for (const subject of stream.config.subjects) this.#bySubject.add(subject, stream);
  }

  remove(stream: SimulatedStream): void {
    this.streams.delete(stream.config.name);
    for (const subject of stream.config.subjects) this.#bySubject.remove(subject, stream);
  }

  /** False: no stream, consumer or question has this subject. */
  receive(message: Publication): boolean {
    if (message.subject.startsWith(API)) return this.#asked(message, message.subject.slice(API.length));
    if (message.subject.startsWith(ACK)) return this.#settled(message);
    const [stream] = this.#bySubject.match(message.subject);
    if (stream !== undefined) this.#store(stream, message);
    return stream !== undefined;
  }

  restart(): void {
    this.#batches.clear();
    for (const stream of this.streams.values()) stream.restart();
  }

  #store(stream: SimulatedStream, message: Publication): void {
    const { name } = stream.config;
    const batch = batchOf(message);
    let confirmation: object | undefined;
    try {
      const stored = batch === undefined ? stream.store(message) : this.#batches.add(stream, batch, message);
      confirmation = stored && { stream: name, ...stored };
    } catch (problem) {
      if (!(problem instanceof ApiProblem)) throw problem;
      confirmation = { error: problem, stream: name, seq: 0 };
    }
    if (confirmation !== undefined && message.reply !== undefined)
      this.#answer(message.reply, { body: Buffer.from(JSON.stringify(confirmation)) }, "confirmation");
    stream.announce();
  }

  #settled({ subject, reply, body }: Publication): boolean {
    const [, , name = "", consumerName = "", , seq] = subject.split(".");
    const consumer = this.streams.get(name)?.consumers.get(consumerName);
    if (consumer === undefined) return false;
    if (this.fate.isLostAcknowledgement()) return true;
    consumer.settle(Number(seq), body.toString());
    if (reply !== undefined) this.#answer(reply, { body: Buffer.alloc(0) }, "answer");
    return true;
  }

  #asked(message: Publication, question: string): boolean {
    const { reply, body } = message;
    const words = question.split(".");
    if (question.startsWith("CONSUMER.MSG.NEXT.")) {
      if (reply !== undefined) this.streams.get(words[3]!)?.consumers.get(words[4]!)?.pull(reply, body);
      return true;
    }
    if (reply === undefined) return true;
    const asked = body.length === 0 ? {} : (JSON.parse(body.toString()) as Record<string, unknown>);
    try {
      if (question.startsWith("DIRECT.GET.")) this.#getDirectly(words.slice(2), asked, reply);
      else this.#answer(reply, { body: Buffer.from(JSON.stringify(this.#answerTo(words, asked))) }, "answer");
    } catch (problem) {
      if (!(problem instanceof ApiProblem)) throw problem;
      this.#answer(reply, { body: Buffer.from(JSON.stringify({ error: problem })) }, "answer");
    }
    return true;
  }

  #getDirectly([name = "", ...subject]: readonly string[], asked: Record<string, unknown>, reply: string) {
    const query = subject.length === 0 ? asked : { last_by_subj: subject.join(".") };
    this.#answer(reply, getDirectly(this.#stream(name), query), "answer");
  }

  #answerTo(words: readonly string[], asked: Record<string, unknown>): object {
    const [area, action, third = "", fourth = "", fifth = ""] = words;
    if (area === "INFO") return accountInfo(this);
    if (area === "STREAM" && action === "MSG") {
      const stream = this.#stream(fourth);
      return third === "GET" ? getMessage(stream, asked) : deleteMessage(stream, asked);
    }
    if (area === "STREAM") return this.#aboutStream(action ?? "", third, asked);
    if (action === "DURABLE")
      return putConsumer(this, this.#stream(fourth), asked as unknown as ConsumerRequest, fifth);
    const stream = this.#stream(third);
    switch (action) {
      case "CREATE":
        return putConsumer(
          this,
          stream,
          asked as unknown as ConsumerRequest,
          fourth === "" ? undefined : fourth,
        );
      case "INFO":
        return consumerInfo(this.#consumer(stream, fourth));
      case "DELETE":
        return deleteConsumer(this.#consumer(stream, fourth));
      case "LIST":
        return listConsumers(stream, asked);
      default:
        throw PROBLEMS.badRequest(`the simulated server does not know ${words.join(".")}`);
    }
  }

  #aboutStream(action: string, name: string, asked: Record<string, unknown>): object {
    switch (action) {
      case "NAMES":
        return streamNames(this, asked);
      case "CREATE":
        return createStream(this, name, asked as Partial<StreamConfig>);
      case "UPDATE":
        return updateStream(this, this.#stream(name), asked as Partial<StreamConfig>);
      case "DELETE":
        return deleteStream(this, this.#stream(name));
      case "INFO":
        return streamInfo(this.#stream(name), asked.subjects_filter as string | undefined);
      case "PURGE":
        return purgeStream(this.#stream(name), asked);
      default:
        throw PROBLEMS.badRequest(`the simulated server does not know STREAM.${action}`);
    }
  }

  #stream(name: string): SimulatedStream {
    const stream = this.streams.get(name);
    if (stream === undefined) throw PROBLEMS.streamNotFound();
    return stream;
  }

  #consumer(stream: SimulatedStream, name: string): SimulatedConsumer {
    const consumer = stream.consumers.get(name);
    if (consumer === undefined) throw PROBLEMS.consumerNotFound();
    return consumer;
  }
}
