/**
 * Verifies the registry of signing keys against the audit chain of its changes, in both directions: each record names the entries that made it
 * what it is, and no revocation in the chain is missing in the registry.
 */
import { keyIdOf } from "../../integrity/dsse.ts";
import { NO_TASK } from "../../protocol/alerts.ts";
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { systemKeys, tenantKeys } from "../kv/keyspace.ts";
import { decodeSigningKey, type StoredSigningKey } from "../signing/key-record.ts";
import { ofTask, type ScrubStep, TaskScrub } from "./scrub-reader.ts";
import { readable } from "./task/head.ts";
import { readEntry } from "./trail/entries.ts";

const CHANGES = ["key_add", "key_retire", "key_revoke"] as const;
type KeyChangeName = (typeof CHANGES)[number];

interface KeyAct {
  readonly action?: unknown;
  readonly subject?: Readonly<Record<string, unknown>>;
}

/** Verifies each record. */
export async function verifyKeyRecords(step: ScrubStep): Promise<void> {
  const { rows } = await step.reader.getRange(systemKeys.signingKeys(), { limit: LIMITS.signing_keys_max });
  for (const { key, value } of rows) {
    const record = readable(() => decodeSigningKey(value));
    const problem = record === null ? "cannot be read" : await problemOf(step, record, key);
    if (problem === null) continue;
    const name = record === null ? Buffer.from(key).toString("hex").slice(-16) : record.key_id.slice(0, 16);
    noteKey(step, `key_record: key ${name}: ${problem}`);
  }
}

async function problemOf(step: ScrubStep, record: StoredSigningKey, key: Uint8Array): Promise<string | null> {
  const { key_id: id, public_key, entries } = record;
  const isOwn = Buffer.compare(key, systemKeys.signingKey(String(id))) === 0;
  if (!isOwn || keyIdOf(String(public_key)) !== id) return "the id is not that of the public key";
  for (const change of CHANGES) {
    const seq = entries?.[change];
    if (seq === undefined && statedBy(record, change) === null) continue;
    const act = seq === undefined ? null : await actAt(step, seq);
    if (act?.action !== change || act.subject?.key_id !== id) return `no audit entry records its ${change}`;
    if (act.subject[FACTS[change]] !== statedBy(record, change))
      return `${FACTS[change]} is not the one that entry ${seq} records`;
  }
  return null;
}

/** The member that a change sets. */
const FACTS = { key_add: "not_before", key_retire: "not_after", key_revoke: "revoked_at" } as const;

function statedBy(record: StoredSigningKey, change: KeyChangeName): string | null {
  return record[FACTS[change]];
}

async function actAt({ reader }: ScrubStep, seq: number): Promise<KeyAct | null> {
  const value = await reader.get(tenantKeys(DEFAULT_TENANT).tenantAudit(seq));
  return (readEntry(value)?.facts as KeyAct | undefined) ?? null;
}

/** Verifies that the registry still has what an entry of the chain did to it. */
export async function verifyKeyAct(step: ScrubStep, seq: number, entry: unknown): Promise<void> {
  const { action, subject } = entry as KeyAct;
  const change = CHANGES.find((one) => one === action);
  const id = subject?.key_id;
  if (change === undefined || typeof id !== "string") return;
  const value = await step.reader.get(systemKeys.signingKey(id));
  const record = value === undefined ? null : readable(() => decodeSigningKey(value));
  // A damaged record is found by itself.
  if (value !== undefined && record === null) return;
  if ((record?.entries?.[change] ?? 0) < seq)
    noteKey(step, `key_record: key ${id.slice(0, 16)}: the registry lacks the ${change} of entry ${seq}`);
}

function noteKey(step: ScrubStep, details: string): void {
  new TaskScrub(step, DEFAULT_TENANT, NO_TASK, { canMark: false, found: 0 }).note(
    ofTask("signing_key", details),
  );
}
