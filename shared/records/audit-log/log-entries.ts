/**
 * Reads the entries of a chain that have no place in the log yet. The log attests entries, so each is verified first:
 * that it is of this tenant, chain and number, and continues the entry before it.
 */
import { CHAIN_START, entryHash } from "../../integrity/chain.ts";
import { leafHash } from "../../integrity/merkle/hashes.ts";
import type { Reader } from "../../store/store.ts";
import { decode, UnreadableValue } from "../kv/codec.ts";
import { parseSeq, tenantKeys } from "../kv/keyspace.ts";
import { lastPlaced } from "./log-records.ts";

/** `task` null: the chain of the tenant. */
interface Chain {
  readonly tenant: string;
  readonly task: string | null;
}

export interface LoggedEntry {
  /** null: of the tenant's chain. */
  readonly task: string | null;
  readonly seq: number;
  /** null: the entry is damaged, so it gets a place without a leaf. */
  readonly leaf: Uint8Array | null;
  /** The size of its row. */
  readonly bytes: number;
}

export interface UnloggedEntries {
  readonly entries: readonly LoggedEntry[];
  /** Whether the chain has further entries. */
  readonly more: boolean;
}

/** At most `limit` entries. Throws UNSUPPORTED_VERSION for an entry in a newer format, which is not damaged. */
export async function readUnlogged(reader: Reader, chain: Chain, limit: number): Promise<UnloggedEntries> {
  const { tenant, task } = chain;
  const keys = tenantKeys(tenant);
  const last = await lastPlaced(reader, keys, task);
  const from = Math.max(1, last);
  const { begin, end } =
    task === null
      ? { begin: keys.tenantAudit(from), end: keys.tenantAudits().end }
      : { begin: keys.audit(task, from), end: keys.auditRange(task).end };
  // Those with the entry before them, and one more, because `more` of a range may also be true at its end.
  const { rows } = await reader.getRange({ begin, end }, { limit: limit + 2 });
  const entries: LoggedEntry[] = [];
  let before: { readonly seq: number; readonly text: string | null } | null = null;
  for (const { key, value } of rows) {
    const seq = parseSeq(key);
    if (entries.length === limit && seq > last) return { entries, more: true };
    const text = textIn(value);
    if (seq > last) {
      const prev = before?.seq === seq - 1 ? before.text : null;
      const isSound = text !== null && isEntryOf(chain, { seq, text, prev });
      entries.push({ task, seq, leaf: isSound ? leafHash(text) : null, bytes: key.length + value.length });
    }
    before = { seq, text };
  }
  return { entries, more: false };
}

/** null: the value is damaged. */
function textIn(value: Uint8Array): string | null {
  try {
    const text = decode<unknown>(value);
    return typeof text === "string" ? text : null;
  } catch (error) {
    if (error instanceof UnreadableValue) return null;
    throw error;
  }
}

/** `prev`: the entry before it. null: it is lost or damaged, so that its hash cannot be compared. */
function isEntryOf(
  { tenant, task }: Chain,
  { seq, text, prev }: { readonly seq: number; readonly text: string; readonly prev: string | null },
): boolean {
  const facts = factsIn(text);
  if (facts.tenant !== tenant || facts.seq !== seq || (facts.task ?? null) !== task) return false;
  if (seq === 1) return facts.prev === CHAIN_START;
  return prev === null || facts.prev === entryHash(prev);
}

function factsIn(text: string): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(text)) as Readonly<Record<string, unknown>>;
  } catch {
    return {};
  }
}
