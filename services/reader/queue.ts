/**
 * The queue and its dead letters for operators: the size of the queue, the letters to list, retry and drop.
 * A tenant sees, counts and changes only its own letters. A letter without a readable tenant belongs to the
 * default tenant, so that an operator can see it.
 */
import type { StreamView } from "../../shared/bus/bus.ts";
import { queueMessageId, requestHash } from "../../shared/integrity/request-hash.ts";
import {
  commandOf,
  keptHeaders,
  type Letter,
  letterTenant,
  readDeadLetter,
} from "../../shared/protocol/dead-letter.ts";
import { FleetError } from "../../shared/protocol/errors.ts";
import { LIMITS } from "../../shared/protocol/limits.ts";
import { isQueuedOp, type QueuedOp } from "../../shared/protocol/operations.ts";
import type { QueryParams } from "../../shared/protocol/queries.ts";
import type {
  DeadLetter,
  DeadLetterPage,
  DroppedLetter,
  QueueStatus,
  RetriedLetter,
} from "../../shared/protocol/queue-queries.ts";
import { HEADERS, parseQueuedSubject, STREAMS, SUBJECTS } from "../../shared/protocol/subjects.ts";
import type { TenantAct } from "../../shared/protocol/tenant-audit.ts";
import type { ReportedAct } from "../../shared/records/audit/tenant-acts.ts";
import type { CheckpointRepository } from "../../shared/records/repository.ts";
import type { ReaderContext } from "./context.ts";

const HEALTH_TIMEOUT_MS = 500;
/** Short, because the letters can be listed without the store. */
const APPLIED_MS = 500;
const PUBLISH_MS = 1_500;
/** The number of messages that are read from the stream at once. */
const SLICE = 100;

export interface QueueQueries {
  status(tenant: string): Promise<QueueStatus>;
  list(tenant: string, query: QueryParams<"dead_list">): Promise<DeadLetterPage>;
  retry(tenant: string, caller: string, seq: number): Promise<RetriedLetter>;
  drop(tenant: string, caller: string, seq: number): Promise<DroppedLetter>;
}

export function createQueueQueries(context: ReaderContext, repository: CheckpointRepository): QueueQueries {
  const { bus, log } = context;
  const letters = bus.stream(STREAMS.dead);

  return {
    status: (tenant) => status(context, tenant),

    async list(tenant, query) {
      const { found, next_seq } = await list(letters, tenant, query);
      return { letters: await withApplied(repository, tenant, found), next_seq };
    },

    async retry(tenant, caller, seq) {
      const letter = await ownLetter(letters, tenant, seq);
      const subject = queuedSubject(letter);
      await repository.tenantActs.record({ tenant, caller }, [actOn(letter, "dead_retry")]);
      const [{ applied_at = null } = {}] = await withApplied(repository, tenant, [letter]);
      const position = await putBack(context, letter, subject);
      // After a crash before this, the letter is still there, and a second retry has no second effect.
      await letters.remove(seq);
      const { task_id, command_id } = letter.shown;
      log.info(
        { tenant, caller, letter: seq, task_id, command_id, position, applied_at },
        "dead letter put back into the queue",
      );
      return { seq, command_id, position, applied_at };
    },

    async drop(tenant, caller, seq) {
      const letter = await ownLetter(letters, tenant, seq);
      const { task_id, agent_id, command_id, dead_at } = letter.shown;
      await repository.tenantActs.record({ tenant, caller }, [actOn(letter, "dead_drop")]);
      const audited =
        task_id !== null &&
        (await repository.recordRefusal({
          tenant,
          task: task_id,
          agent: agent_id ?? "unknown",
          actor: { id: "reader", on_behalf_of: caller, type: "service" },
          commandId: command_id,
          reason: "dropped",
          occasion: `${STREAMS.dead}/${seq}/${dead_at}`,
        }));
      await letters.remove(seq);
      log.warn({ tenant, caller, letter: seq, task_id, command_id, audited }, "dead letter dropped");
      return { seq, command_id };
    },
  };
}

/** Recorded before the letter leaves its stream, so that no crash leaves a letter removed without a record. */
function actOn(
  { shown: { seq, dead_at, task_id, command_id } }: FoundLetter,
  action: LetterAct,
): ReportedAct {
  const ids = { ...(task_id !== null && { task_id }), ...(command_id !== null && { command_id }) };
  return {
    action,
    subject: { letter: seq, ...ids },
    occasion: `${action}/${STREAMS.dead}/${seq}/${dead_at}`,
  };
}

