/**
 * The scrubber's view of a snapshot: it counts the reads, limits the size of a step and collects the
 * findings.
 */
import { setImmediate } from "node:timers/promises";
import type { CorruptCheckpoint } from "../../protocol/checkpoint-pages.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { ScrubFinding, ScrubTally } from "../../protocol/scrub.ts";
import { type Bytes, type KeyValue, type Reader, STORE_LIMITS } from "../../store/store.ts";
import { EncryptedReader } from "../encryption/encrypted-reader.ts";
import type { KeyRing } from "../encryption/keys/key-ring.ts";
import { type TenantKeys, tenantKeys } from "../kv/keyspace.ts";

/** A record that fails verification. */
export type Damage = Pick<ScrubFinding, "kind" | "checkpoint_id" | "version" | "details" | "quarantined">;

export interface FoundDamage extends Damage {
  readonly tenant: string;
  readonly task: string;
}

/** A corrupt current version, which must be quarantined. */
export interface CorruptCurrentVersion {
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
  unsigned_entries: 0,
  bytes: 0,
  quarantined: 0,
  findings: 0,
};

/** Bytes read between two yields to the event loop: an embedded store answers without yielding. */
const YIELD_BYTES = 64 * 1024;

/** A quarter of the maximum age of a snapshot. */
const STEP_MS_MAX = STORE_LIMITS.transaction_ms_max / 4;

export type ArtifactSize = (place: {
  readonly tenant: string;
  readonly upload: string;
  readonly parts: number;
}) => Promise<number>;

/** The bytes of artifacts, where this process has access to them. */
export interface ArtifactBytes {
  readonly size: ArtifactSize;
  /** The hash of an upload. null: bytes are lost or damaged. Throws if the scrub may not continue. */
  readonly hash: (place: {
    readonly tenant: string;
    readonly upload: string;
    readonly size: number;
  }) => Promise<string | null>;
  readonly graceMs: number;
}

/** What the bytes of an artifact showed. */
export interface ArtifactVerdict {
  readonly tenant: string;
  readonly hash: string;
  readonly upload: string;
  readonly isDamaged: boolean;
}

/** One step of a pass. All its reads go through `reader`, so that they are counted and bounded. */
export class ScrubStep {
  readonly reader: Reader;
  readonly tally: Tally = { ...NOTHING };
  readonly damages: FoundDamage[] = [];
  readonly corrupt: CorruptCurrentVersion[] = [];
  /** What the bytes of sampled artifacts showed. */
  readonly verdicts: ArtifactVerdict[] = [];
  /** Tasks whose head has an earlier layout. */
  readonly earlierHeads: { readonly tenant: string; readonly task: string }[] = [];
  /** The start of the pass. A version quarantined before it is not a finding. */
  readonly passBeganMs: number;
  /** The stored bytes of an artifact's upload. undefined: this process has no access to them. */
  readonly artifactSize: ArtifactSize | undefined;
  /** null: the store is not encrypted. */
  readonly ring: KeyRing | null;
  readonly #bytesMax: number;
  #rows = 0;
  #yieldedAtBytes = 0;
  readonly #beganAt = performance.now();

  constructor(
    reader: Reader,
    options: { passBeganMs: number; bytesMax: number; artifactSize?: ArtifactSize | undefined },
  ) {
    this.artifactSize = options.artifactSize;
    this.ring = reader instanceof EncryptedReader ? reader.ring : null;
    this.reader = counted(reader, (rows, bytes) => {
      this.#rows += rows;
      this.tally.bytes += bytes;
    });
    this.passBeganMs = options.passBeganMs;
    this.#bytesMax = options.bytesMax;
  }

  /** Whether the step has reached one of its limits. The next step continues at the same place. */
  get isSpent(): boolean {
    return (
      this.tally.bytes >= this.#bytesMax ||
      this.#rows >= LIMITS.scrub_step_rows_max ||
      this.tally.tasks >= LIMITS.scrub_step_tasks_max ||
      // On a busy event loop even a small step could outlive its snapshot, and every repetition of it too.
      performance.now() - this.#beganAt > STEP_MS_MAX
    );
  }

  /** Adds a finding, unless the step has it already. For records that are not read with their task. */
  noteOnce(tenant: string, task: string, damage: Damage): void {
    const isKnown = this.damages.some(
      (one) =>
        one.tenant === tenant &&
        one.task === task &&
        one.details === damage.details &&
        one.checkpoint_id === damage.checkpoint_id,
    );
    if (!isKnown) new TaskScrub(this, tenant, task, { canMark: false, found: 0 }).note(damage);
  }

  /** Yields to the event loop after every {@link YIELD_BYTES} bytes. */
  async yieldToOthers(): Promise<void> {
    if (this.tally.bytes - this.#yieldedAtBytes < YIELD_BYTES) return;
    this.#yieldedAtBytes = this.tally.bytes;
    await setImmediate();
  }
}

/** The part of a step that concerns one task. */
export class TaskScrub {
  readonly step: ScrubStep;
  readonly tenant: string;
  readonly task: string;
  readonly keys: TenantKeys;
  /** Whether audit entries can be appended to the task, which a quarantine does. */
  canMark: boolean;
  /** The number of findings in this task so far, including earlier steps. */
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

  /**
   * Adds a finding. The number per task is limited, because a badly damaged task could produce any number.
   */
  note(damage: Omit<Damage, "quarantined"> & { readonly quarantined?: boolean }): void {
    this.found += 1;
    if (this.found > LIMITS.scrub_findings_of_task_max) return;
    const { tenant, task } = this;
    const listed: Damage =
      this.found < LIMITS.scrub_findings_of_task_max
        ? { quarantined: false, ...damage }
        : { ...OF_THE_TASK, kind: "record", details: "more is wrong with this task than is listed" };
    this.step.damages.push({ tenant, task, ...listed });
    this.step.tally.findings += 1;
  }
}

/** What operators read about a problem of a chain. */
export const CHAIN_PROBLEMS = {
  gap: "an entry before it is missing",
  broken_link: "it does not contain the hash of the entry before it",
  not_canonical: "it is damaged",
  wrong_head: "the chain does not end in its head",
} as const;

const OF_THE_TASK = { checkpoint_id: null, version: null, quarantined: false } as const;

/** A finding about the task, or about a part of it that is not a checkpoint. */
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
      // An empty result counts as one row, because it had a cost too.
      count(
        Math.max(1, page.rows.length),
        page.rows.reduce((sum, row) => sum + sizeOf(row), 0),
      );
      return page;
    },
  };
}
