/** What the scrubber looks at a task through: a snapshot that is counted and ends where a step should, and a place for what it finds. */
import { setImmediate } from "node:timers/promises";
import { LIMITS } from "../../protocol/limits.ts";
import type { CorruptCheckpoint } from "../../protocol/queries.ts";
import type { ScrubFinding, ScrubTally } from "../../protocol/scrub.ts";
import { type Bytes, type KeyValue, type Reader, STORE_LIMITS } from "../../store/store.ts";
import { type TenantKeys, tenantKeys } from "../kv/keyspace.ts";

/** Something that does not verify. */
export type Damage = Pick<ScrubFinding, "kind" | "checkpoint_id" | "version" | "details" | "quarantined">;

export interface FoundDamage extends Damage {
  readonly tenant: string;
  readonly task: string;
}

/** A current version that is to be quarantined. */
export interface CorruptVersion {
  readonly tenant: string;
  readonly task: string;
  readonly corrupt: CorruptCheckpoint;
}

export type Tally = { -readonly [K in keyof ScrubTally]: ScrubTally[K] };

export const NOTHING: ScrubTally = {
  tasks: 0,
  checkpoints: 0,
  versions: 0,
  audit_entries: 0,
  bytes: 0,
  quarantined: 0,
  findings: 0,
};

/** Read without a rest; an embedded store answers without leaving the event loop. */
const BREATH_BYTES = 64 * 1024;

/** A quarter of what a snapshot may last. */
const STEP_MS_MAX = STORE_LIMITS.transaction_ms_max / 4;

/** One step of a pass: everything that it reads is read through this, so that it is bounded and counted. */
export class ScrubStep {
  readonly reader: Reader;
  readonly tally: Tally = { ...NOTHING };
  readonly damages: FoundDamage[] = [];
  readonly corrupt: CorruptVersion[] = [];
  /** Tasks whose head has the form of an earlier layout. */
  readonly earlierHeads: { readonly tenant: string; readonly task: string }[] = [];
  /** When the pass began: what was quarantined before is known. */
  readonly passBeganMs: number;
  readonly #bytesMax: number;
  #rows = 0;
  #breathedAt = 0;
  readonly #beganAt = performance.now();

  constructor(reader: Reader, options: { passBeganMs: number; bytesMax: number }) {
    this.reader = counted(reader, (rows, bytes) => {
      this.#rows += rows;
      this.tally.bytes += bytes;
    });
    this.passBeganMs = options.passBeganMs;
    this.#bytesMax = options.bytesMax;
  }

  /** Whether the step has read enough; what it is in the middle of is gone on with in the next one. */
  get isSpent(): boolean {
    return (
      this.tally.bytes >= this.#bytesMax ||
      this.#rows >= LIMITS.scrub_step_rows_max ||
      this.tally.tasks >= LIMITS.scrub_step_tasks_max ||
      // Where others have the event loop nearly all the time, a step of any size would outlive its snapshot, again and again.
      performance.now() - this.#beganAt > STEP_MS_MAX
    );
  }

  /** Lets others have the event loop, now and then. */
  async breathe(): Promise<void> {
    if (this.tally.bytes - this.#breathedAt < BREATH_BYTES) return;
    this.#breathedAt = this.tally.bytes;
    await setImmediate();
  }
}

/** One task in a step. */
export class Sight {
  readonly step: ScrubStep;
  readonly tenant: string;
  readonly task: string;
  readonly keys: TenantKeys;
  /** Whether the task takes further audit entries, so that a corrupt version of it can be quarantined. */
  canMark: boolean;
  /** Findings in this task so far, also of the steps before. */
  found: number;

  constructor(step: ScrubStep, tenant: string, task: string, before: { canMark: boolean; found: number }) {
    this.step = step;
    this.tenant = tenant;
    this.task = task;
    this.keys = tenantKeys(tenant);
    this.canMark = before.canMark;
    this.found = before.found;
  }

  get reader(): Reader {
    return this.step.reader;
  }

  /** Of one task so much is listed; where all is broken, one more line would help nobody. */
  note(damage: Omit<Damage, "quarantined"> & { readonly quarantined?: boolean }): void {
    this.found += 1;
    if (this.found > LIMITS.scrub_findings_of_task_max) return;
    const { tenant, task } = this;
    const whole: Damage =
      this.found < LIMITS.scrub_findings_of_task_max
        ? { quarantined: false, ...damage }
        : { ...OF_THE_TASK, kind: "record", details: "more is wrong with this task than is listed" };
    this.step.damages.push({ tenant, task, ...whole });
    this.step.tally.findings += 1;
  }
}

const OF_THE_TASK = { checkpoint_id: null, version: null, quarantined: false } as const;

/** About the task, or about a part of it that is no checkpoint. */
export function ofTask(kind: Damage["kind"], details: string): Damage {
  return { ...OF_THE_TASK, kind, details };
}

const sizeOf = ({ key, value }: KeyValue): number => key.length + value.length;

function counted(reader: Reader, count: (rows: number, bytes: number) => void): Reader {
  const countValues = (keys: readonly Bytes[], values: readonly (Bytes | undefined)[]): void => {
    const bytes = keys.reduce((sum, key, i) => sum + key.length + (values[i]?.length ?? 0), 0);
    count(keys.length, bytes);
  };
  return {
    async get(key) {
      const value = await reader.get(key);
      countValues([key], [value]);
      return value;
    },
    async getMany(keys) {
      const values = await reader.getMany(keys);
      countValues(keys, values);
      return values;
    },
    async getRange(range, options) {
      const page = await reader.getRange(range, options);
      // An empty answer was looked for too.
      count(
        Math.max(1, page.rows.length),
        page.rows.reduce((sum, row) => sum + sizeOf(row), 0),
      );
      return page;
    },
  };
}
