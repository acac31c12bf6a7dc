/** The questions and commands of JetStream about streams and their messages. */
import { isDeepStrictEqual } from "node:util";
import type { StreamConfig } from "@nats-io/jetstream";
import { isOverlap, subjectTokens } from "../subjects.ts";
import { extendedHeaders, headerBlock } from "../wire.ts";
import { PROBLEMS } from "./api-problem.ts";
import type { StoredMessage } from "./stored-messages.ts";
import { SimulatedStream } from "./stream.ts";
import type { StreamCollection } from "./stream-collection.ts";

const TYPE = "io.nats.jetstream.api.v1";

type Fields = Readonly<Record<string, unknown>>;

const DEFAULTS: Partial<StreamConfig> = {
  ...{ retention: "limits", storage: "file", discard: "old", num_replicas: 1, compression: "none" },
  ...{
    max_consumers: -1,
    max_msgs: -1,
    max_bytes: -1,
    max_age: 0,
    max_msgs_per_subject: -1,
    max_msg_size: -1,
  },
  ...{ duplicate_window: 120e9, no_ack: false, sealed: false, deny_delete: false, deny_purge: false },
  ...{ allow_direct: false, mirror_direct: false, allow_rollup_hdrs: false },
};

export function createStream(set: StreamCollection, name: string, asked: Partial<StreamConfig>): object {
  const config = configOf(name, asked);
  const existing = set.streams.get(name);
  if (existing !== undefined) {
    if (!isDeepStrictEqual(existing.config, config)) throw PROBLEMS.streamExists();
    return { type: `${TYPE}.stream_create_response`, did_create: false, ...streamInfo(existing) };
  }
  requireRoom(set, config);
  const stream = new SimulatedStream(config, set.run);
  set.add(stream);
  return { type: `${TYPE}.stream_create_response`, did_create: true, ...streamInfo(stream) };
}

export function updateStream(
  set: StreamCollection,
  stream: SimulatedStream,
  asked: Partial<StreamConfig>,
): object {
  const config = configOf(stream.config.name, asked);
  const { retention, storage, deny_delete, deny_purge } = stream.config;
  if (config.retention !== retention || config.storage !== storage)
    throw PROBLEMS.badRequest("stream configuration update can not change retention policy or storage");
  if ((deny_delete && !config.deny_delete) || (deny_purge && !config.deny_purge))
    throw PROBLEMS.badRequest("stream configuration update can not cancel a denial");
  requireRoom(set, config);
  set.remove(stream);
  stream.update(config);
  set.add(stream);
  return { type: `${TYPE}.stream_update_response`, ...streamInfo(stream) };
}

function configOf(name: string, asked: Partial<StreamConfig>): StreamConfig {
  const config = { ...DEFAULTS, ...asked, name } as StreamConfig;
  const isKnown = ["limits", "workqueue"].includes(config.retention) && config.max_msgs <= 0;
  if (!isKnown || config.mirror !== undefined || config.sources !== undefined)
    throw PROBLEMS.badRequest("the simulated server does not know such streams");
  return config;
}

function requireRoom(set: StreamCollection, config: StreamConfig): void {
  const others = [...set.streams.values()]
    .map((one) => one.config)
    .filter(({ name }) => name !== config.name);
  const reserved = others.reduce((sum, { max_bytes }) => sum + Math.max(0, max_bytes), 0);
  if (reserved + config.max_bytes > set.storageBytes) throw PROBLEMS.noStorage();
  const patterns = others.flatMap(({ subjects }) => subjects.map(subjectTokens));
  const isTaken = config.subjects.some((subject) =>
    patterns.some((pattern) => isOverlap(pattern, subjectTokens(subject))),
  );
  if (isTaken) throw PROBLEMS.subjectsOverlap();
}

export function deleteStream(set: StreamCollection, stream: SimulatedStream): object {
  stream.close();
  set.remove(stream);
  return { type: `${TYPE}.stream_delete_response`, success: true };
}

