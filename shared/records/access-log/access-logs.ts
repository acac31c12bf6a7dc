/** Reads the access log: its entries by task, person and time, and its blocks for programs that verify the chain. */
import { entryHash } from "../../integrity/chain.ts";
import {
  ACCESS_CHAIN,
  type AccessBlockPage,
  type AccessPage,
  type AccessSession,
} from "../../protocol/access-log.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { accessLogOf, type Policies } from "../../protocol/policy.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import type { CommitResult, Reader } from "../../store/store.ts";
import { decodeChecked } from "../kv/codec.ts";
import { openCursor, sealCursor } from "../kv/cursor.ts";
import { elementsOf } from "../kv/key-elements.ts";
import { parseSeq, type TenantKeys, tenantKeys } from "../kv/keyspace.ts";
import type { Transactions } from "../kv/transactions.ts";
import { readEnvelopes } from "../signing/stored-signatures.ts";
import { type AccessBatch, type AccessSessionRow, appendAccess, readAccessChain } from "./append.ts";
import { blockText, isWanted, type ReadBlock } from "./block.ts";
import { blocksOfTask, newestBlocks } from "./newest-blocks.ts";
import { type AccessPruneStep, type PruneParts, pruneAccess } from "./prune.ts";

/** Sessions in one answer. */
const SESSIONS_MAX = 1_000;

interface LogParts {
  readonly transactions: Transactions;
  readonly now: () => number;
  readonly service: string;
  readonly policies: Policies;
}

export class AccessLogs {
  readonly #parts: LogParts;

  constructor(parts: LogParts) {
    this.#parts = parts;
  }

  /** Durable when it resolves. May be repeated with the same batch. */
  append(tenant: string, batch: AccessBatch): Promise<CommitResult<void>> {
    const { transactions, service, now } = this.#parts;
    return transactions.transact("access_log", (tx) =>
      appendAccess(tx, { tenant, service, nowMs: now() }, batch),
    );
  }

  /**
   * Removes blocks that the policy of the tenant no longer keeps, and sessions that ended, in one transaction of a bounded size. `sessionsAfter`: as the
   * step before has answered it.
   */
  async prune(
    tenant: string,
    guard: PruneParts["guard"],
    sessionsAfter: PruneParts["sessionsAfter"] = null,
  ): Promise<AccessPruneStep> {
    const { transactions, service, now, policies } = this.#parts;
    const { days } = accessLogOf(policies, tenant);
    const author = { tenant, service, nowMs: now() };
    const { value } = await transactions.transact("prune_access", (tx) =>
      pruneAccess(tx, { author, days, guard, sessionsAfter }),
    );
    return value;
  }

  list(tenant: string, query: QueryParams<"access_log">): Promise<AccessPage> {
    const { transactions, policies } = this.#parts;
    const policy = accessLogOf(policies, tenant);
    return transactions.read("access_entries", async (reader) => ({
      ...(await listEntries(reader, tenant, query)),
      ...policy,
    }));
  }

  blocks(tenant: string, query: QueryParams<"access_blocks">): Promise<AccessBlockPage> {
    return this.#parts.transactions.read("access_blocks", (reader) => readBlocks(reader, tenant, query));
  }
}

type ListedEntry = AccessPage["entries"][number];

/** Newest first. The cursor has the block and the number of its entries that were shown or passed over, counted from its end. */
async function listEntries(
  reader: Reader,
  tenant: string,
  query: QueryParams<"access_log">,
): Promise<Pick<AccessPage, "entries" | "cursor">> {
  const { limit: _limit, cursor: _cursor, ...filter } = query;
  const kind = `access/${tenant}/${JSON.stringify(filter)}`;
  const [last, passed] =
    query.cursor === undefined ? [] : openCursor(kind, query.cursor).split("/").map(Number);
  const { blocks, next } =
    query.task_id === undefined
      ? await newestBlocks(reader, tenant, { through: last })
      : await blocksOfTask(reader, tenant, { task: query.task_id, through: last });
  const entries: ListedEntry[] = [];
  for (const { seq, block } of blocks) {
    const newest = block.entries.toReversed();
    for (let i = seq === last ? (passed ?? 0) : 0; i < newest.length; i += 1) {
      if (entries.length === query.limit) return { entries, cursor: sealCursor(kind, `${seq}/${i}`) };
      if (isWanted(newest[i]!, query)) entries.push({ ...newest[i]!, block: seq });
    }
    if (isBefore(block, query.from)) return { entries };
  }
  return next === null ? { entries } : { entries, cursor: sealCursor(kind, `${next}/0`) };
}

/** Whether no earlier block has an entry from this time on: an entry waits a moment for its block, and clocks differ. */
function isBefore({ at }: ReadBlock, from: string | undefined): boolean {
  const slack = LIMITS.access_log_repeat_ms + LIMITS.clock_skew_ms_max;
  return from !== undefined && Date.parse(at) < Date.parse(from) - slack;
}

async function readBlocks(
  reader: Reader,
  tenant: string,
  { from_seq, limit }: QueryParams<"access_blocks">,
): Promise<AccessBlockPage> {
  const keys = tenantKeys(tenant);
  const chain = await readAccessChain(reader, tenant);
  const from = Math.max(from_seq, (chain?.start?.seq ?? 0) + 1);
  const range = { begin: keys.accessBlock(from), end: keys.accessBlocks().end };
  const { rows, more } = await reader.getRange(range, { limit });
  const entries: { seq: number; entry: string; hash: string }[] = [];
  let bytes = 0;
  for (const { key, value } of rows) {
    const entry = blockText(value);
    // Text in JSON within JSON has a second character before each quotation mark.
    bytes += JSON.stringify(entry).length;
    if (entries.length > 0 && bytes > LIMITS.reply_bytes_max / 2) break;
    entries.push({ seq: parseSeq(key), entry, hash: entryHash(entry) });
  }
  const part = { task: ACCESS_CHAIN, from, count: entries.length };
  return {
    start: chain?.start ? { ...chain.start } : null,
    head: chain && { seq: chain.seq, hash: chain.hash },
    entries,
    signatures: entries.length === 0 ? [] : await readEnvelopes(reader, keys, part),
    sessions: await readSessions(reader, keys),
    more: more || entries.length < rows.length,
  };
}

async function readSessions(reader: Reader, keys: TenantKeys): Promise<AccessSession[]> {
  const { rows } = await reader.getRange(keys.accessSessions(), { limit: SESSIONS_MAX });
  return rows.map(({ key, value }) => {
    const { state, at, seq, lost = 0 } = decodeChecked<AccessSessionRow>(value);
    return { session: String(elementsOf(key).at(-1)), state, at, seq, lost };
  });
}
