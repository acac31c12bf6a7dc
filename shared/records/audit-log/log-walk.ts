/** Marks the tenants whose chains have acts of an earlier version, which marked none. Such a service may also run beside a newer one. */
import { DEFAULT_TENANT } from "../../protocol/ids.ts";
import { markLogDue } from "../audit/log-due.ts";
import { parseSeq, tenantKeys } from "../kv/keyspace.ts";
import { tenantAfter } from "../kv/tenants.ts";
import { type AuditLogging, LOG_READ_DEADLINE_MS, LOG_WRITE } from "./log-job.ts";
import { lastPlaced } from "./log-records.ts";

/** Tenants in one transaction. */
const WALK_TENANTS = 50;

/** Returns the tenant with which the next call continues; null: all are marked. */
export async function markUnloggedActs(
  { store, guard }: Pick<AuditLogging, "store" | "guard">,
  from: string = DEFAULT_TENANT,
): Promise<string | null> {
  const reading = { label: "walk_log", deadlineMs: LOG_READ_DEADLINE_MS };
  const { next, behind } = await store.read(reading, async (reader) => {
    const tenants: string[] = [];
    let next: string | null = from;
    for (; tenants.length < WALK_TENANTS && next !== null; next = await tenantAfter(reader, next))
      tenants.push(next);
    const found = await Promise.all(
      tenants.map(async (tenant) => {
        const keys = tenantKeys(tenant);
        const { rows } = await reader.getRange(keys.tenantAudits(), { limit: 1, reverse: true });
        const seq = rows[0] === undefined ? 0 : parseSeq(rows[0].key);
        return seq > (await lastPlaced(reader, keys, null)) ? [{ tenant, seq }] : [];
      }),
    );
    return { next, behind: found.flat() };
  });
  if (behind.length > 0)
    await store.transact({ ...LOG_WRITE, label: "mark_log" }, async (tx) => {
      await guard(tx);
      for (const { tenant, seq } of behind) markLogDue(tx, tenant, seq);
    });
  return next;
}
