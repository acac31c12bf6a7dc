/** Reads the newest blocks of an access log, all or those that concern a task, as many as one list may read. */
import { LIMITS } from "../../protocol/limits.ts";
import type { Reader } from "../../store/store.ts";
import { parseSeq, tenantKeys } from "../kv/keyspace.ts";
import { readAccessChain } from "./append.ts";
import { type ReadBlock, readBlock } from "./block.ts";

interface NewestBlocks {
  /** Newest first. */
  readonly blocks: readonly { readonly seq: number; readonly block: ReadBlock }[];
  /** The block at which the next list continues; null: there is no earlier one. */
  readonly next: number | null;
}

interface BlockExtent {
  /** The newest one; undefined: that of the log. */
  readonly through: number | undefined;
  readonly limit?: number;
}

export async function newestBlocks(
  reader: Reader,
  tenant: string,
  { through, limit = LIMITS.access_log_scan_count_max }: BlockExtent,
): Promise<NewestBlocks> {
  const keys = tenantKeys(tenant);
  const { begin, end } = keys.accessBlocks();
  const range = { begin, end: through === undefined ? end : keys.accessBlock(through + 1) };
  const { rows, more } = await reader.getRange(range, { limit, reverse: true });
  const blocks = rows.map((row) => ({ seq: parseSeq(row.key), block: readBlock(row) }));
  const oldest = blocks.at(-1);
  return { blocks, next: more && oldest !== undefined ? oldest.seq - 1 : null };
}

/** Blocks of an earlier version of the fleet are not in the index: all of them are read, after the others. */
export async function blocksOfTask(
  reader: Reader,
  tenant: string,
  { task, through = Number.MAX_SAFE_INTEGER - 1 }: BlockExtent & { readonly task: string },
): Promise<NewestBlocks> {
  const keys = tenantKeys(tenant);
  const chain = await readAccessChain(reader, tenant);
  if (chain === null) return { blocks: [], next: null };
  const first = chain.indexed ?? chain.seq + 1;
  const limit = LIMITS.access_log_scan_count_max;
  const blocks: NewestBlocks["blocks"][number][] = [];
  if (through >= first) {
    const range = { begin: keys.accessTask(task, first), end: keys.accessTask(task, through + 1) };
    const { rows, more } = await reader.getRange(range, { limit, reverse: true });
    const numbers = rows.map(({ key }) => parseSeq(key));
    const values = await reader.getMany(numbers.map((seq) => keys.accessBlock(seq)));
    for (const [i, seq] of numbers.entries()) {
      const value = values[i];
      if (value !== undefined) blocks.push({ seq, block: readBlock({ value }) });
    }
    const oldest = numbers.at(-1);
    if (more && oldest !== undefined) return { blocks, next: oldest - 1 };
  }
  const left = limit - blocks.length;
  if (first === 1 || left === 0) return { blocks, next: first === 1 ? null : first - 1 };
  const older = await newestBlocks(reader, tenant, { through: Math.min(through, first - 1), limit: left });
  return { blocks: [...blocks, ...older.blocks], next: older.next };
}
