/**
 * Collects the entries of the access log in this process, and writes them in blocks. The policy of the tenant decides whether an answer with content
 * waits for its entry. Refusals never wait: they show nothing.
 */
import type { AccessEntry } from "../../protocol/access-log.ts";
import { FleetError } from "../../protocol/errors.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { accessLogOf, type Policies } from "../../protocol/policy.ts";
import type { AccessLogs } from "../../records/access-log/access-logs.ts";
import type { ServiceContext, Stop } from "../../runtime/process/service.ts";
import { Repeats } from "./repeats.ts";
import { type HeldCount, TenantLog } from "./tenant-log.ts";

/** Between two lines of the log about the same failure. */
const REPORT_MS = 10_000;

export type RecorderContext = Pick<ServiceContext, "log" | "metrics" | "clock">;

export class AccessRecorder {
  readonly #context: RecorderContext;
  readonly #policies: Policies;
  readonly #logs: Pick<AccessLogs, "append">;
  readonly #tenants = new Map<string, TenantLog>();
  readonly #held: HeldCount = { entries: 0 };
  readonly #repeats = new Repeats((tenant, entry) => this.#follow(tenant, entry));
  #reportedAt = Number.NEGATIVE_INFINITY;

  constructor(context: RecorderContext, policies: Policies, logs: Pick<AccessLogs, "append">) {
    this.#context = context;
    this.#policies = policies;
    this.#logs = logs;
  }

  isOn(tenant: string): boolean {
    return accessLogOf(this.#policies, tenant).mode !== "off";
  }

  /** The answer with the content leaves when this resolves; undefined: at once. Rejects with UNAVAILABLE if it must not leave. */
  read(tenant: string, entry: AccessEntry): Promise<void> | undefined {
    const { mode } = accessLogOf(this.#policies, tenant);
    if (mode === "off") return undefined;
    return this.#add(tenant, entry, mode === "strict");
  }

  /** A read that its caller repeats all the time, such as of the parts of an artifact: one entry at once, then one with their number. */
  readAgain(tenant: string, entry: AccessEntry): Promise<void> | undefined {
    if (!this.isOn(tenant)) return undefined;
    return this.#repeats.once(tenant, entry, () => this.read(tenant, entry));
  }

  /** A request that was refused, or a read of content that failed. Equal ones are counted, so that a flood of them does not fill the store. */
  refused(tenant: string, entry: AccessEntry): void {
    if (!this.isOn(tenant)) return;
    this.#repeats.once(tenant, entry, () => {
      this.#follow(tenant, entry);
      return undefined;
    });
  }

  readonly stop: Stop = async () => {
    this.#repeats.stop();
    await Promise.all([...this.#tenants.values()].map((one) => one.stop()));
  };

  /** No answer waits for it. */
  #follow(tenant: string, entry: AccessEntry): void {
    void this.#add(tenant, entry, false)?.catch(() => {});
  }

  #add(tenant: string, entry: AccessEntry, isStrict: boolean): Promise<void> | undefined {
    try {
      const written = this.#of(tenant).add(entry, isStrict);
      // Without the wait for the first block of a session, a kill could leave no trace of lost entries.
      if (!isStrict) return written?.catch(() => {});
      return written?.catch((error: unknown) => {
        throw unrecorded(error);
      });
    } catch (error) {
      return Promise.reject(unrecorded(error));
    }
  }

  #of(tenant: string): TenantLog {
    const known = this.#tenants.get(tenant);
    if (known !== undefined) return known;
    const { metrics } = this.#context;
    const made = new TenantLog({
      write: (batch) => this.#logs.append(tenant, batch),
      onWritten: (entries) => metrics.accessEntriesTotal.inc({ outcome: "written" }, entries),
      onLost: () => metrics.accessEntriesTotal.inc({ outcome: "lost" }),
      onFailed: (error) => this.#report(tenant, error),
      held: this.#held,
    });
    this.#tenants.set(tenant, made);
    return made;
  }

  #report(tenant: string, error: unknown): void {
    const { log, metrics, clock } = this.#context;
    metrics.accessFailuresTotal.inc();
    const now = clock.monotonic();
    if (now - this.#reportedAt < REPORT_MS) return;
    this.#reportedAt = now;
    log.error({ error, tenant, held: this.#held.entries }, "the access log cannot be written");
  }
}

function unrecorded(cause: unknown): FleetError {
  return new FleetError(
    "UNAVAILABLE",
    "the read cannot be recorded in the access log, so it is not answered",
    {
      retryAfterMs: LIMITS.overload_retry_ms,
      cause,
    },
  );
}
