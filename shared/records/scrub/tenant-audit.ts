/**
 * Verifies the audit chain of a tenant: its numbers have no gaps, each entry has the hash of the one before,
 * and the head is the newest entry. The chain only grows, so it is verified up to its end at the beginning.
 */
import { CHAIN_START, createChainVerifier } from "../../integrity/chain.ts";
import { NO_TASK } from "../../protocol/alerts.ts";
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import type { Bytes } from "../../store/store.ts";
import type { ChainHead } from "../audit/audit.ts";
import { lastPlaced } from "../audit-log/log-records.ts";
import { CONVERTED_ACT } from "../encryption/conversion-statement.ts";
import type { EncryptionState } from "../encryption/encryption-state.ts";
import { decodeChecked, readable } from "../kv/codec.ts";
import { parseSeq, systemKeys, tenantKeys } from "../kv/keyspace.ts";
import { verifyStatedBlock } from "./access-log.ts";
import { CHAIN_PROBLEMS, ofTask, type ScrubStep, TaskScrub } from "./scrub-reader.ts";
import { verifyKeyAct } from "./signing-keys.ts";
import { readEntry } from "./trail/entries.ts";
import { verifyLogged } from "./trail/log-places.ts";
import { verifySignerAct } from "./trail/passkeys.ts";
import { verifyNoneAfter, verifySignatures } from "./trail/signatures.ts";

/** The number of entries in one read. */
const SLICE = 64;

export interface TenantChainAt {
  /** The last verified entry. */
  readonly seq: number;
  readonly hash: string;
  /** The end of the chain when its verification began. */
  readonly through: ChainHead;
  /** The findings in the chain so far. */
  readonly found: number;
}

/** Returns where the next call continues; null: the chain is verified. `from` null: the chain begins. */
export async function verifyTenantAudit(
  step: ScrubStep,
  tenant: string,
  from: TenantChainAt | null,
): Promise<TenantChainAt | null> {
  const keys = tenantKeys(tenant);
  const scrub = new TaskScrub(step, tenant, NO_TASK, { canMark: false, found: from?.found ?? 0 });
  const at = from ?? (await begin(scrub));
  if (at === null) return null;
  const { through } = at;
  const range = { begin: keys.tenantAudit(at.seq + 1), end: keys.tenantAudit(through.seq + 1) };
  const { rows } = await step.reader.getRange(range, { limit: SLICE });
  const verifier = createChainVerifier(at);
  const entries = rows.map(({ key, value }) => ({ seq: parseSeq(key), read: readEntry(value) }));
  for (const { seq, read: entry } of entries) {
    verifier.add({ seq, entry: entry?.text ?? "" });
    if (tenant === DEFAULT_TENANT && entry?.facts !== undefined) await verifyKeyAct(step, seq, entry.facts);
    const { action, subject } = (entry?.facts ?? {}) as {
      readonly action?: unknown;
      readonly subject?: unknown;
    };
    if (action === "access_log") await verifyStatedBlock(scrub, subject);
    if (entry?.facts !== undefined) await verifySignerAct(scrub, seq, entry.facts);
    if (action === CONVERTED_ACT) await verifyConverted(scrub, seq);
    if (entry?.facts !== undefined && entry.facts.tenant !== tenant) {
      note(scrub, `entry ${seq} is of another tenant`);
    }
  }
  await verifySignatures(scrub, null, entries);
  await verifyLogged(scrub, null, entries);
  const isLast = rows.length < SLICE;
  if (isLast) await verifyNoneAfter(scrub, null, through.seq);
  const { seq, hash } = verifier.reached();
  const { problems } = isLast ? verifier.finish(through) : verifier.reached();
  for (const { seq, problem } of problems) note(scrub, `entry ${seq}: ${CHAIN_PROBLEMS[problem]}`);
  return isLast ? null : { seq, hash, through, found: scrub.found };
}

/** The record of the encryption must not be one of before this entry. */
async function verifyConverted(scrub: TaskScrub, seq: number): Promise<void> {
  const value = await scrub.reader.get(systemKeys.encryption());
  const record = value && readable(() => decodeChecked<EncryptionState>(value));
  if (record?.state !== "complete")
    note(scrub, `entry ${seq} states that all rows are encrypted, and the record of the encryption does not`);
}

/** null: the tenant has no chain. */
async function begin(scrub: TaskScrub): Promise<TenantChainAt | null> {
  const { reader, keys } = scrub;
  const value = await reader.get(keys.tenantChain());
  const { rows } = await reader.getRange(keys.tenantAudits(), { limit: 1, reverse: true });
  const last = rows[0] === undefined ? 0 : parseSeq(rows[0].key);
  const logged = await lastPlaced(reader, keys, null);
  if (value === undefined) {
    if (last > 0 || logged > 0) note(scrub, "the head is lost");
    return null;
  }
  const head = readHead(value);
  if (head === null) {
    note(scrub, "the head cannot be read");
    return null;
  }
  if (last > head.seq) note(scrub, "the head is older than the newest entry");
  if (logged > head.seq) note(scrub, `the audit log names entry ${logged}, which is after the head`);
  return { seq: 0, hash: CHAIN_START, through: head, found: scrub.found };
}

function readHead(value: Bytes): ChainHead | null {
  const head = readable(() => decodeChecked<ChainHead>(value));
  return Number.isSafeInteger(head?.seq) && typeof head?.hash === "string" ? head : null;
}

function note(scrub: TaskScrub, details: string): void {
  scrub.note(ofTask("tenant_audit", details));
}
