/** Looks at the logs that are behind, one after the other, and appends what a log lacks that is sound again. */

import { stepCatchUp } from "../../../shared/records/audit-log/log-catch-up.ts";
import type { AuditLogging } from "../../../shared/records/audit-log/log-job.ts";
import type { Clock } from "../../../shared/runtime/clock.ts";
import type { Metrics } from "../../../shared/runtime/observability/metrics.ts";
import type { DamageLog } from "./damage-log.ts";

/** The rest after each log was looked at. */
const EVERY_MS = 30_000;

export class BehindLogs {
  readonly #clock: Clock;
  readonly #metrics: Metrics;
  readonly #damage: DamageLog;
  /** The tenant that was looked at last. */
  #tenant: string | null = null;
  #restsUntil = 0;

  constructor({ clock, metrics }: { readonly clock: Clock; readonly metrics: Metrics }, damage: DamageLog) {
    this.#clock = clock;
    this.#metrics = metrics;
    this.#damage = damage;
  }

  /** Returns whether another step can follow at once. */
  async step(logging: AuditLogging): Promise<boolean> {
    if (this.#clock.monotonic() < this.#restsUntil) return false;
    const step = await stepCatchUp(logging, this.#tenant);
    if (step === null) {
      this.#tenant = null;
      this.#restsUntil = this.#clock.monotonic() + EVERY_MS;
      return false;
    }
    const { tenant, appended, unreadable, error, more } = step;
    this.#metrics.auditLogAppendedTotal.inc(appended);
    this.#damage.count({ unreadable, damagedRows: 0 });
    if (error !== null) this.#damage.found(tenant, error);
    else if (!more) this.#damage.gone(tenant);
    // The next step continues with the same tenant, whose row is the first one after the tenant before it.
    if (!more) this.#tenant = tenant;
    return error === null;
  }
}
