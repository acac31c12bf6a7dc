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

/**
 * At most `limit` entries. Throws UNSUPPORTED_VERSION for an entry in a newer format, which is not damaged. `ends` has the hashes of entries that were
 * verified before, which need not be read again.
 */
export async function readUnlogged(
  reader: Reader,
  chain: Chain,
  limit: number,
  ends?: ChainEnds,
): Promise<UnloggedEntries> {
  const { tenant, task } = chain;
  const keys = tenantKeys(tenant);
  const last = await lastPlaced(reader, keys, task);
  const known = ends?.hashAt(chain, last) ?? null;
  const from = known === null ? Math.max(1, last) : last + 1;
  const { begin, end } =
    task === null
      ? { begin: keys.tenantAudit(from), end: keys.tenantAudits().end }
      : { begin: keys.audit(task, from), end: keys.auditRange(task).end };
  // Those with the entry before them, and one more, because `more` of a range may also be true at its end.
  const { rows } = await reader.getRange({ begin, end }, { limit: limit + 2 });
  const entries: LoggedEntry[] = [];
  /** `hash` null: the entry is lost or damaged. */
  let before: { readonly seq: number; readonly hash: string | null } = { seq: last, hash: known };
  for (const row of rows) {
    const { key } = row;
    const seq = parseSeq(key);
    if (entries.length === limit && seq > last) return { entries, more: true };
    // The value of the row that only shows that there are more need not be decrypted.
    const { value } = row;
    const text = textIn(value);
    const hash = text === null ? null : entryHash(text);
    if (seq > last) {
      const prev = before.seq === seq - 1 ? before.hash : null;
      const isSound = text !== null && isEntryOf(chain, { seq, text, prev });
      entries.push({ task, seq, leaf: isSound ? leafHash(text) : null, bytes: key.length + value.length });
      // An unsound entry may be restored, and has another hash then.
      if (isSound && hash !== null) ends?.set(chain, seq, hash);
    }
    before = { seq, hash };
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

/** `prev`: the hash of the entry before it. null: that entry is lost or damaged. */
function isEntryOf(
  { tenant, task }: Chain,
  { seq, text, prev }: { readonly seq: number; readonly text: string; readonly prev: string | null },
): boolean {
  const facts = factsIn(text);
  if (facts.tenant !== tenant || facts.seq !== seq || (facts.task ?? null) !== task) return false;
  if (seq === 1) return facts.prev === CHAIN_START;
  return prev === null || facts.prev === prev;
}

function factsIn(text: string): Readonly<Record<string, unknown>> {
  try {
    return Object(JSON.parse(text)) as Readonly<Record<string, unknown>>;
  } catch {
    return {};
  }
}

/** About 200 bytes each. */
const CHAINS_MAX = 10_000;

interface ChainEnd {
  readonly seq: number;
  /** Of the entry, hex. */
  readonly hash: string;
}

/** The hash of the last entry that was verified in each chain, for the step that continues the chain. Chains that are not known are read again. */
export class ChainEnds {
  readonly #ends = new Map<string, ChainEnd>();

  /** undefined: another entry of the chain was the last, or none. */
  hashAt(chain: Chain, seq: number): string | undefined {
    const end = this.#ends.get(nameOf(chain));
    return end?.seq === seq ? end.hash : undefined;
  }

  set(chain: Chain, seq: number, hash: string): void {
    if (this.#ends.size >= CHAINS_MAX) this.#ends.clear();
    this.#ends.set(nameOf(chain), { seq, hash });
  }
}

/** Tenants and tasks are tokens, which have no slash. */
function nameOf({ tenant, task }: Chain): string {
  return task === null ? tenant : `${tenant}/${task}`;
}
