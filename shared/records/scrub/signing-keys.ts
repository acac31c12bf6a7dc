/**
 * Verifies the registry of signing keys against the audit chain of its changes, in both directions: each record names the entries that made it
 * what it is, and no revocation in the chain is missing in the registry.
 */
import { isDeepStrictEqual } from "node:util";
import { keyIdOf } from "../../integrity/dsse.ts";
import { NO_TASK } from "../../protocol/alerts.ts";
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { REQUIRED } from "../../protocol/signing-keys.ts";
import { decodeChecked, readable } from "../kv/codec.ts";
import { systemKeys, tenantKeys } from "../kv/keyspace.ts";
import { hasChange, KEY_CHANGES, keySubject } from "../signing/key-facts.ts";
import { decodeSigningKey, type StoredSigningKey, signaturesRequiredKey } from "../signing/key-record.ts";
import { ofTask, type ScrubStep, TaskScrub } from "./scrub-reader.ts";
import { readEntry } from "./trail/entries.ts";

interface KeyAct {
  readonly action?: unknown;
  readonly at?: unknown;
  readonly subject?: Readonly<Record<string, unknown>>;
}

/** Verifies each record, and the entry that states that signatures are required. */
export async function verifyKeyRecords(step: ScrubStep): Promise<void> {
  const { rows } = await step.reader.getRange(systemKeys.signingKeys(), { limit: LIMITS.signing_keys_max });
  for (const { key, value } of rows) {
    const record = readable(() => decodeSigningKey(value));
    const problem = record === null ? "cannot be read" : await problemOf(step, record, key);
    if (problem === null) continue;
    const name = record === null ? Buffer.from(key).toString("hex").slice(-16) : shortOf(record.key_id);
    noteKey(step, `key ${name}: ${problem}`);
  }
  const required = await step.reader.get(signaturesRequiredKey());
  if (required === undefined) return;
  const seq = readable(() => decodeChecked<number>(required));
  if (seq === null || !statesRequired(await actAt(step, seq)))
    noteKey(step, "no audit entry records that signatures are required");
}

async function problemOf(step: ScrubStep, record: StoredSigningKey, key: Uint8Array): Promise<string | null> {
  const { key_id: id, public_key, entries } = record;
  const isOwn = Buffer.compare(key, systemKeys.signingKey(String(id))) === 0;
  if (!isOwn || keyIdOf(String(public_key)) !== id) return "the id is not that of the public key";
  for (const change of KEY_CHANGES) {
    const seq = entries?.[change];
    if (seq === undefined && !hasChange(change, record)) continue;
    const act = seq === undefined ? null : await actAt(step, seq);
    if (act?.action !== change || act.subject?.key_id !== id) return `no audit entry records its ${change}`;
    const { signatures: _signatures, ...stated } = act.subject;
    // The entry of a request states its time once.
    const isOfTime = change !== "key_rotate" || act.at === record.rotation_requested_at;
    if (!isOfTime || !isDeepStrictEqual(stated, keySubject(change, record)))
      return `it is not what entry ${seq} records as ${change}`;
  }
  return null;
}

async function actAt({ reader }: ScrubStep, seq: number): Promise<KeyAct | null> {
  const value = await reader.get(tenantKeys(DEFAULT_TENANT).tenantAudit(seq));
  return (readEntry(value)?.facts as KeyAct | undefined) ?? null;
}

/** Verifies that the registry still has what an entry of the chain did to it. */
export async function verifyKeyAct(step: ScrubStep, seq: number, entry: unknown): Promise<void> {
  const act = entry as KeyAct;
  const { action, subject } = act;
  const change = KEY_CHANGES.find((one) => one === action);
  const id = subject?.key_id;
  if (change === undefined || typeof id !== "string") return;
  if (statesRequired(act) && (await step.reader.get(signaturesRequiredKey())) === undefined)
    noteKey(step, `the store lacks that signatures are required since entry ${seq}`);
  const value = await step.reader.get(systemKeys.signingKey(id));
  const record = value === undefined ? null : readable(() => decodeSigningKey(value));
  // A damaged record is found by itself.
  if (value !== undefined && record === null) return;
  const recorded = record?.entries?.[change] ?? 0;
  // A key is added once: its registration again would hide what was lost.
  if (recorded < seq || (change === "key_add" && recorded !== seq))
    noteKey(step, `key ${shortOf(id)}: the registry lacks the ${change} of entry ${seq}`);
}

function statesRequired(act: KeyAct | null): boolean {
  return act?.action === "key_add" && act.subject?.signatures === REQUIRED;
}

const shortOf = (id: string): string => id.slice(0, 16);

function noteKey(step: ScrubStep, details: string): void {
  new TaskScrub(step, DEFAULT_TENANT, NO_TASK, { canMark: false, found: 0 }).note(
    ofTask("signing_key", `key_record: ${details}`),
  );
}
