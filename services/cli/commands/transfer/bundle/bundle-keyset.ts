// The registry of signing keys for a bundle, with the audit entries that prove its records.

import { FleetError } from "../../../../../shared/protocol/errors.ts";
import { DEFAULT_TENANT } from "../../../../../shared/protocol/ids.ts";
import { LIMITS } from "../../../../../shared/protocol/limits.ts";
import type { SigningKeyList } from "../../../../../shared/protocol/signing-keys.ts";
import type { CallOptions } from "../../../../../shared/sdk/request/request.ts";
import type { FleetClient } from "../../../../../shared/sdk/sdk.ts";
import type { KeyChangeEntry } from "../../../../../shared/transfer/bundle/bundle-files.ts";
import type { BundleRevocation } from "../../../../../shared/transfer/bundle/offline/bundle-keys.ts";

/** Keys change rarely, so a list that changes while it is read is read again. */
const READS_MAX = 5;

export interface ProvedKeys {
  readonly list: SigningKeyList;
  /** null: their chain is that of another tenant. */
  readonly changes: readonly KeyChangeEntry[] | null;
}

export async function keyChanges(client: FleetClient, call: CallOptions): Promise<ProvedKeys> {
  const { admin, tenant } = client;
  for (let read = 1; read <= READS_MAX; read += 1) {
    const before = await admin.signingKeys(call);
    if (tenant !== DEFAULT_TENANT) return { list: before, changes: null };
    const changes = await changesIn(client, call);
    const list = await admin.signingKeys(call);
    if (JSON.stringify(list) === JSON.stringify(before)) return { list, changes };
  }
  throw new FleetError("UNAVAILABLE", "the signing keys change while they are read; repeat the export");
}

async function changesIn({ admin }: FleetClient, call: CallOptions): Promise<readonly KeyChangeEntry[]> {
  const found: KeyChangeEntry[] = [];
  for (let fromSeq = 1; ; ) {
    const query = { ...call, fromSeq, limit: LIMITS.audit_limit_max, signatures: true };
    const { entries, signatures = [], more } = await admin.tenantAudit(query);
    for (const { seq, entry } of entries) {
      const { action } = JSON.parse(entry) as { readonly action?: unknown };
      if (typeof action !== "string" || !action.startsWith("key_")) continue;
      const end = signatures.find((one) => one.seq >= seq);
      found.push({ seq, entry, end: end?.seq ?? seq, signature: end?.envelope ?? null });
    }
    const last = entries.at(-1);
    if (!more || last === undefined) return found;
    fromSeq = last.seq + 1;
  }
}

/** Of these keys. */
export function revocationsIn({ keys }: SigningKeyList, ids: readonly string[]): BundleRevocation[] {
  return keys.flatMap(({ key_id, revoked_at, revoked_reason: reason }) =>
    revoked_at !== null && ids.includes(key_id) ? [{ key_id, revoked_at, reason }] : [],
  );
}