async function status({ bus, store, clock, disk }: ReaderContext, tenant: string): Promise<QueueStatus> {
  const letters = bus.stream(STREAMS.dead);
  const [queue, dead, earlierDead, health] = await Promise.all([
    bus.stream(STREAMS.queue).state(),
    letters.count(SUBJECTS.deadOf(tenant)),
    letters.count(SUBJECTS.everyEarlierDead),
    store.health({ timeoutMs: HEALTH_TIMEOUT_MS }),
  ]);
  return {
    depth: queue.messages,
    oldest_age_ms: queue.oldestAt === null ? null : Math.max(0, clock.now() - queue.oldestAt),
    bytes: queue.bytes,
    bytes_max: queue.bytesMax,
    left_total: queue.lastSeq - queue.messages,
    dead: dead + earlierDead,
    store: disk.fullDisk("store") !== undefined ? "full" : health.ok ? "ok" : "away",
    accepts: disk.fullDisk("bus") === undefined,
  };
}

/** A page ends after `limit` letters, or after the limit of scanned ones. Then `next_seq` continues. */
async function list(
  letters: StreamView,
  tenant: string,
  { from_seq, limit }: QueryParams<"dead_list">,
): Promise<{ found: FoundLetter[]; next_seq: number | null }> {
  const found: FoundLetter[] = [];
  let next = from_seq;
  for (let scanned = 0; scanned < LIMITS.dead_scan_max; ) {
    const page = await letters.list(next, SLICE);
    for (const head of page) {
      next = head.seq + 1;
      if (letterTenant(head) === tenant) found.push({ shown: readDeadLetter(head), headers: head.headers });
      if (found.length > limit) return { found: found.slice(0, limit), next_seq: head.seq };
    }
    if (page.length < SLICE) return { found, next_seq: null };
    scanned += page.length;
  }
  return { found, next_seq: next };
}

type QueuedAddress = ReturnType<typeof parseQueuedSubject> & { readonly op: QueuedOp };
type LetterAct = Extract<TenantAct, "dead_retry" | "dead_drop">;

interface FoundLetter {
  readonly shown: Letter;
  readonly headers: { get(name: string): string | undefined };
}

interface OwnLetter extends FoundLetter {
  readonly body: Uint8Array;
}

/** Adds the time at which a later copy of a command was applied. */
async function withApplied(
  repository: CheckpointRepository,
  tenant: string,
  found: readonly FoundLetter[],
): Promise<DeadLetter[]> {
  const commands = found.map(({ headers }) => commandOf(headers));
  const asked = commands.filter((one) => one !== null);
  const times = await repository.applied.appliedAt(tenant, asked, APPLIED_MS).catch((error: unknown) => {
    if (error instanceof FleetError && error.retryable) return [];
    throw error;
  });
  const applied = new Map(asked.map((command, i) => [command, times[i] ?? null]));
  return found.map(({ shown }, i) => {
    const command = commands[i] ?? null;
    return { ...shown, applied_at: command === null ? null : (applied.get(command) ?? null) };
  });
}

async function ownLetter(letters: StreamView, tenant: string, seq: number): Promise<OwnLetter> {
  const found = await letters.get(seq);
  if (found === null || letterTenant(found) !== tenant) {
    throw new FleetError("NOT_FOUND", "there is no such dead letter", { details: { seq } });
  }
  return { shown: readDeadLetter(found), body: found.body, headers: found.headers };
}

/** The subject under which the command was queued. Throws INVALID for a letter without a queued command. */
function queuedSubject({ shown, headers }: FoundLetter): QueuedAddress {
  const address = parseQueuedSubject(headers.get(HEADERS.deadSubject) ?? "");
  const { op } = address;
  if (shown.stream === STREAMS.queue && isQueuedOp(op)) return { ...address, op };
  throw new FleetError("INVALID", "this letter holds no command that can be queued", {
    details: { seq: shown.seq, stream: shown.stream, op },
  });
}

/** Queues the command under a new message id. With the old one, the stream would drop it as a duplicate. */
async function putBack(
  { bus }: ReaderContext,
  { shown, body, headers }: OwnLetter,
  address: QueuedAddress,
): Promise<number> {
  const { tenant, agent, task, op } = address;
  const name = queueMessageId(shown.command_id ?? "none", requestHash(address, body));
  const ack = await bus.publishDurable(
    SUBJECTS.queue(tenant, agent, task, op),
    { body, headers: keptHeaders(headers) },
    { messageId: `${name}.${shown.seq}.${shown.dead_at}`, timeoutMs: PUBLISH_MS, refuseFull: true },
  );
  return ack.seq;
}
