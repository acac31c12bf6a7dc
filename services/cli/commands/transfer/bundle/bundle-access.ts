// access.jsonl: the access log of the tenant for a bundle, whole, so that a block that was left out shows.

import { FleetError } from "../../../../../shared/protocol/errors.ts";
import { LIMITS } from "../../../../../shared/protocol/limits.ts";
import type { CallOptions } from "../../../../../shared/sdk/request/request.ts";
import type { FleetClient } from "../../../../../shared/sdk/sdk.ts";
import type { ArchiveWriter } from "../../../../../shared/transfer/bundle/archive-writer.ts";
import { type AccessLine, jsonLine } from "../../../../../shared/transfer/bundle/bundle-files.ts";

/** The end of an empty log. */
const NO_BLOCK = { seq: 0, hash: "0".repeat(64) };

interface AccessCounts {
  readonly access_blocks: number;
  readonly access_lost: number;
  readonly access_records: number;
  readonly access_statements: number;
}

interface WrittenAccess {
  readonly counts: AccessCounts;
  /** The newest block in the file. */
  readonly end: { readonly seq: number; readonly hash: string };
}

/** The blocks up to the newest one of now, and before them what the chain of the tenant states of them. */
export async function writeAccessLog(
  { admin }: FleetClient,
  writer: ArchiveWriter,
  call: CallOptions,
): Promise<WrittenAccess> {
  // First, so that the log has every block that it states.
  const statements = await statementsOf(admin, call);
  const limit = LIMITS.access_log_blocks_limit_max;
  const first = await admin.accessLog.blocks({ ...call, limit });
  const { start, head } = first;
  const counts = { access_blocks: 0, access_lost: 0, access_records: 0 };
  const write = (line: AccessLine) => writer.append(jsonLine(line));
  writer.begin("access.jsonl");
  await write({ kind: "log", start: placeOf(start), head: placeOf(head) });
  for (const line of statements) await write(line);
  for (let page = first, next = 0; next < (head?.seq ?? 0); ) {
    if ((page.start?.seq ?? 0) !== (start?.seq ?? 0)) throw movedAway();
    for (const { seq, entry } of page.entries) {
      if (seq > head!.seq) break;
      const signature = page.signatures.find((one) => one.seq === seq)?.envelope ?? null;
      await write({ kind: "block", seq, entry, ...(signature !== null && { signature }) });
      const { entries = [], lost = 0 } = factsOf(entry);
      counts.access_blocks += 1;
      counts.access_records += entries.length;
      counts.access_lost += lost;
    }
    next = page.entries.at(-1)?.seq ?? head!.seq;
    if (next < head!.seq) page = await admin.accessLog.blocks({ ...call, fromSeq: next + 1, limit });
  }
  await writer.end();
  const end = placeOf(head) ?? NO_BLOCK;
  return { counts: { ...counts, access_statements: statements.length }, end };
}

const placeOf = (place: { readonly seq: number; readonly hash: string } | null) =>
  place && { seq: place.seq, hash: place.hash };

/** A damaged block is a finding of the verifiers. */
function factsOf(entry: string): { readonly entries?: readonly unknown[]; readonly lost?: number } {
  try {
    return (JSON.parse(entry) as ReturnType<typeof factsOf> | null) ?? {};
  } catch {
    return {};
  }
}

async function statementsOf(
  admin: FleetClient["admin"],
  call: CallOptions,
): Promise<readonly Extract<AccessLine, { kind: "statement" }>[]> {
  const found: Extract<AccessLine, { kind: "statement" }>[] = [];
  for (let fromSeq = 1; ; ) {
    const query = { ...call, fromSeq, limit: LIMITS.audit_limit_max, signatures: true };
    const { entries, signatures = [], more } = await admin.tenantAudit(query);
    for (const { seq, entry } of entries) {
      const { action } = JSON.parse(entry) as { readonly action?: unknown };
      if (action !== "access_log") continue;
      const end = signatures.find((one) => one.seq >= seq);
      const signature = end?.envelope ?? null;
      found.push({
        ...{ kind: "statement", seq, entry, end: end?.seq ?? seq },
        ...(signature !== null && { signature }),
      });
    }
    const last = entries.at(-1);
    if (!more || last === undefined) return found;
    fromSeq = last.seq + 1;
  }
}

const movedAway = () =>
  new FleetError("UNAVAILABLE", "retention removes the access log while it is read; repeat the export");
