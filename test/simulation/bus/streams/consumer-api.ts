/** The questions and commands of JetStream about consumers. */
import { isDeepStrictEqual } from "node:util";
import type { ConsumerConfig } from "@nats-io/jetstream";
import { isOverlap, subjectTokens } from "../subjects.ts";
import { PROBLEMS } from "./api-problem.ts";
import { SimulatedConsumer } from "./consumer.ts";
import type { SimulatedStream } from "./stream.ts";
import type { StreamCollection } from "./stream-collection.ts";

const TYPE = "io.nats.jetstream.api.v1";
const NAME_LENGTH = 8;
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

const DEFAULTS: Partial<ConsumerConfig> = {
  ...{ ack_policy: "explicit", deliver_policy: "all", replay_policy: "instant", ack_wait: 30e9 },
  ...{ max_deliver: -1, max_waiting: 512, max_ack_pending: 1_000, num_replicas: 0 },
} as Partial<ConsumerConfig>;

export interface ConsumerRequest {
  readonly config: Partial<ConsumerConfig>;
  readonly action?: "" | "create" | "update";
}

export function putConsumer(
  set: StreamCollection,
  stream: SimulatedStream,
  asked: ConsumerRequest,
  given?: string,
) {
  const { action = "", config: wanted } = asked;
  const name = given ?? wanted.durable_name ?? wanted.name ?? madeName(set);
  const config = { ...DEFAULTS, ...wanted, name } as ConsumerConfig;
  const existing = stream.consumers.get(name);
  if (existing === undefined) {
    if (action === "update") throw PROBLEMS.consumerMissing();
    requireAllowed(stream, config);
    const parts = { stream, name, deliveries: set.deliveries, fate: set.fate, run: set.run };
    const made = new SimulatedConsumer(parts, config);
    stream.consumers.set(name, made);
    return { type: `${TYPE}.consumer_create_response`, ...made.info() };
  }
  if (!isDeepStrictEqual(existing.config, config)) {
    if (action === "create") throw PROBLEMS.consumerExists();
    existing.configure(config);
  }
  return { type: `${TYPE}.consumer_create_response`, ...existing.info() };
}

const madeName = ({ fate }: StreamCollection): string =>
  Array.from({ length: NAME_LENGTH }, () => LETTERS[fate.choice(LETTERS.length)]).join("");

const filtersOf = ({ filter_subjects: many, filter_subject: one }: ConsumerConfig): string[] =>
  many !== undefined ? [...many] : one === undefined || one === "" ? [] : [one];

/** Throws ApiProblem: on a work queue, each message belongs to one consumer. */
function requireAllowed(stream: SimulatedStream, config: ConsumerConfig): void {
  if (!stream.isWorkQueue) return;
  if (config.ack_policy !== "explicit") throw PROBLEMS.needsExplicitAck();
  const others = [...stream.consumers.values()];
  const filters = filtersOf(config).map(subjectTokens);
  if (others.length > 0 && (filters.length === 0 || others.some((one) => one.filters.length === 0)))
    throw PROBLEMS.needsFilters();
  const taken = others.flatMap((one) => one.filters.map(subjectTokens));
  if (filters.some((filter) => taken.some((other) => isOverlap(filter, other)))) throw PROBLEMS.filterTaken();
  if (config.deliver_policy !== "all") throw PROBLEMS.needsDeliverAll();
}

export const consumerInfo = (consumer: SimulatedConsumer): object => ({
  type: `${TYPE}.consumer_info_response`,
  ...consumer.info(),
});

export function deleteConsumer(consumer: SimulatedConsumer): object {
  consumer.close("Consumer Deleted");
  return { type: `${TYPE}.consumer_delete_response`, success: true };
}

export function listConsumers(stream: SimulatedStream, { offset = 0 }: { offset?: number }): object {
  const all = [...stream.consumers.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  const consumers = all.slice(offset).map((one) => one.info());
  return { type: `${TYPE}.consumer_list_response`, total: all.length, offset, limit: 256, consumers };
}
