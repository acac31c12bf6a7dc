/** Counts and logs the damage that the audit log meets. A damaged log is logged once, although it is looked at again and again. */
import type { Logger } from "../../../shared/runtime/observability/log.ts";
import type { Metrics } from "../../../shared/runtime/observability/metrics.ts";

export class DamageLog {
  readonly #log: Logger;
  readonly #metrics: Metrics;
  readonly #tenants = new Set<string>();

  constructor({ log, metrics }: { readonly log: Logger; readonly metrics: Metrics }) {
    this.#log = log;
    this.#metrics = metrics;
  }

  count({ unreadable, damagedRows }: { readonly unreadable: number; readonly damagedRows: number }): void {
    if (unreadable > 0) {
      this.#metrics.auditLogDamageTotal.inc({ kind: "entry" }, unreadable);
      this.#log.error({ entries: unreadable }, "damaged audit entries stay out of the audit log");
    }
    if (damagedRows > 0) {
      this.#metrics.auditLogDamageTotal.inc({ kind: "feed_row" }, damagedRows);
      this.#log.error({ rows: damagedRows }, "damaged rows of the feed were passed by the audit log");
    }
  }

  found(tenant: string, error: unknown): void {
    if (this.#tenants.has(tenant)) return;
    this.#tenants.add(tenant);
    this.#log.error({ tenant, error }, "the audit log of a tenant cannot be written");
  }

  gone(tenant: string): void {
    if (this.#tenants.delete(tenant))
      this.#log.info({ tenant }, "the audit log of a tenant is written again");
  }
}
