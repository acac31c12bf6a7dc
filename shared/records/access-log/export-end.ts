/**
 * The end of the access log in an export, compared with the store. Without it, a bundle whose maker left out the newest blocks would be sealed
 * like a whole one.
 */
import { CHAIN_START } from "../../integrity/chain.ts";
import { invalid } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { QueryParams } from "../../protocol/queries.ts";
import { tenantKeys } from "../kv/keyspace.ts";
import type { Transactions } from "../kv/transactions.ts";
import { readAccessChain } from "./append.ts";
import { blockText } from "./block.ts";

type AccessEnd = NonNullable<QueryParams<"export_record">["access"]>;

/** Throws INVALID unless the log had this end at `exported_at`. */
export async function requireAccessEnd(
  transactions: Transactions,
  tenant: string,
  { exported_at, seq, hash }: AccessEnd,
): Promise<void> {
  const { chain, next } = await transactions.read("export_access", async (reader) => ({
    chain: await readAccessChain(reader, tenant),
    next: await reader.get(tenantKeys(tenant).accessBlock(seq + 1)),
  }));
  const newest = chain ?? { seq: 0, hash: CHAIN_START };
  // The next block has the hash of this one, which retention may have removed meanwhile.
  const isEnd =
    next === undefined
      ? newest.seq === seq && newest.hash === hash
      : isLaterBlock(blockText(next), { exported_at, hash });
  if (!isEnd) throw invalid("access", "the newest block of the access log at exported_at", seq);
}

/** Whether the block follows the one with the hash, and is of a later time. A block has the time of its transaction, by the clock of another machine. */
function isLaterBlock(text: string, { exported_at, hash }: Pick<AccessEnd, "exported_at" | "hash">): boolean {
  if (text === "") return false;
  const { at, prev } = JSON.parse(text) as { readonly at: string; readonly prev: string };
  return prev === hash && Date.parse(at) >= Date.parse(exported_at) - LIMITS.clock_skew_ms_max;
}
