/**
 * Looks in all tenants for acts that are not in the log, a page of tenants in each step. Acts of a service of an earlier
 * version, which may run beside this one, mark no tenant as due. Logs that no key in use has signed are signed again.
 */

import { DEFAULT_TENANT } from "../../../shared/protocol/ids.ts";
import type { AuditLogging } from "../../../shared/records/audit-log/log-job.ts";
import { signLogsAgain } from "../../../shared/records/audit-log/log-signing.ts";
import { markUnloggedActs } from "../../../shared/records/audit-log/log-walk.ts";
import type { Clock } from "../../../shared/runtime/clock.ts";
import type { Logger } from "../../../shared/runtime/observability/log.ts";

/** The rest between two walks. */
const EVERY_MS = 600_000;

export class ActWalk {
  readonly #clock: Clock;
  readonly #log: Logger;
  /** The fence under which the walk began. Another holder may have stopped within it. */
  #fence: number | null = null;
  #next: string | null = null;
  #restsUntil = 0;

  constructor({ clock, log }: { readonly clock: Clock; readonly log: Logger }) {
    this.#clock = clock;
    this.#log = log;
  }

  /** Always false: the walk is slow, so that it takes nothing from the log. */
  async step(logging: AuditLogging, fence: number): Promise<boolean> {
    const isNew = this.#fence !== fence;
    const isDue = this.#next === null && this.#clock.monotonic() >= this.#restsUntil;
    if (isNew || isDue) this.#next = DEFAULT_TENANT;
    this.#fence = fence;
    if (this.#next === null) return false;
    const { tenants } = await signLogsAgain(logging, this.#next);
    if (tenants.length > 0)
      this.#log.info({ tenants }, "checkpoints of audit logs are signed with another key");
    this.#next = await markUnloggedActs(logging, this.#next);
    if (this.#next === null) this.#restsUntil = this.#clock.monotonic() + EVERY_MS;
    return false;
  }
}
