/**
 * Compares the server's streams and durable consumers with their specification while the fleet runs, and
 * restores them: an operator's tool, a restored backup or an attacker may have changed them. A repair never
 * removes a message. A recreated consumer delivers all messages again, which handlers must tolerate.
 */
import { type ConsumerInfo, JetStreamApiCodes, JetStreamApiError, type StreamInfo } from "@nats-io/jetstream";
import type { StreamFinding } from "../../protocol/fleet-health.ts";
import { isNearlyFull } from "../../protocol/stream-fill.ts";
import type { ConsumeOptions } from "../bus.ts";
import { busError } from "../bus-errors.ts";
import { consumerDifferences, ensureConsumer } from "../consume/consume.ts";
import { growCopies, type ReconcileAccess, reconcileStream, streamDifferences } from "./reconcile.ts";
import { type StreamSpec, streamConfig } from "./streams.ts";

/** Throws BusError if the server does not answer. A repair that fails stays a finding. */
export async function inspectStreams(
  access: ReconcileAccess,
  specs: readonly StreamSpec[],
  consumers: readonly ConsumeOptions[],
  repair: boolean,
): Promise<StreamFinding[]> {
  const findings: StreamFinding[] = [];
  for (const spec of specs) findings.push(...(await inspectStream(access, spec, repair)));
  const streams = new Set([...specs.map(({ name }) => name), ...consumers.map(({ stream }) => stream)]);
  for (const stream of streams) {
    const own = consumers.filter((options) => options.stream === stream);
    findings.push(...(await inspectConsumers(access, stream, own, repair)));
  }
  return findings;
}

async function inspectStream(
  access: ReconcileAccess,
  spec: StreamSpec,
  repair: boolean,
): Promise<StreamFinding[]> {
  const wanted = streamConfig(spec, access.atomic);
  const info = await readInfo(access, spec.name);
  if (info === undefined) {
    const repaired = repair && (await isRestored(access, spec.name, () => reconcileStream(access, spec)));
    return [streamFinding(spec.name, "missing", "the stream does not exist", { repaired, blocks: true })];
  }
  const findings = fullness(spec, info);
  if (info.config.sealed) {
    return [streamFinding(spec.name, "sealed", "it accepts no messages", { blocks: true }), ...findings];
  }
  // The cluster may have grown.
  if (repair) await isRestored(access, spec.name, () => growCopies(access, spec, info.config));
  const fields = streamDifferences(info.config, wanted);
  if (fields.length === 0) return findings;
  if (repair) await isRestored(access, spec.name, () => reconcileStream(access, spec));
  const left = repair ? await remaining(access, spec.name, wanted) : fields;
  const finding = streamFinding(spec.name, "altered", (left.length > 0 ? left : fields).join(", "), {
    repaired: left.length === 0,
    blocks: left.some((field) => BLOCKING.has(field)),
  });
  return [finding, ...findings];
}

/** Further subjects, a refused deletion and smaller limits do not keep services from their work. */
const BLOCKING: ReadonlySet<string> = new Set([
  "retention",
  "storage",
  "subject_transform",
  "no_ack",
  "max_msg_size",
  "discard",
]);

async function remaining(
  access: ReconcileAccess,
  name: string,
  wanted: ReturnType<typeof streamConfig>,
): Promise<string[]> {
  const info = await readInfo(access, name);
  return info === undefined ? ["name"] : streamDifferences(info.config, wanted);
}

/** A stream that drops its oldest messages is full most of the time, by design. */
function fullness(spec: StreamSpec, { config, state }: StreamInfo): StreamFinding[] {
  const { max_bytes: max } = config;
  if (spec.discard === "old" || !isNearlyFull({ bytes: state.bytes, bytesMax: max })) return [];
  // A message of the largest size is refused already.
  const kind = max - state.bytes < Math.min(spec.maxMessageBytes, max / 100) ? "full" : "nearly_full";
  return [streamFinding(spec.name, kind, `${state.bytes} of ${max} bytes, ${state.messages} messages`)];
}

async function inspectConsumers(
  access: ReconcileAccess,
  stream: string,
  own: readonly ConsumeOptions[],
  repair: boolean,
): Promise<StreamFinding[]> {
  const found = await listConsumers(access, stream);
  const findings: StreamFinding[] = [];
  const owned = new Set(own.map(({ durable }) => durable));
  for (const { name, paused } of found.values()) {
    if (paused !== true || owned.has(name)) continue;
    findings.push(consumerFinding(stream, name, "paused", "it delivers nothing"));
  }
  for (const options of own) {
    const info = found.get(options.durable);
    const problem = consumerProblem(info, options);
    if (problem === null) continue;
    const restored = async () => {
      if (info?.paused === true) await access.manager.consumers.resume(stream, options.durable);
      await ensureConsumer(access, options);
    };
    const repaired = repair && (await isRestored(access, stream, restored));
    findings.push(consumerFinding(stream, options.durable, problem.kind, problem.detail, repaired));
  }
  return findings;
}

function consumerProblem(
  info: ConsumerInfo | undefined,
  options: ConsumeOptions,
): Pick<StreamFinding, "kind" | "detail"> | null {
  if (info === undefined) return { kind: "missing", detail: "the consumer does not exist" };
  if (info.paused === true) return { kind: "paused", detail: "it delivers nothing" };
  const fields = consumerDifferences(info.config, options);
  return fields.length === 0 ? null : { kind: "altered", detail: fields.join(", ") };
}

/** By name. Empty: the stream does not exist. */
async function listConsumers(
  { manager }: ReconcileAccess,
  stream: string,
): Promise<Map<string, ConsumerInfo>> {
  const found = new Map<string, ConsumerInfo>();
  try {
    for await (const info of manager.consumers.list(stream)) found.set(info.name, info);
  } catch (error) {
    if (!isMissing(error)) throw busError(error, { stream });
  }
  return found;
}

async function readInfo({ manager }: ReconcileAccess, stream: string): Promise<StreamInfo | undefined> {
  try {
    return await manager.streams.info(stream);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw busError(error, { stream });
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof JetStreamApiError && error.code === JetStreamApiCodes.StreamNotFound;
}

async function isRestored(
  { log }: ReconcileAccess,
  stream: string,
  restore: () => Promise<unknown>,
): Promise<boolean> {
  try {
    await restore();
    return true;
  } catch (error) {
    log.debug({ error, stream }, "a stream or consumer could not be repaired");
    return false;
  }
}

function streamFinding(
  stream: string,
  kind: StreamFinding["kind"],
  detail: string,
  { repaired = false, blocks = false }: { repaired?: boolean; blocks?: boolean } = {},
): StreamFinding {
  return { stream, consumer: null, kind, detail, repaired, blocks: blocks && !repaired };
}

function consumerFinding(
  stream: string,
  consumer: string,
  kind: StreamFinding["kind"],
  detail: string,
  repaired?: boolean,
): StreamFinding {
  // A consumer of no service here may be paused on purpose.
  return { stream, consumer, kind, detail, repaired: repaired ?? false, blocks: repaired === false };
}