export function streamInfo(stream: SimulatedStream, filter?: string): object {
  const { messages, consumers, config, created } = stream;
  const newest = messages.get(messages.lastSeq);
  const timeOf = (one: StoredMessage | undefined) =>
    one === undefined ? "0001-01-01T00:00:00Z" : new Date(one.at).toISOString();
  const state = {
    messages: messages.count,
    bytes: messages.bytes,
    first_seq: messages.lastSeq === 0 ? 0 : messages.firstSeq,
    first_ts: timeOf(messages.oldest),
    last_seq: messages.lastSeq,
    last_ts: timeOf(newest),
    ...(messages.subjectCount > 0 && { num_subjects: messages.subjectCount }),
    consumer_count: consumers.size,
    ...(filter !== undefined && { subjects: messages.counts(filter) }),
  };
  const ts = new Date().toISOString();
  return { type: `${TYPE}.stream_info_response`, config, created, state, ts, total: 0, offset: 0, limit: 0 };
}

export function streamNames(
  set: StreamCollection,
  { subject, offset = 0 }: { subject?: string; offset?: number },
) {
  const wanted = subject === undefined ? undefined : subjectTokens(subject);
  const streams = [...set.streams.values()]
    .filter(
      ({ config }) =>
        wanted === undefined || config.subjects.some((one) => isOverlap(subjectTokens(one), wanted)),
    )
    .map(({ config }) => config.name)
    .sort();
  const page = streams.slice(offset);
  return { type: `${TYPE}.stream_names_response`, total: streams.length, offset, limit: 1024, streams: page };
}

export function purgeStream(stream: SimulatedStream, query: Fields): object {
  if (stream.config.deny_purge) throw PROBLEMS.purgeDenied();
  return { type: `${TYPE}.stream_purge_response`, success: true, purged: stream.purge(query) };
}

export function deleteMessage(stream: SimulatedStream, { seq }: Fields): object {
  if (stream.config.deny_delete) throw PROBLEMS.messageNotDeleted("message delete not permitted");
  const { firstSeq, lastSeq } = stream.messages;
  const wanted = seq as number;
  if (wanted > lastSeq) throw PROBLEMS.messageNotDeleted("stream store EOF");
  if (wanted < firstSeq) throw PROBLEMS.messageNotDeleted("no message found");
  if (!stream.remove(wanted)) throw PROBLEMS.sequenceNotFound(wanted);
  stream.announce();
  return { type: `${TYPE}.stream_msg_delete_response`, success: true };
}

function findMessage(stream: SimulatedStream, query: Fields): StoredMessage | undefined {
  const { messages } = stream;
  const { seq = 1, last_by_subj, next_by_subj } = query as Record<string, string> & { seq?: number };
  if (last_by_subj !== undefined) return [...messages.from(1, [subjectTokens(last_by_subj)])].at(-1);
  if (next_by_subj !== undefined) return messages.next(seq, [subjectTokens(next_by_subj)]);
  return messages.get(seq);
}

export function getMessage(stream: SimulatedStream, query: Fields): object {
  const found = findMessage(stream, query);
  if (found === undefined) throw PROBLEMS.noMessage();
  const { seq, subject, headers, body, at } = found;
  const message = {
    subject,
    seq,
    ...(headers !== undefined && { hdrs: headers.toString("base64") }),
    data: body.toString("base64"),
    time: new Date(at).toISOString(),
  };
  return { type: `${TYPE}.stream_msg_get_response`, message };
}

const NOT_FOUND = headerBlock({}, "404 Message Not Found");

/** The answer has the form of the message itself. */
export function getDirectly(stream: SimulatedStream, query: Fields): { headers: Buffer; body: Buffer } {
  const found = findMessage(stream, query);
  if (found === undefined) return { headers: NOT_FOUND, body: Buffer.alloc(0) };
  const headers = extendedHeaders(found.headers, {
    "Nats-Stream": stream.config.name,
    "Nats-Subject": found.subject,
    "Nats-Sequence": found.seq,
    "Nats-Time-Stamp": new Date(found.at).toISOString(),
  });
  return { headers, body: found.body };
}

export function accountInfo(set: StreamCollection): object {
  const streams = [...set.streams.values()];
  const limits = { max_memory: -1, max_storage: set.storageBytes, max_streams: -1, max_consumers: -1 };
  return {
    type: `${TYPE}.account_info_response`,
    memory: 0,
    storage: streams.reduce((sum, { messages }) => sum + messages.bytes, 0),
    streams: streams.length,
    consumers: streams.reduce((sum, { consumers }) => sum + consumers.size, 0),
    limits,
    api: { total: 0, errors: 0 },
  };
}
