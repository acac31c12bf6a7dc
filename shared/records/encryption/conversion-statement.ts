/**
 * The statement that all rows of a converted store are encrypted: an act in the audit chain of the default tenant, so in its Merkle log, its receipts and
 * anchors. The record of the encryption is a row that a program with the disk can replace by an older copy, from a time when plain rows were believed. It
 * would have to take the statement out of the chain too.
 *
 * A store that was encrypted from its beginning never had such a record, and needs no statement.
 */
import { FleetError } from "../../protocol/errors.ts";
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { TenantAct } from "../../protocol/tenant-audit.ts";
import type { KeyRange, KeyValue, Reader, Store, Tx } from "../../store/store.ts";
import type { ChainHead } from "../audit/audit.ts";
import { appendTenantAudit } from "../audit/tenant-audit.ts";
import { decode, decodeChecked, readable } from "../kv/codec.ts";
import { after, parseSeq, systemKeys, tenantKeys } from "../kv/keyspace.ts";
import { type EncryptionState, readEncryptionState, writeEncryptionState } from "./encryption-state.ts";

export const CONVERTED_ACT = "encryption_complete" satisfies TenantAct;
const READ = { label: "find_conversion", deadlineMs: 10_000 } as const;
const WRITE = { label: "state_conversion", deadlineMs: 3_000, onUnknown: "safe" } as const;
const PAGE = 500;

/** Whether the end of the conversion is still to be stated. */
function isUnstated({ state, began_at, completed_at, converted, stated = false }: EncryptionState): boolean {
  const hadPlainRows = converted > 0 || began_at !== completed_at;
  return state === "complete" && hadPlainRows && !stated;
}

export interface StatingConversion {
  readonly store: Store;
  readonly service: string;
  /** Of the statement, which may come long after the end of the conversion: a key that signs it must have begun. */
  readonly nowMs: number;
  /** Throws when this instance may no longer write. */
  readonly guard: (tx: Tx) => Promise<void>;
}

/** Appends the statement once, as soon as the conversion is complete. Throws CORRUPT if the chain is damaged. */
export async function stateConversion({ store, service, nowMs, guard }: StatingConversion): Promise<boolean> {
  const seen = await store.read(READ, readEncryptionState);
  if (seen === null || !isUnstated(seen)) return false;
  const { value } = await store.transact(WRITE, async (tx) => {
    await guard(tx);
    const state = await readEncryptionState(tx);
    if (state === null || !isUnstated(state)) return false;
    const { began_at, completed_at, converted } = state;
    const subject = { began_at, completed_at: completed_at ?? began_at, rows: converted };
    const act = { action: CONVERTED_ACT, actor: { id: service, type: "service" }, subject } as const;
    await appendTenantAudit(tx, DEFAULT_TENANT, [{ ...act, at: new Date(nowMs).toISOString() }]);
    writeEncryptionState(tx, { ...state, stated: true });
    return true;
  });
  return value;
}

/**
 * Throws CORRUPT if the record says that rows may still be plain, and the chain states that none is. To be called before plain rows are believed or
 * encrypted. An entry that cannot be read is a finding of the scrub.
 */
export async function requireUnstated(reader: Reader): Promise<void> {
  const value = await reader.get(systemKeys.encryption());
  // While the record cannot be read, no plain row is believed.
  const state = value === undefined ? null : readable(() => decodeChecked<EncryptionState>(value));
  const seq = state?.state === "converting" ? await findStatement(reader, state) : null;
  if (seq === null) return;
  throw new FleetError(
    "CORRUPT",
    "the record of the store's encryption is an older copy: the audit chain states that all rows are encrypted",
    {
      details: {
        ...{ tenant: DEFAULT_TENANT, entry: seq },
        next: "find out who wrote to the disk of the store, and restore a backup",
      },
    },
  );
}

/** The number of the newest entry of the chain, by its head, which the next entry follows; 0: there is none, or the head is damaged. */
export async function newestAct(reader: Reader): Promise<number> {
  const value = await reader.get(tenantKeys(DEFAULT_TENANT).tenantChain());
  const head = value === undefined ? null : readable(() => decodeChecked<ChainHead>(value));
  return head?.seq ?? 0;
}

/** The number of the entry; null: there is none. It looks at the entries since the encryption began, by their numbers: clocks decide nothing. */
async function findStatement(
  reader: Reader,
  { began_at, acts = 0 }: EncryptionState,
): Promise<number | null> {
  const keys = tenantKeys(DEFAULT_TENANT);
  const { end } = keys.tenantAudits();
  for (let range: KeyRange = { begin: keys.tenantAudit(acts + 1), end }; ; ) {
    const { rows, more } = await reader.getRange(range, { limit: PAGE });
    for (const row of rows) {
      const act = actIn(row);
      if (act?.action === CONVERTED_ACT && act.began_at === began_at) return parseSeq(row.key);
    }
    const last = rows.at(-1);
    if (!more || last === undefined) return null;
    range = { begin: after(last.key), end };
  }
}

/** null: the entry cannot be read. */
function actIn({ value }: KeyValue): { action: unknown; began_at: unknown } | null {
  const text = readable(() => decode<string>(value));
  try {
    const { action, subject } = JSON.parse(text ?? "") as Record<string, unknown>;
    const { began_at } = (subject ?? {}) as { began_at?: unknown };
    return { action, began_at };
  } catch {
    return null;
  }
}
