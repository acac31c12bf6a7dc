/**
 * Reports requests that were refused before any service of the fleet saw them, for the access log: equal ones together, with their number. While the
 * fleet does not answer they are counted, and reported later.
 */
import type { Bus } from "../../bus/bus.ts";
import { encodeBody } from "../../integrity/wire.ts";
import type { Denial } from "../../protocol/access-log.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { CONTENT_TYPES, SUBJECTS } from "../../protocol/subjects.ts";
import type { Clock } from "../../runtime/clock.ts";
import type { Logger } from "../../runtime/observability/log.ts";
import type { Stop } from "../../runtime/process/service.ts";
import { startTicker } from "../../runtime/ticker.ts";
import { requestUntilDeadline } from "../request/request.ts";

const EVERY_MS = 1_000;
const DEADLINE_MS = 5_000;

export interface DenialParts {
  /** A connection of the reporting program, with which it reports in its own name. */
  readonly connect: () => Promise<Bus>;
  readonly tenant: string;
  readonly name: string;
  readonly clock: Clock;
  readonly log: Logger;
}

export type NotedDenial = Pick<Denial, "op" | "reason" | "credential" | "address">;
type CountedDenial = Denial & { count: number };

export class DenialReporter {
  readonly #parts: DenialParts;
  #denials = new Map<string, CountedDenial>();
  #bus: Bus | undefined;
  #stopped: Promise<void> | undefined;
  readonly #stopTicker: Stop;

  constructor(parts: DenialParts) {
    this.#parts = parts;
    const { clock, log } = parts;
    const run = () => this.#report();
    this.#stopTicker = startTicker({ name: "refused requests", everyMs: EVERY_MS, run, clock, log });
  }

  note(denial: NotedDenial): void {
    const at = new Date(this.#parts.clock.now()).toISOString();
    const { op, reason, credential } = denial;
    const key = [op, reason, credential].join("\n");
    const known = this.#denials.get(key) ?? this.#crowd({ op, reason, at });
    if (known === undefined) {
      this.#denials.set(key, { ...denial, at, count: 1 });
      return;
    }
    known.count += 1;
    known.until = at;
  }

  /** May be called again. */
  readonly stop: Stop = () => {
    this.#stopped ??= this.#end();
    return this.#stopped;
  };

  async #end(): Promise<void> {
    await this.#stopTicker();
    await this.#report().catch((error: unknown) =>
      this.#parts.log.warn({ error }, "refused requests are not in the access log"),
    );
    await this.#bus?.close().catch(() => {});
  }

  /** What an attacker can vary without end is counted together. undefined: there is room for one more. */
  #crowd({ op, reason, at }: Pick<Denial, "op" | "reason" | "at">): CountedDenial | undefined {
    if (this.#denials.size < LIMITS.access_log_repeat_count_max) return undefined;
    const key = [op, reason].join("\n");
    const known = this.#denials.get(key) ?? { op, reason, at, count: 0 };
    this.#denials.set(key, known);
    return known;
  }

  async #report(): Promise<void> {
    if (this.#denials.size === 0) return;
    const { connect, tenant, name, clock } = this.#parts;
    this.#bus ??= await connect();
    while (this.#denials.size > 0) {
      const some = [...this.#denials].slice(0, LIMITS.access_log_report_count_max);
      for (const [key] of some) this.#denials.delete(key);
      const body = encodeBody({ denials: some.map(([, denial]) => denial) }, CONTENT_TYPES.json);
      const subject = SUBJECTS.query(tenant, name, "denial_record");
      const options = { changes: true, deadlineMs: DEADLINE_MS };
      try {
        await requestUntilDeadline(this.#bus, clock, subject, body, options);
      } catch (error) {
        for (const [key, denial] of some) this.#again(key, denial);
        throw error;
      }
    }
  }

  /** Others of the same kind may have followed meanwhile. */
  #again(key: string, denial: CountedDenial): void {
    const later = this.#denials.get(key);
    const until = later?.until ?? later?.at ?? denial.until;
    const count = denial.count + (later?.count ?? 0);
    this.#denials.set(key, { ...denial, count, ...(until !== undefined && { until }) });
  }
}
